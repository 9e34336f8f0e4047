"""Which ruling wins."""

from itertools import permutations

import pytest

from pilothouse.core.policy import NO_RULE, PolicyOutcome, Ruling, strongest


@pytest.mark.parametrize(
    ("outcomes", "winner"),
    [
        (["allow"], "allow"),
        (["ask"], "ask"),
        (["deny"], "deny"),
        (["allow", "ask"], "ask"),
        (["allow", "deny"], "deny"),
        (["ask", "deny"], "deny"),
        (["allow", "ask", "deny"], "deny"),
        (["allow", "allow", "ask"], "ask"),
    ],
)
def test_a_deny_beats_an_ask_and_an_ask_beats_an_allow(
    outcomes: list[PolicyOutcome], winner: PolicyOutcome
) -> None:
    for order in permutations(outcomes):
        assert strongest(map(Ruling, order)).outcome == winner


def test_the_first_of_equal_rulings_is_named() -> None:
    rulings = [Ruling("allow", "a"), Ruling("ask", "b"), Ruling("ask", "c")]
    assert strongest(rulings).rule == "b"


def test_no_rule_means_ask() -> None:
    assert strongest([]) == NO_RULE
    assert NO_RULE.outcome == "ask"
