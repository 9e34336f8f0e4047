"""Ways around a rule that denies, each of which a real shell would follow: none of them gets past it, in any mode."""

from __future__ import annotations

import pytest
from tests.shell.ground_plan import Plan


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("cu\\\nrl x", "deny command curl"),
        ("git pu\\\nsh", "deny command git push"),
        ("bash -c 'cu\\\nrl x'", "deny command curl"),
        ("bash -c 'echo \\\\\ncurl x'", "deny command curl"),
        ("echo \\\\\ncurl x", "deny command curl"),
        ("X='cu\\\nrl x'", "deny command curl"),
        ("echo $(cu\\\nrl x)", "deny command curl"),
        ("while true; do git pu\\\nsh; done", "deny command git push"),
    ],
)
def test_a_line_that_goes_on_in_the_next_hides_nothing(plan: Plan, command: str, rule: str) -> None:
    assert plan.rule(command, [rule], "full-access").outcome == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "X=curl; $X x",
        "X=curl\n$X x",
        "X=curl && $X x",
        "X='curl x'; $X",
        "export X=curl; $X x",
        "for c in curl wget; do $c x; done",
        "for c in 'cu''rl'; do $c x; done",
        "if true; then for c in a curl; do $c x; done; fi",
    ],
)
def test_a_program_that_a_variable_names_is_found(plan: Plan, command: str) -> None:
    assert plan.rule(command, ["deny command curl"], "full-access").outcome == "deny"
