"""Rules are short lines: they are read, printed and read again without a change, and a wrong one says what is wrong."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.core.errors import ConfigError
from pilothouse.core.policy import KINDS, OUTCOMES, Rule, matches_glob, parse_rule, path_regex

visible = st.text(st.characters(categories=("L", "N", "P", "S", "Zs")), min_size=1, max_size=20)
one_line = visible.map(lambda text: " ".join(text.split())).filter(bool)
host = st.from_regex(r"(\*\.)?[a-z0-9]{1,8}(\.[a-z0-9]{1,8}){0,3}", fullmatch=True)


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    outcome, kind = draw(st.sampled_from(OUTCOMES)), draw(st.sampled_from(KINDS))
    if kind == "domain":
        return Rule(outcome, kind, (draw(host),))
    if kind == "glob":
        return Rule(outcome, kind, (draw(one_line),))
    most = {"command": 4, "mcp": 2}.get(kind, 1)
    return Rule(outcome, kind, tuple(draw(st.lists(visible, min_size=1, max_size=most))))


@given(rules())
def test_a_rule_is_printed_and_read_again_without_a_change(rule: Rule) -> None:
    assert parse_rule(str(rule)) == rule


@given(
    st.one_of(
        st.text(max_size=60),
        st.tuples(st.sampled_from(OUTCOMES), st.sampled_from(KINDS), st.text()).map(" ".join),
    )
)
def test_any_line_is_a_rule_or_an_error(line: str) -> None:
    try:
        rule = parse_rule(line)
    except ConfigError:
        return
    assert parse_rule(str(rule)) == rule


@pytest.mark.parametrize(
    "line",
    [
        "allow command git status",
        "deny glob npm publish*",
        "deny path ~/.ssh/**",
        "allow read '/my files/**'",
        "ask tool Write",
        "allow domain *.python.org",
        "allow mcp github search_*",
        "allow skill pdf",
    ],
)
def test_the_lines_of_the_manual_are_printed_as_they_were_written(line: str) -> None:
    assert str(parse_rule(line)) == line


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("alow command ls", "did you mean allow?"),
        ("deny comand ls", "did you mean command?"),
        ("deny", "is about nothing"),
        ("deny command", "does not say which command"),
        ("deny command 'ls", "a quote that is not closed"),
        ("deny path a b", "names too much"),
        ("deny domain https://example.org", "names no domain"),
        ("deny command ls\nallow command rm", "invisible characters"),
        ("deny command r\u200bm", "invisible characters"),
        ("deny path " + "x" * 600, "longer than"),
    ],
)
def test_a_wrong_rule_says_what_is_wrong(line: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint.replace("?", r"\?")):
        parse_rule(line)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [("ab*ba", "aba"), ("a*a", "a"), ("npm run x*x", "npm run x"), ("*ab*ba", "xaba"), ("a?*?b", "axb")],
)
def test_the_ends_of_a_glob_do_not_share_characters(pattern: str, text: str) -> None:
    assert not matches_glob(pattern, text)


@given(st.text("ab*?. ", max_size=8), st.text("ab. X", max_size=10), st.booleans())
def test_a_glob_matches_what_the_same_regular_expression_matches(pattern: str, text: str, case: bool) -> None:
    meanings = {"*": ".*", "?": "."}
    slow = re.compile("".join(meanings.get(c, re.escape(c)) for c in pattern), 0 if case else re.IGNORECASE)
    assert matches_glob(pattern, text, case=case) is (slow.fullmatch(text) is not None)


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("/a/*", "/a/b", True),
        ("/a/*", "/a/b/c", False),
        ("/a/**", "/a", True),
        ("/a/**", "/a/b/c", True),
        ("/a/**", "/ab", False),
        ("/a/**/c", "/a/c", True),
        ("/a/**/c", "/a/b/b/c", True),
        ("/a/?.py", "/a/x.py", True),
        ("/a/?.py", "/a/xy.py", False),
        ("/a.b", "/axb", False),
    ],
)
def test_a_star_stays_in_one_name_and_two_go_through_folders(pattern: str, path: str, matches: bool) -> None:
    assert bool(path_regex(pattern).fullmatch(path)) is matches
