"""What an answer looks like on a terminal, however long its lines are."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.channels.terminal.markdown import draw, trim

CELL = "looooooooooooooooooooooong cell number one here"


@pytest.mark.timeout(20)
@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_wide_table_is_drawn_within_the_screen(width: int) -> None:
    table = f"| a | b |\n|---|---|\n| {CELL} | another quite long cell that must wrap at sixty {'x ' * 60}|\n"
    drawn = re.sub(r"\x1b\[[0-9;]*m", "", draw(table, width, color=True))
    assert all(len(line) <= width for line in drawn.split("\n"))
    assert "".join(drawn.split()).count("looooooooooooooooooooooong") == 1


@given(st.lists(st.sampled_from(["a", " ", "  ", "\x1b[1m", "\x1b[0m", "\x1b["]), max_size=12).map("".join))
def test_a_trimmed_line_ends_in_no_blank_and_loses_nothing_else(line: str) -> None:
    trimmed = trim(line)
    assert not trimmed.removesuffix("\x1b[0m").endswith(" ")
    shown = re.sub(r"\x1b\[[0-9;]*m", "", line)
    assert re.sub(r"\x1b\[[0-9;]*m", "", trimmed) == shown.rstrip(" ") or trimmed == line


def test_a_colour_ends_with_its_line() -> None:
    """P28: the dot of a second bullet had the colour of the code in the first."""
    drawn = draw("- run `npm test`\n- then `npm start`", 40, color=True)
    for line in drawn.split("\n"):
        *_, last = re.findall(r"\x1b\[[0-9;]*m", line)
        assert last == "\x1b[0m"


def test_single_line_breaks_stay() -> None:
    """The lines of `/status`, `/help` and `/sessions` ran into one paragraph."""
    assert draw("State: idle\nEngine: claude\n- one\n- two\nthe end", 60, color=False) == (
        "State: idle\nEngine: claude\n\n • one\n • two\n   the end"
    )


def test_what_is_too_wide_for_its_column_goes_on_below_it() -> None:
    table = (
        "```\n"
        "/help         this list\n"
        "/topic NAME   open a topic, or a thread, for something of its own\n"
        "trust         not trusted; `pilothouse trust /home/ada/a-long-folder` would add its settings\n"
        "```"
    )
    assert draw(table, 60, color=False) == (
        "  /help         this list\n"
        "  /topic NAME   open a topic, or a thread, for something of\n"
        "                its own\n"
        "  trust         not trusted; `pilothouse trust\n"
        "                /home/ada/a-long-folder` would add its\n"
        "                settings"
    )


def test_a_program_is_never_folded_into_columns() -> None:
    """What somebody copies must stay what it was, but for where the screen ends."""
    line = "x = 1  # " + "why " * 20
    drawn = draw(f"```python\n{line}\n```", 40, color=False)
    assert "".join(drawn.split()) == "".join(line.split())
    assert not any(row.startswith(" " * 6) for row in drawn.split("\n"))
