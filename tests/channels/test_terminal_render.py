"""What an ask looks like: the whole of it, once, and how to answer."""

from __future__ import annotations

import pytest

from pilothouse.channels.terminal.ask_text import ask_text
from pilothouse.channels.terminal.style import Palette
from pilothouse.core.ask import Ask
from pilothouse.core.ids import AskId

PLAIN = Palette(color=False)
LONG = "May I run " + "a-rather-long-command --with " * 12 + "--force?"


@pytest.mark.parametrize("enter", [False, True])
def test_a_long_title_is_wrapped_and_not_cut(enter: bool) -> None:
    shown = ask_text(Ask(AskId("a"), "approval", LONG), PLAIN, 60, enter=enter)
    assert " ".join(shown.removeprefix("? ").split()).startswith(f"The engine asks: {LONG}")
    assert all(len(line) <= 60 for line in shown.split("\n"))


@pytest.mark.parametrize(
    ("ask", "last"),
    [
        (Ask(AskId("a"), "approval", "May I?"), "  Type one of these, then Enter."),
        (Ask(AskId("a"), "question", "Who?", free_text=True), "  Type your answer, then Enter."),
    ],
)
def test_where_a_key_alone_does_nothing_enter_is_asked_for(ask: Ask, last: str) -> None:
    assert ask_text(ask, PLAIN, 60, enter=True).split("\n")[-1] == last


def test_a_payload_that_only_repeats_the_title_is_left_out() -> None:
    said = {"kind": "approval", "title": "May I?"}
    bare = ask_text(Ask(AskId("a"), "approval", "May I?", said), PLAIN, 60)
    assert (
        bare
        == "? The engine asks: May I?\n  y allow once · n deny\n  r deny with a reason · d full details · ? help"
    )
    for more in ({"command": ["rm", "-rf"]}, {"title": "Something else"}):
        shown = ask_text(Ask(AskId("a"), "approval", "May I?", {**said, **more}), PLAIN, 60)
        assert "  kind: approval\n" in shown
        assert all(f"  {key}: " in shown for key in more)
