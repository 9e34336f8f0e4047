"""What is read without the grammar is what the grammar says of the same text; and what is not plain is left to it."""

from __future__ import annotations

import pytest
import tree_sitter_bash
from hypothesis import given, settings
from hypothesis import strategies as st
from tree_sitter import Language, Parser

from pilothouse.policy.script import Script
from pilothouse.policy.shell.parse import read_plain
from pilothouse.policy.shell.tree import read_statements

PARSER = Parser(Language(tree_sitter_bash.language()))
WORDS = [
    "a",
    "-n",
    "-50",
    "50",
    "0x1",
    "--a=b",
    "a=b",
    "x^y",
    "a,b",
    "@x",
    "%1",
    "+",
    "-",
    "--",
    ".",
    "/",
    "e2",
    "a==",
    "b+=c",
    "2a",
    "-eq",
    "HEAD@1",
    "a:b",
]
WORDS += ["'a b'", '"a b"', "''", '""', '" "', "'a\nb'", '"a\nb"', "'$x'", "'a\"b'", '"a\'b"', "'&& |'"]
WORDS += ['"; #x"', '"!"', "'[A-Z]+'", '"*"', '"{a,b}"', "'\\'"]
STATEMENTS = ["ls", "cat", "./run", "/bin/ls", "a.b", "_x", ".", "eval"]
JOINTS = [" && ", " || ", " | ", "; ", "&&", "||", "|", ";", "  &&  ", " 2>&1 | ", " 2>&1 && ", " 2>&1; "]
ODD_WORDS = [
    "#x",
    "x#y",
    "~",
    "*.py",
    "{}",
    "$x",
    "=b",
    "!",
    "a\\",
    "b",
    "<f",
    ">f",
    "&",
    "(",
    ")",
    ";;",
    "if",
    "then",
    "test",
    "in",
    "é",
    "'a'b",
    "'a",
    '"$x"',
    '"`x`"',
    '"',
]
ODD_STATEMENTS = [
    "time",
    "test",
    "if",
    "for",
    "do",
    "export",
    "declare",
    "let",
    "coproc",
    "!",
    "x=1",
    "%a",
    "a%",
    "[",
]
ODD_JOINTS = [" & ", " |& ", "\n", ";;", " 2>&1", " > f && ", " 2> f | ", "\\\n", "\t"]

plain = [f" {word}" for word in WORDS] + [joint + name for joint in JOINTS for name in STATEMENTS]
odd = [f" {word}" for word in ODD_WORDS] + [" && " + name for name in ODD_STATEMENTS]
odd += [joint + "ls" for joint in ODD_JOINTS]
texts = st.lists(st.sampled_from(plain * 3 + odd), max_size=12).map(lambda pieces: "ls" + "".join(pieces))


def by_grammar(text: str) -> Script:
    source = text.encode()
    tree = PARSER.parse(source)
    return read_statements(tree.root_node, source)


@settings(max_examples=800, deadline=None)
@given(texts)
def test_what_is_plain_is_what_the_grammar_says(text: str) -> None:
    found = read_plain(text)
    assert found is None or found == by_grammar(text)


@settings(max_examples=500, deadline=None)
@given(
    st.sampled_from(
        ["ls {}", "{}", "ls x{} y", "ls 'x{}' y", 'ls "x{}" | b', "ls {} 2>&1 | b", "ls a && b{}"]
    ),
    st.text(st.characters(max_codepoint=126), min_size=1, max_size=3),
)
def test_no_character_is_plain_that_means_something_to_the_grammar(frame: str, put: str) -> None:
    text = frame.format(put).strip(" \t\n")
    found = read_plain(text)
    assert found is None or found == by_grammar(text)


@pytest.mark.parametrize(
    "text",
    [
        "ls",
        "git log --oneline -5",
        "cat src/app.py && rg -n 'class [A-Z][a-z]+' src tests | head -50 && git diff --stat",
        "pytest -q tests/a.py tests/b.py 2>&1 | tail -20",
        "git add -A && git commit -m 'One line\n\nand \"more\" of it; $HOME is not replaced'",
        'echo "a b" || true; ls',
    ],
)
def test_what_agents_send_most_needs_no_grammar(text: str) -> None:
    assert read_plain(text) == by_grammar(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "ls &",
        "ls;",
        "a=b ls",
        "if ls",
        "time ls",
        "ls $x",
        'ls "$x"',
        "ls `x`",
        "ls *",
        "ls ~",
        "ls a\\ b",
        "ls > f",
        "ls < f",
        "ls <<x",
        "(ls)",
        "{ ls; }",
        "! ls",
        "ls # x",
        "ls\nls",
        "ls\ttests",
        "ls 'a'b",
        "ls 'a",
        "l\u0455",
    ],
)
def test_whatever_takes_a_grammar_to_tell_is_left_to_it(text: str) -> None:
    assert read_plain(text) is None
