"""Splitting loses nothing, keeps the limit, always ends, and never leaves a fence open."""

from __future__ import annotations

import re
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.channels.telegram.scenes import ask as scene_ask
from tests.channels.telegram.scenes import asked

from pilothouse.channels.acp import dialogs as acp_dialogs
from pilothouse.channels.acp.wire import ClientAbilities, ElicitationAbility, FormAbility
from pilothouse.channels.discord.render import render as render_discord
from pilothouse.channels.rpc import dialogs as rpc_dialogs
from pilothouse.channels.rpc.params import UiCapabilities
from pilothouse.channels.stdio_server import ClientRequests, ReplyFailed
from pilothouse.channels.telegram.payload import Look as TelegramLook
from pilothouse.channels.telegram.render import render as render_telegram
from pilothouse.channels.terminal.ask_text import ask_body
from pilothouse.channels.terminal.ask_text import ask_text as terminal_text
from pilothouse.channels.terminal.style import Palette
from pilothouse.channels.text import (
    SMALLEST_LIMIT,
    Piece,
    split,
    split_pieces,
    utf16_units,
)
from pilothouse.core.ask import Ask, AskKind, Option, RuleOffer
from pilothouse.core.ask_view import whole_ask
from pilothouse.core.call import Call
from pilothouse.core.ids import AskId
from pilothouse.core.text import reveal_hidden

LINES = st.one_of(
    st.sampled_from(["", "```", "```python", "~~~", "~~~~", "````md", "  ```js", "   ", "- item", "> quote"]),
    st.text(alphabet="ab \t`~😀é́\u200d🇩🇪👩🏽\r", max_size=60),
    st.text(max_size=40),
)
TEXTS = st.one_of(st.text(), st.lists(LINES, max_size=40).map("\n".join))
LIMITS = st.integers(SMALLEST_LIMIT, 200)
FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[^\n]*$")


@given(TEXTS, LIMITS)
def test_the_bodies_joined_are_the_text(text: str, limit: int) -> None:
    assert "".join(piece.body for piece in split_pieces(text, limit)) == text


@given(TEXTS, LIMITS)
def test_every_part_is_within_the_limit(text: str, limit: int) -> None:
    assert all(utf16_units(piece.text) <= limit for piece in split_pieces(text, limit))


@given(TEXTS, LIMITS)
def test_every_piece_takes_something(text: str, limit: int) -> None:
    assert all(piece.body for piece in split_pieces(text, limit))


@given(TEXTS, LIMITS)
def test_only_fences_are_added(text: str, limit: int) -> None:
    for piece in split_pieces(text, limit):
        assert not piece.before or FENCE.match(piece.before.rstrip())  # the lead of a cut line may follow
        assert not piece.after or FENCE.match(piece.after.lstrip("\n"))


@given(st.lists(st.text(alphabet="ab ", min_size=1, max_size=30), min_size=1, max_size=40), LIMITS)
def test_each_part_of_a_code_block_is_a_whole_code_block(code: list[str], limit: int) -> None:
    text = "\n".join(["````python", *code, "````", ""])
    for part in split(text, max(limit, 60)):
        lines = part.strip("\n").split("\n")
        assert lines[0] == "````python"
        assert lines[-1] == "````"


@given(st.integers(SMALLEST_LIMIT, 64))
def test_a_limit_is_measured_by_the_measure_that_is_passed(limit: int) -> None:
    parts = split("é" * 100, limit, lambda text: len(text.encode()))
    assert all(len(part.encode()) <= limit for part in parts)
    assert "".join(parts) == "é" * 100


def test_a_short_text_is_one_part() -> None:
    assert split("hello", 100) == ["hello"]


def test_nothing_has_no_parts() -> None:
    assert split("", 100) == []


def test_white_space_alone_is_never_sent() -> None:
    assert split("\n" * 500, 100) == []
    assert "".join(piece.body for piece in split_pieces("\n" * 500, 100)) == "\n" * 500


def test_a_cut_between_paragraphs_comes_first() -> None:
    assert split("one two\nthree\n\nfour five six\nseven", 24) == [
        "one two\nthree\n\n",
        "four five six\nseven",
    ]


