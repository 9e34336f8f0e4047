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
