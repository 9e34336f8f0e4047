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


@pytest.mark.parametrize(
    "command",
    [
        "x " + "".join(f"'a {n}' " for n in range(120)) + "'cu\"\"rl x'",
        "x '" + "a " * 1200 + 'cu""rl x\'',
        ": '" + "a " * 60_000 + "'; cu''rl x",
        "cat <<A\nA\n" * 60 + "cu''rl x",
        "ls )" + " a" * 20_000 + "; cu''rl x",
        "env c{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b} x",
        "c{" + "a," * 200 + "url} x",
    ],
    ids=["texts", "nested", "bytes", "documents", "crude", "spread", "spelling"],
)
def test_what_is_too_much_to_read_is_asked_where_a_rule_might_mean_it(plan: Plan, command: str) -> None:
    for rule in ("deny command curl", "ask path .env", "deny glob *curl* x*", "deny domain example.org"):
        assert plan.rule(command, [rule], "full-access").outcome != "allow"
    for rule in ("allow command curl", "deny mcp hub"):
        assert plan.rule(command, [rule], "full-access").outcome == "allow"


def test_more_commands_than_a_pattern_is_tried_on_are_asked_about(plan: Plan) -> None:
    command = "".join(f"echo a{n};" for n in range(1200)) + "cu''rl x"
    assert plan.rule(command, ["deny glob curl x"], "full-access").outcome == "ask"
    assert plan.rule(command, ["deny command wget"], "full-access").outcome == "allow"


def test_more_words_than_a_rule_looks_at_are_asked_about(plan: Plan) -> None:
    command = "git" + " -c a=b" * 150 + " push"
    assert plan.rule(command, ["deny command git push"], "full-access").outcome == "ask"
    assert plan.rule(command, ["deny command curl"], "full-access").outcome != "deny"
    assert plan.rule("git add" + " a" * 300, ["deny command curl"], "full-access").outcome == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "make $X",
        'npm run "$X" -- "${Y:-a b}" $(git rev-parse HEAD)',
        "docker run -v $(pwd):/x `id -u` a",
        "for f in " + "a.py " * 300 + '; do python "$f"; done',
        "gh pr create --body '" + "It works, and it doesn't. ".replace("'", "") * 60 + "'",
        "cat > a <<'EOF'\n" + "x = 'a b'\n" * 1000 + "EOF",
    ],
)
def test_everyday_work_is_not_too_much_to_read(plan: Plan, command: str) -> None:
    rules = ["deny command curl", "deny command git push", "deny path .env", "deny glob curl *"]
    assert plan.rule(command, rules, "full-access").outcome == "allow"


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("sort --output=x a", "deny command sort -o"),
        ("sort --out x a", "deny command sort -o"),
        ("rm -fr a", "deny command rm -rf"),
        ("rm -r -f a", "deny command rm -rf"),
        ("rm -r a -v --force", "deny command rm -rf"),
        ("find . -exec ls {} +", "deny command find -exec"),
        ("/usr/bin/cur? x", "deny command curl"),
        ("env /usr/bin/c[u]* x", "deny command curl"),
        ("{cu,}rl x", "deny command curl"),
        ("ls;{cu,}rl x", "deny command curl"),
        ("env cu{r,}l x", "deny command curl"),
        ("git pus[h]", "deny command git push"),
        ("git pu{sh,}", "deny command git push"),
        ("/usr/bin/gi? push", "deny command git push"),
        ("awk 'BEGIN { system(\"curl x\") }'", "deny command curl"),
        ("sed '1e curl x' a", "deny command curl"),
    ],
)
def test_an_option_or_a_program_in_another_spelling_is_the_same(plan: Plan, command: str, rule: str) -> None:
    assert plan.rule(command, [rule], "full-access").outcome == "deny"


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("rm -r a", "deny command rm -rf"),
        ("rm -f a", "deny command rm -rf"),
        ("sort -u a", "deny command sort -o"),
        ("git push --follow-tags", "deny command git push -f"),
        ("find . -name x", "deny command find -exec"),
        ("tar czf a.tgz *", "deny command curl"),
        ("python a.py c*", "deny command curl"),
        ("mkdir -p {src,tests}", "deny command curl"),
        ("git add *", "deny command git push"),
        ("sed -n 1,5p curl", "deny command wget"),
    ],
)
def test_an_option_that_is_not_there_is_not_found(plan: Plan, command: str, rule: str) -> None:
    assert plan.rule(command, [rule], "full-access").outcome == "allow"
