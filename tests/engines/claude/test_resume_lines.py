"""A session moves between a chat and a terminal by one line of text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.core.event import ResumeToken
from pilothouse.core.ids import EngineId
from pilothouse.engines.claude.config import ClaudeConfig
from pilothouse.engines.claude.spec import resume_lines

ID = "01941f2a-3b4c-7d8e-9f0a-1b2c3d4e5f6a"
OTHER = "ffffffff-3b4c-7d8e-9f0a-1b2c3d4e5f6a"
CLAUDE = EngineId("claude")
LINES = resume_lines(ClaudeConfig())


def resumed(id: str, cwd: str = "") -> ResumeToken:
    return ResumeToken(CLAUDE, id, cwd)


@pytest.mark.parametrize(
    "line",
    [
        f"claude-code resume {ID}",
        f"`claude-code resume {ID}`",
        f"claude --resume {ID}",
        f"claude --resume={ID}",
        f"claude -r {ID}",
        f"`claude -r {ID}`",
        f"  Claude-Code   Resume   {ID.upper()}  ",
        f"$ claude --resume {ID}",
        f"```claude --resume {ID}```",
    ],
)
def test_both_spellings_are_understood_and_stripped(line: str) -> None:
    assert LINES.parse(line) == (resumed(ID), "")
    assert LINES.parse(f"go on\n{line}\nplease") == (resumed(ID), "go on\nplease")
    assert LINES.parse(f"go on\r\n{line}\r\n") == (resumed(ID), "go on")


@pytest.mark.parametrize(
    "text",
    [
        "claude resumes its work",
        f"what does claude --resume {ID} do?",
        f"run claude -r {ID}",
        "claude --resume",
        "claude --resume my-title",
        "claude -r abc",
        f"codex resume {ID}",
        f"`claude --resume {ID}",
        "",
    ],
)
def test_a_sentence_about_it_is_no_resume_line(text: str) -> None:
    assert LINES.parse(text) == (None, text)


def test_the_last_one_wins_and_all_are_stripped() -> None:
    text = f"claude --resume {OTHER}\nand then\n`claude-code resume {ID}`"
    assert LINES.parse(text) == (resumed(ID), "and then")


def test_a_fence_that_held_only_the_line_goes_with_it() -> None:
    assert LINES.parse(f"go on\n```sh\nclaude -r {ID}\n```\n") == (resumed(ID), "go on")


def test_what_session_prints_is_understood_with_its_folder() -> None:
    token = ResumeToken(CLAUDE, ID, "/srv/my app's")
    assert LINES.parse(LINES.command(token)) == (resumed(ID, "/srv/my app's"), "")
    assert LINES.command(ResumeToken(CLAUDE, ID, "/srv/app")) == f"cd /srv/app && claude --resume {ID}"
    assert LINES.command(ResumeToken(CLAUDE, ID)) == f"claude --resume {ID}"


def test_the_line_under_an_answer_is_understood() -> None:
    assert LINES.parse(f"Done.\n\n{LINES.line(ResumeToken(CLAUDE, ID))}") == (
        resumed(ID),
        "Done.",
    )


@pytest.mark.parametrize(
    "text",
    [
        " " * 200_000,
        f"claude -r {ID}" + " " * 200_000 + "x",
        "`" * 200_000,
        "cd " + "a" * 200_000,
        "cd '" + "'\"'\"'" * 40_000,
        f"```\nclaude -r {ID}\n```" + "\n" * 200_000,
    ],
)
def test_a_long_and_odd_message_takes_no_time(text: str) -> None:
    LINES.parse(text)


@given(st.text())
def test_any_text_is_read_and_without_a_line_left_alone(text: str) -> None:
    found, rest = LINES.parse(text)
    assert found is not None or rest == text


@pytest.mark.parametrize("word", [ID, ID.upper(), f"`{ID}`", f" {ID} "])
def test_a_bare_id_is_read(word: str) -> None:
    assert LINES.read(word) == resumed(ID)


@pytest.mark.parametrize("word", ["", "latest", "--help", ID[:8], f"{ID}x", f"../{ID}", ID.replace("-", "")])
def test_what_cannot_be_an_id_of_claude_is_none(word: str) -> None:
    assert LINES.read(word) is None
