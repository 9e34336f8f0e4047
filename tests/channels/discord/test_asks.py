"""Asks as buttons, lists and forms: what each press decides, and that nothing forged counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.channels.any_ask import asks
from tests.channels.discord.judging import BLOCK, check
from tests.channels.telegram.scenes import COLOUR, HIDDEN, PARTS, PLAN, PUSH, asked

from pilothouse.channels.discord.buttons import (
    ask_rows,
    form_of,
    stop_row,
)
from pilothouse.channels.discord.payload import OPTIONS, Button, Look, Message, Select, unpack
from pilothouse.channels.discord.render import render, render_ask
from pilothouse.channels.presses import AskPress, CommandPress, StopPress, decide, decide_words, parse_key
from pilothouse.core.ask import Ask, Decision, answer_problem, hash_payload
from pilothouse.core.ids import TurnId
from pilothouse.core.message import CommandButton, Content
from pilothouse.core.people import Approvers, Authority
from pilothouse.runtime.asks.show import ask_text

AUTHORITY = Authority(Approvers(("member",)))


def items(ask: Ask) -> list[Button | Select]:
    return [item for row in ask_rows(ask) for item in row.items]


def pressed(ask: Ask, label: str) -> AskPress:
    (found,) = [item for item in items(ask) if isinstance(item, Button) and item.label == label]
    press = parse_key(found.key)
    assert isinstance(press, AskPress)
    return press


@given(asks(40), st.booleans())
def test_discord_takes_any_ask(ask: Ask, bare: bool) -> None:
    check(render_ask(ask, Look(), said="" if bare else ask_text(ask, AUTHORITY)))


@given(asks(40))
def test_whatever_can_be_pressed_is_about_its_ask_and_is_an_answer(ask: Ask) -> None:
    assert items(ask)
    for item in items(ask):
        values = [option.value for option in item.options[: item.max]] if isinstance(item, Select) else []
        press = parse_key(item.key, values)
        assert isinstance(press, AskPress)
        assert press.is_about(ask)
        assert not press.is_about(replace(ask, payload_hash=hash_payload({"other": 1})))
        if press.act == "details":
            continue
        form = form_of(ask, press)
        assert (form is None) == (press.act != "words")
        decision = decide_words(ask, press, "in words") if form else decide(ask, press)
        assert decision is not None
        assert not answer_problem(ask, decision)
        assert form is None or form.key == item.key


@given(st.text(max_size=150), st.lists(st.text(max_size=5), max_size=30))
def test_anything_can_be_pressed(custom_id: str, values: list[str]) -> None:
    parse_key(custom_id, values)


@pytest.mark.parametrize(
    ("custom_id", "values"),
    [
        ("", []),
        ("a|ask-1|0123456789ab", []),
        ("a|ask-1|0123456789aX|c0", []),
        ("a|ask-1|0123456789ab|c٣", []),
        ("a|ask-1|0123456789ab|p", ["x"]),
        ("a|ask-1|0123456789ab|p", ["-1"]),
        ("a|ask-1|0123456789ab|p", ["99"]),
        ("a|ask-1|0123456789ab|p", ["0"] * 26),
        ("a|" + "x" * 100 + "|0123456789ab|c0", []),
    ],
)
def test_a_forged_press_is_nobodys(custom_id: str, values: list[str]) -> None:
    assert parse_key(custom_id, values) is None


@pytest.mark.parametrize("act", ["c9", "c999", "p", "d|0", "t0|1", "w0", "w9"])
def test_a_press_of_what_is_not_there_decides_nothing(act: str) -> None:
    press = parse_key(f"a|{COLOUR.id}|{COLOUR.payload_hash[:12]}|{act}")
    assert isinstance(press, AskPress)
    assert decide(COLOUR, press) is None
    assert decide_words(COLOUR, press, "words") is None


def test_an_approval_cannot_be_picked_from_a_list() -> None:
    press = parse_key(f"a|{PUSH.id}|{PUSH.payload_hash[:12]}|p", ["0"])
    assert isinstance(press, AskPress)
    assert decide(replace(PUSH, options=COLOUR.options), press) is None


@pytest.mark.parametrize(
    ("label", "decision"),
    [
        ("Allow once", Decision("allow")),
        ("Allow for this session", Decision("allow", remember="session")),
        ("Always allow", Decision("allow", remember="always")),
        ("Deny", Decision("deny")),
    ],
)
def test_an_approval_offers_what_can_be_saved(label: str, decision: Decision) -> None:
    assert decide(PUSH, pressed(PUSH, label)) == decision


def test_a_no_with_its_reason_comes_from_a_form() -> None:
    press = pressed(PUSH, "Deny and say why")
    form = form_of(PUSH, press)
    assert form is not None
    assert parse_key(form.key) == press
    assert decide_words(PUSH, press, "not on a Friday") == Decision("deny", text="not on a Friday")
    assert decide_words(PUSH, press, " ") is None


def test_a_plan_can_be_sent_back_with_words() -> None:
    press = pressed(PLAN, "Say what to change")
    assert decide_words(PLAN, press, "shorter") == Decision("deny", text="shorter")


def test_several_options_are_picked_from_one_list() -> None:
    (listed, words) = items(PARTS)
    assert isinstance(listed, Select)
    press = parse_key(listed.key, ["0", "1"])
    assert isinstance(press, AskPress)
    assert decide(PARTS, press) == Decision("answer", ("1", "2"))
    assert isinstance(words, Button)


def test_words_in_a_form_answer_a_question_as_a_reply_does() -> None:
    press = pressed(replace(COLOUR, free_text=True), "Answer in words")
    assert decide_words(COLOUR, press, "blue") == Decision("answer", ("2",))
    assert decide_words(COLOUR, press, "mauve") == Decision("answer", text="mauve")


@given(st.text(alphabet="`~\n ab\u200b\u202e*_", max_size=300))
def test_what_is_approved_cannot_leave_its_block(command: str) -> None:
    ask = replace(
        PUSH,
        title="Bash",
        call=None,
        payload={"command": f"start {command} end"},
        preview="",
        offers=(),
        why="",
    )
    message = render_ask(ask, Look(), said=ask_text(ask, AUTHORITY))
    blocks = [inner for _, inner in BLOCK.findall(message.text)]
    told = "".join(blocks).replace("\u200b", "")
    assert "start" in told
    assert told.rstrip().endswith("end")
    assert BLOCK.sub("", message.text).split("\n") == ["Claude asks: Bash", "", "Any member may answer."]


def test_hidden_characters_are_made_visible() -> None:
    (part,) = render(asked(HIDDEN))
    assert "\\u202e" in part.text
    assert "\u202e" not in part.text


def test_an_ask_that_is_too_long_is_whole_in_a_file_and_names_its_hash() -> None:
    ask = replace(PUSH, call=None, title="x" * 5000)
    message = render_ask(ask, Look())
    assert message.documents[0].text == "Claude asks: " + "x" * 5000
    assert ask.payload_hash[:12] in message.text
    check(message)


def test_an_ask_of_nothing_that_can_be_seen_is_still_asked() -> None:
    check(render_ask(replace(COLOUR, title="\x01" * 5000), Look()))


def test_the_files_of_an_ask_hang_on_its_message() -> None:
    ask = replace(PUSH, payload={"command": "x" * 5000})
    (part,) = render(asked(ask))
    payload = unpack(part)
    assert isinstance(payload, Message)
    assert len(part.attachments) == len(payload.names) == 1
    assert payload.rows


def test_a_stop_names_its_turn() -> None:
    (button,) = stop_row(TurnId("turn-3f9k2a7c1d5e")).items
    assert parse_key(button.key) == StopPress(TurnId("turn-3f9k2a7c1d5e"))


def test_a_few_short_commands_are_buttons_and_others_are_a_list() -> None:
    few = tuple(CommandButton(name, f"/engine {name}") for name in ("claude", "script"))
    (part,) = render(Content("Which?", "reply", buttons=few))
    shown = unpack(part)
    assert [item.label for row in shown.rows for item in row.items if isinstance(item, Button)] == [
        "claude",
        "script",
    ]
    check(shown)
    many = tuple(CommandButton(f"session {n}", f"/resume session-{n}") for n in range(40))
    (part,) = render(Content("Which?", "reply", buttons=many))
    listed = unpack(part)
    ((found,),) = [row.items for row in listed.rows]
    assert isinstance(found, Select)
    assert len(found.options) == OPTIONS
    assert parse_key(found.key, [found.options[3].value]) == CommandPress("/resume session-3")
    check(listed)