def test_a_cut_between_lines_comes_second() -> None:
    assert split("one two three\nfour five six", 20) == ["one two three\n", "four five six"]


def test_a_cut_between_words_comes_third() -> None:
    assert split("one two three four five", 16) == ["one two three ", "four five"]


def test_a_cut_comes_before_a_fence_rather_than_inside_it() -> None:
    text = "Some words that fill the part.\n\n```py\na = 1\nb = 2\n```\n"
    assert split(text, 50) == ["Some words that fill the part.\n\n", "```py\na = 1\nb = 2\n```\n"]


def test_a_fence_within_a_longer_fence_is_text() -> None:
    text = "````md\n" + "```py\nx\n```\n" * 4 + "````\n"
    pieces = split_pieces(text, 48)
    assert len(pieces) > 1
    assert all(piece.before in ("", "````md\n") and piece.after in ("", "````") for piece in pieces)


def test_backticks_do_not_close_tildes() -> None:
    pieces = split_pieces("~~~\n" + "```\nline of code\n" * 5 + "~~~\n", 40)
    assert {piece.after for piece in pieces[:-1]} == {"~~~"}


def test_a_code_line_that_is_too_long_is_cut_with_its_fence_closed() -> None:
    assert split_pieces("```\n" + "x" * 40 + "\n```", 30)[0] == Piece("```\n" + "x" * 22, "", "\n```")


def test_a_block_in_a_quote_is_closed_and_opened_again_within_it() -> None:
    pieces = split_pieces("> ```py\n" + "> line of code\n" * 9 + "> ```\n", 70)
    assert len(pieces) > 1
    assert {piece.before for piece in pieces[1:]} == {"> ```py\n"}
    assert {piece.after for piece in pieces[:-1]} == {"> ```"}


def test_a_line_of_a_block_in_a_quote_that_is_cut_stays_in_it() -> None:
    first, second, *_ = split_pieces("> ```\n> " + "x" * 90 + "\n> ```\n", 60)
    assert first.after == "\n> ```"
    assert second.before == "> ```\n> "


def test_a_block_in_a_list_is_opened_again_without_the_bullet() -> None:
    pieces = split_pieces("- ```sh\n" + "  line of code\n" * 9 + "  ```\n", 70)
    assert {piece.before for piece in pieces[1:]} == {"  ```sh\n"}
    assert {piece.after for piece in pieces[:-1]} == {"  ```"}


def test_a_quote_that_ends_ends_its_block() -> None:
    pieces = split_pieces("> ```\n> code\n" + "words of prose\n" * 9, 50)
    assert not any(piece.before for piece in pieces)


def test_a_quoted_fence_does_not_close_one_outside_the_quote() -> None:
    pieces = split_pieces("```\n> ```\n" + "line of code\n" * 9 + "```\n", 60)
    assert all(piece.before == "```\n" for piece in pieces[1:])


def test_a_block_that_nobody_closes_is_closed_at_the_end() -> None:
    assert split("```py\nx = 1", 100) == ["```py\nx = 1\n```"]
    assert all(part.endswith("```") for part in split("```\n" + "line of code\n" * 20, 64))


def test_a_language_that_is_too_long_to_repeat_is_left_out() -> None:
    pieces = split_pieces("```" + "p" * 30 + "\n" + "line of code\n" * 9 + "```", 60)
    assert {piece.before for piece in pieces[1:]} == {"```\n"}


@pytest.mark.parametrize("cluster", ["👩🏽‍🚀", "🇩🇪", "e\u0301", "👍🏽", "\r\n"])
def test_what_belongs_together_is_not_torn(cluster: str) -> None:
    for lead in range(12):
        parts = [piece.body for piece in split_pieces("x" * lead + cluster * 20, SMALLEST_LIMIT)]
        rest = "".join(parts)[lead:]
        assert rest == cluster * 20
        starts = [sum(map(len, parts[:n])) - lead for n in range(1, len(parts))]
        assert all(start < 0 or start % len(cluster) == 0 for start in starts)


def test_a_megabyte_without_a_newline_is_split_at_once() -> None:
    text = "word" * 250_000
    assert "".join(split(text, 2000)) == text


def test_a_limit_too_small_to_work_with_is_refused() -> None:
    with pytest.raises(ValueError, match="too small"):
        split("text", 3)


