"""Command text to segments: what is plain, what is not, and that nothing is ever lost or raised."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.dists import ROOT, SRC

from pilothouse.policy.script import Group, Segment
from pilothouse.policy.shell import parse_shell

SHELLS = [path for path in map(shutil.which, ("bash", "zsh")) if path]


def texts(command: str) -> list[tuple[str, ...]]:
    return [one.texts for one in parse_shell(command).segments() if one.words]


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
    script = parse_shell(command)
    assert script.oddities == ()
    ((_, found),) = script.items
    assert isinstance(found, Segment) and found.texts == words
    assert {word.form for word in found.words} == {"plain"}


def test_a_chain_a_pipe_and_a_group_keep_their_shape() -> None:
    script = parse_shell("cd a && (ls | wc -l) || pwd; date\nid")
    assert script.oddities == ()
    assert [joint for joint, _ in script.items] == ["", "&&", "||", ";", ";"]
    group = script.items[1][1]
    assert isinstance(group, Group)
    assert [joint for joint, _ in group.items] == ["", "|"]


def test_words_behind_a_redirection_are_still_words_of_the_command() -> None:
    script = parse_shell("find . > /dev/null -delete")
    assert ("find", ".", "-delete") in [one.texts for one in script.segments()]


def test_a_redirection_belongs_to_the_last_command_of_a_chain() -> None:
    script = parse_shell("cd src && ls > out.txt")
    first, last = list(script.segments())
    assert not first.redirects
    assert [(one.op, one.target and one.target.text) for one in last.redirects] == [(">", "out.txt")]


def test_words_behind_a_redirection_belong_to_the_last_command_of_a_chain() -> None:
    assert texts("ls && git > out.txt push") == [("ls",), ("git", "push")]
    assert texts("ls | git 2>/dev/null push origin") == [("ls",), ("git", "push", "origin")]


@pytest.mark.parametrize(
    ("command", "form"),
    [
        ("cat src/*.py", "glob"),
        ("cat src/?.py", "pattern"),
        ("cat s[^x]cret", "pattern"),
        ("cat s\\[a]*", "pattern"),
        ("cat s'[a]'*", "pattern"),
        ("cat 'a b'/*", "pattern"),
        ("cat d/**/leak", "pattern"),
        ("echo $?", "status"),
        ('echo "it was $?"', "status"),
        ("cat ~/x", "home"),
        ("cat ~ann/x", "dynamic"),
        ("cat {a,b}", "dynamic"),
        ("cat =ls", "dynamic"),
    ],
)
def test_what_a_shell_would_expand_is_marked(command: str, form: str) -> None:
    ((_, found),) = parse_shell(command).items
    assert isinstance(found, Segment) and found.words[-1].form == form


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
    assert parse_shell(command).oddities


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(), st.text("lsrm $(){}[]`'\"\\;&|<>\n\t #!~*?=-")))
def test_no_text_raises_and_every_segment_has_something_in_it(text: str) -> None:
    script = parse_shell(text)
    for one in script.segments():
        assert all(isinstance(word.text, str) for word in one.words)


def test_deep_nesting_ends_with_an_answer() -> None:
    assert parse_shell("$(" * 3000 + "ls" + ")" * 3000).oddities
    assert parse_shell("(" * 3000 + "ls" + ")" * 3000).oddities
    assert len(texts(" && ".join(["ls"] * 2000))) == 2000


def test_the_policy_is_loaded_with_the_first_command_and_not_before() -> None:
    code = "import sys, pilothouse.bootstrap.app\nprint('pilothouse.policy.decide' in sys.modules)\n"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": f"{SRC}:{ROOT}", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["False"]


@settings(max_examples=300, deadline=None)
@given(word=st.text(st.characters(min_codepoint=0x80, exclude_categories=["Cs"]), min_size=1, max_size=8))
def test_foreign_letters_come_out_as_they_were_written(word: str) -> None:
    script = parse_shell(f"echo {word} '{word}' a > {word} && X={word} ls")
    segments = list(script.segments())
    assert segments[0].texts == ("echo", word, word, "a")
    assert [one.target.text for one in segments[0].redirects if one.target] == [word]
    assert any(f"X={word}" == assigned.text for one in segments for assigned in one.assignments)


WORDS = [
    "a",
    "-n",
    "--a=b",
    "a=b",
    "x^y",
    "@x",
    "%1",
    "'a b'",
    '"a b"',
    "''",
    '" "',
    "'a\nb'",
    "'$x'",
    "a\\ b",
    '"\\$x"',
    "x#y",
]
WORDS += [
    "'a\"b'",
    "HEAD@{1}",
    "a'b'\"c\"",
    "\\;",
    "\\(",
    "!",
    "'*'",
    '"{a,b}"',
    "'\\'",
    '"a\\b"',
    "é",
    "]",
    "a]",
    "{}",
    '"a$"',
]
ODD_WORDS = ["$x", "{a,b}", "~x", "=ls", "`id`", "$(id)", "*", "[", "a\\\n", "#x", "&", ">f", "(", "'a", '"']
lines = st.lists(st.sampled_from(WORDS * 4 + ODD_WORDS), min_size=1, max_size=6).map(" ".join)


@settings(max_examples=250, deadline=None)
@given(lines)
def test_a_real_shell_gives_a_program_the_words_of_a_plain_command(words: str) -> None:
    script = parse_shell(f"show x {words}")
    found = [item for _, item in script.items]
    if script.oddities or len(found) != 1 or not isinstance(found[0], Segment) or found[0].redirects:
        return
    if any(word.form != "plain" for word in found[0].words):
        return
    for shell in SHELLS:
        code = f"show() {{ printf '%s\\0' \"$@\"; }}\nshow x {words}"
        said = subprocess.run([shell, "-c", code], capture_output=True, check=True).stdout
        assert tuple(said.decode().split("\0")[:-1]) == found[0].texts[1:], shell
