"""Command text to segments: what is plain, what is not, and that nothing is ever lost or raised."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.dists import ROOT, SRC

from pilothouse.policy.script import Chain, Pipe, Segment, Subshell
from pilothouse.policy.shell import BashParser

PARSE = BashParser()


def texts(command: str) -> list[tuple[str, ...]]:
    return [one.texts for one in PARSE(command).segments() if one.words]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("git log --oneline", ("git", "log", "--oneline")),
        ("cat 'a b' \"c d\" e\\ f", ("cat", "a b", "c d", "e f")),
        ('echo "a\\"b" "c\\\\d" "e\\f"', ("echo", 'a"b', "c\\d", "e\\f")),
        ("echo it''s \"x\"y'z'", ("echo", "its", "xyz")),
        ("git log @{u}.. HEAD@{1}", ("git", "log", "@{u}..", "HEAD@{1}")),
        ("head -20 a", ("head", "-20", "a")),
        ("cat über.txt", ("cat", "über.txt")),
    ],
)
def test_quotes_and_escapes_are_read_as_a_shell_reads_them(command: str, words: tuple[str, ...]) -> None:
    script = PARSE(command)
    assert script.oddities == ()
    assert isinstance(script.body, Segment) and script.body.texts == words
    assert {word.form for word in script.body.words} == {"plain"}


def test_a_chain_a_pipe_and_a_subshell_keep_their_shape() -> None:
    script = PARSE("cd a && (ls | wc -l) || pwd; date")
    assert script.oddities == ()
    assert isinstance(script.body, Chain)
    first, last = script.body.items
    assert (first[0], last[0]) == ("", ";")
    assert isinstance(first[1], Chain)
    assert [joint for joint, _ in first[1].items] == ["", "&&", "||"]
    sub = first[1].items[1][1]
    assert isinstance(sub, Subshell) and isinstance(sub.body, Pipe)


def test_words_behind_a_redirection_are_still_words_of_the_command() -> None:
    """The grammar takes them for further targets; a shell does not."""
    script = PARSE("find . > /dev/null -delete")
    assert ("find", ".", "-delete") in [one.texts for one in script.segments()]
    assert script.oddities


def test_a_redirection_belongs_to_the_last_command_of_a_chain() -> None:
    script = PARSE("cd src && ls > out.txt")
    first, last = list(script.segments())
    assert not first.redirects
    assert [(one.op, one.target and one.target.text) for one in last.redirects] == [(">", "out.txt")]


@pytest.mark.parametrize(
    "command",
    [
        "a && b | c | d && e; f",
        "a && b 2>/dev/null | c | d && e; f",
        "a 2>/dev/null && b | c | d 2>/dev/null && e; f",
        "a && b |& c 2>/dev/null | d && e >/dev/null; f",
    ],
)
def test_a_pipe_binds_closer_than_a_chain_wherever_output_goes(command: str) -> None:
    """The grammar takes what stands before a redirection, or behind a long pipe, for a part of the pipe."""
    script = PARSE(command)
    assert isinstance(script.body, Chain)
    (_, first), (_, last) = script.body.items
    assert isinstance(first, Chain) and isinstance(last, Segment)
    assert [joint for joint, _ in first.items] == ["", "&&", "&&"]
    pipe = first.items[1][1]
    assert isinstance(pipe, Pipe)
    assert [one.name for one in pipe.parts if isinstance(one, Segment)] == ["b", "c", "d"]


def test_words_behind_a_redirection_belong_to_the_last_command_of_a_chain() -> None:
    assert texts("ls && git > out.txt push") == [("ls",), ("git", "push")]
    assert texts("ls | git 2>/dev/null push origin") == [("ls",), ("git", "push", "origin")]


@pytest.mark.parametrize(
    ("command", "form"),
    [
        ("cat src/*.py", "glob"),
        ("cat ~/x", "home"),
        ("cat ~ann/x", "dynamic"),
        ("cat {a,b}", "dynamic"),
        ("cat =ls", "dynamic"),
    ],
)
def test_what_a_shell_would_expand_is_marked(command: str, form: str) -> None:
    body = PARSE(command).body
    assert isinstance(body, Segment) and body.words[-1].form == form


@pytest.mark.parametrize(
    "command",
    [
        "echo $(rm a)",
        "echo `rm a`",
        "cat <(rm a)",
        "echo ${x:=$(rm a)}",
        "cat <<EOF\n$(rm a)\nEOF",
        "f() { rm a; }",
        "for i in x; do rm a; done",
        "[[ -n $(rm a) ]]",
        "a=$(rm a)",
        "export X=$(rm a)",
        "echo $((`rm a`))",
        "if x; then rm a; fi",
        "{ rm a; }",
        "ls & rm a",
        "! rm a",
    ],
)
def test_nested_commands_are_found_wherever_they_stand(command: str) -> None:
    assert ("rm", "a") in texts(command)


@pytest.mark.parametrize(
    "command",
    [
        "cat\r\r",
        "sort a -\\\no",
        "git lo\\\ng",
        "ls \\\n -l",
        "cat a\\\n#; touch b",
        "ls\x0b-l",
        "ls\x0c",
        "cat a\r",
        "ls \\",
        "a\0b",
        "x" * 200_000,
        "\ud800",
        "ls ;;",
    ],
)
def test_what_shells_and_the_grammar_read_differently_is_never_plain(command: str) -> None:
    assert PARSE(command).oddities


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(), st.text("lsrm $(){}[]`'\"\\;&|<>\n\t #!~*?=-")))
def test_no_text_raises_and_every_segment_has_something_in_it(text: str) -> None:
    script = PARSE(text)
    for one in script.segments():
        assert all(isinstance(word.text, str) for word in one.words)


def test_deep_nesting_ends_with_an_answer() -> None:
    assert PARSE("$(" * 3000 + "ls" + ")" * 3000).oddities
    assert PARSE("(" * 3000 + "ls" + ")" * 3000).oddities
    assert len(texts(" && ".join(["ls"] * 2000))) == 2000


def test_the_parser_is_loaded_with_the_first_command_that_needs_it_and_not_before() -> None:
    code = (
        "import sys\n"
        "import pilothouse.bootstrap.app\n"
        "from pilothouse.policy.shell import BashParser\n"
        "parse = BashParser()\n"
        "print([name for name in sys.modules if name.startswith('tree_sitter')])\n"
        "print('pilothouse.policy.decide' in sys.modules)\n"
        "parse('ls')\n"
        "print('tree_sitter' in sys.modules)\n"
        "parse('ls > f')\n"
        "print('tree_sitter' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": f"{SRC}:{ROOT}", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split("\n")[:4] == ["[]", "False", "False", "True"]


@settings(max_examples=300, deadline=None)
@given(word=st.text(st.characters(min_codepoint=0x80, exclude_categories=["Cs"]), min_size=1, max_size=8))
def test_foreign_letters_come_out_as_they_were_written(word: str) -> None:
    """The grammar never sees them: it would look them up where there is no memory."""
    script = PARSE(f"echo {word} '{word}' a > {word} && X={word} ls")
    segments = list(script.segments())
    assert segments[0].texts == ("echo", word, word, "a")
    assert [one.target.text for one in segments[0].redirects if one.target] == [word]
    assert any(f"X={word}" == assigned.text for one in segments for assigned in one.assignments)


HIGH = """
from pilothouse.policy.shell import BashParser
parse = BashParser()
for char in map(chr, range(0x10000, 0x110000, 0x3333)):
    for text in ("x@{%}m", "%=1", "${%}", "[[ % ]]", "<<%\\nx\\n%", "a >% {%"):
        parse(text.replace("%", char))
"""


def test_no_letter_of_any_language_ends_the_process() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HIGH],
        env={"PYTHONPATH": str(SRC)},
        capture_output=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