HIDDEN = (
    *(
        "\u202e",
        "\u2066",
        "\u200b",
        "\u00ad",
        "\ufeff",
        "\u3164",
        "\uffa0",
        "\u115f",
        "\u2800",
        "\u00a0",
        "\u2028",
        "\x1b",
        "\x07",
    ),
    *("\U000e0041", "\U000e0100", "\U0001d173", "\ufe01", "\u034f", "\u180e"),
)


def test_hidden_blank_and_turning_characters_are_visible_in_an_ask_on_every_channel() -> None:
    payload = {"tool": "Bash", "input": {"command": f"echo a{'b'.join(HIDDEN)}c"}}
    ask = scene_ask("approval", f"Run {''.join(HIDDEN)}?", payload)
    plain, content = Palette(color=False), asked(ask)
    shown = {
        "terminal": terminal_text(ask, plain, 80),
        "terminal, whole": "\n".join(ask_body(whole_ask(ask), plain, 80)),
        "telegram": "".join(part.text for part in render_telegram(content, TelegramLook())),
        "discord": "".join(part.text for part in render_discord(content)),
    }
    for where, text in shown.items():
        assert [char for char in HIDDEN if char in text] == [], where
        told = "".join(text.split())
        assert [char for char in HIDDEN if _code(char) not in told] == [], where
    assert reveal_hidden("é ü 漢字 ❤\ufe0f\t\r\nמ") == "é ü 漢字 ❤\ufe0f\t\nמ", "letters and line ends stay"


class Client:
    """Notes what it is asked, and answers nothing."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def ask(self, method: str, params: Any, result: type[object]) -> None:
        self.asked.append(msgspec.to_builtins(params))
        raise ReplyFailed


FIRST, SECOND = "".join(HIDDEN[:10]), "".join(HIDDEN[10:])
OPTIONS = (Option("a", f"A {FIRST}"), Option("b", f"B {SECOND}"))
COMMAND = f"echo {FIRST} && {'x' * 200} {SECOND}"
CALL = Call("command", "Bash", "/w", COMMAND, input={"command": COMMAND})
KEEPS = RuleOffer("always", f"allow glob x {HIDDEN[6]}")
PAYLOAD = {"tool": "Bash", "input": {"command": COMMAND}, "cwd": "/w"}
TITLE = f"Which {FIRST}{SECOND}?"
ASKS: list[tuple[AskKind, dict[str, Any]]] = [
    ("approval", {"payload": PAYLOAD, "call": CALL, "offers": (KEEPS,)}),
    ("approval", {"payload": PAYLOAD, "preview": f"-a {FIRST}\n+b {SECOND}"}),
    ("question", {"options": OPTIONS}),
    ("question", {"options": OPTIONS, "many": True, "free_text": True}),
    ("question", {"free_text": True}),
    ("plan", {}),
]


@pytest.mark.anyio
@pytest.mark.parametrize(("kind", "fields"), ASKS)
async def test_hidden_characters_are_visible_in_what_editors_and_programs_are_asked(
    kind: AskKind, fields: dict[str, Any]
) -> None:
    ask, client = Ask(AskId("a"), kind, TITLE, **fields), Client()
    requests = cast("ClientRequests", client)
    able = UiCapabilities(supports_confirm=True, supports_pick=True, supports_prompt=True)
    await rpc_dialogs.decide(requests, able, ask, "run")
    for forms in (ElicitationAbility(FormAbility()), None):
        await acp_dialogs.decide(requests, ClientAbilities(forms), ask, acp_dialogs.AskPlace("s"))
    assert len(client.asked) >= 2
    for params in client.asked:
        params.get("toolCall", {}).pop("rawInput", None)  # the input for the program, as it is
        text = "".join(_texts(params))
        assert [char for char in HIDDEN if char in text] == []
        told = "".join(text.split())
        assert [char for char in HIDDEN if _code(char) not in told] == []


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for inner in value.values() for text in _texts(inner)]
    if isinstance(value, (list, tuple)):
        return [text for inner in value for text in _texts(inner)]
    return [value] if isinstance(value, str) else []


def _code(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 1 << 16 else f"\\U{ord(char):08x}"
