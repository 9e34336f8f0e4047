"""Asks as buttons: what each press decides, what it carries, and that nothing forged counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.channels.telegram.judging import check
from tests.channels.telegram.scenes import COLOUR, HIDDEN, LONG, PARTS, PLAN, PUSH

from pilothouse.channels.telegram.asks import render_ask, render_pressed, render_settled, settled_line
from pilothouse.channels.telegram.callback import (
    AskPress,
    StopPress,
    ask_key,
    parse_press,
    replied_to,
    stop_key,
)
from pilothouse.channels.telegram.choices import decide, decide_words, keyboard, toggled
from pilothouse.channels.telegram.look import Look
from pilothouse.channels.telegram.payload import File, Keyboard, Message
from pilothouse.core.ask import Ask, AskKind, Decision, Option, Remember, RuleOffer, hash_payload
from pilothouse.core.ids import AskId, TurnId

LOOK = Look()
TEXT = st.text(max_size=200)
KINDS: tuple[AskKind, ...] = ("approval", "question", "plan")
REMEMBER: tuple[Remember, ...] = ("once", "session", "always")


@st.composite
def asks(draw: st.DrawFn) -> Ask:
    payload = draw(st.dictionaries(TEXT, st.one_of(TEXT, st.integers(), st.lists(TEXT)), max_size=4))
    payload = {key.encode(errors="replace").decode(): value for key, value in payload.items()}
    return Ask(
        AskId(draw(st.from_regex(r"ask-[a-z0-9]{12}", fullmatch=True))),
        draw(st.sampled_from(KINDS)),
        draw(TEXT),
        payload,
        hash_payload({"x": draw(st.integers())}),
        tuple(Option(str(n), label) for n, label in enumerate(draw(st.lists(TEXT, max_size=70)))),
        draw(st.booleans()),
        many=draw(st.booleans()),
        why=draw(TEXT),
        preview=draw(st.one_of(st.just(""), st.text(max_size=3000))),
        offers=tuple(RuleOffer(one, draw(TEXT)) for one in draw(st.sets(st.sampled_from(REMEMBER)))),
    )


def pressed(buttons: Keyboard | None, label: str) -> AskPress:
    assert buttons is not None
    (found,) = [button for row in buttons.inline_keyboard for button in row if label in button.text]
    press = parse_press(found.callback_data)
    assert isinstance(press, AskPress)
    return press


@given(asks())
def test_telegram_takes_any_ask_in_every_state(ask: Ask) -> None:
    for payload in (
        *render_ask(ask, LOOK, said=ask.title),
        render_pressed(ask, LOOK, chosen=3),
        render_pressed(ask, LOOK, why=True),
        render_settled(ask, settled_line(ask, Decision("deny", text="no " * 900), "A" * 300), LOOK),
    ):
        check(payload)


@given(asks())
def test_every_button_is_about_its_ask_and_does_something(ask: Ask) -> None:
    buttons = keyboard(ask)
    for row in buttons.inline_keyboard:
        for button in row:
            press = parse_press(button.callback_data)
            assert isinstance(press, AskPress)
            assert press.is_about(ask)
            assert not press.is_about(replace(ask, payload_hash=hash_payload({"other": 1})))
            decided = decide(ask, press) is not None
            assert decided == (press.act == "choose")


@pytest.mark.parametrize(
    ("label", "decision"),
    [
        ("Allow once", Decision("allow")),
        ("Allow for this session", Decision("allow", remember="session")),
        ("Always allow", Decision("allow", remember="always")),
    ],
)
def test_an_approval_offers_what_can_be_saved(label: str, decision: Decision) -> None:
    assert decide(PUSH, pressed(keyboard(PUSH), label)) == decision


def test_without_an_offer_nothing_can_be_allowed_for_longer() -> None:
    buttons = keyboard(replace(PUSH, offers=()))
    labels = [button.text for row in buttons.inline_keyboard for button in row]
    assert labels == ["Allow once", "Deny", "Deny and say why"]


def test_deny_stops_and_a_reason_lets_the_engine_go_on() -> None:
    (deny,) = [b for row in keyboard(PUSH).inline_keyboard for b in row if b.text == "Deny"]
    press = parse_press(deny.callback_data)
    assert isinstance(press, AskPress)
    assert decide(PUSH, press) == Decision("deny")
    asked = render_pressed(PUSH, LOOK, why=True)
    back = pressed(asked.reply_markup, "Back")
    assert back.act == "back"
    assert decide_words(PUSH, " not on a Friday ", why=True) == Decision("deny", text="not on a Friday")


def test_words_answer_only_where_words_are_asked_for() -> None:
    assert decide_words(PARTS, "both", why=False) == Decision("answer", text="both")
    assert decide_words(PUSH, "yes", why=False) is None
    assert decide_words(COLOUR, "red", why=False) is None
    assert decide_words(PUSH, "  ", why=True) is None


def test_several_options_are_collected_in_the_buttons_themselves() -> None:
    chosen = 0
    for label in ("1.", "2.", "1."):
        chosen = toggled(PARTS, pressed(keyboard(PARTS, chosen), label))
    done = pressed(keyboard(PARTS, chosen), "Done")
    assert decide(PARTS, done) == Decision("answer", ("2",))


def test_done_with_nothing_chosen_decides_nothing() -> None:
    assert decide(PARTS, pressed(keyboard(PARTS), "Done")) is None


def test_a_plan_is_taken_or_sent_back() -> None:
    assert decide(PLAN, pressed(keyboard(PLAN), "Go ahead")) == Decision("allow")
    refused = decide(PLAN, pressed(keyboard(PLAN), "Not so"))
    assert refused is not None
    assert refused.verdict == "deny"
    assert refused.text


@given(
    st.one_of(
        st.text(), st.from_regex(r"a\|[a-z0-9-]{1,16}\|[0-9a-f]{12}\|[ctdwb]\d{0,3}(\|[0-9a-f]{1,16})?")
    )
)
def test_a_forged_key_decides_nothing_beyond_the_ask(data: str) -> None:
    press = parse_press(data)
    if isinstance(press, AskPress):
        decision = decide(PUSH, replace(press, ask_id=PUSH.id))
        assert decision is None or decision in [
            Decision("allow"),
            Decision("allow", remember="session"),
            Decision("allow", remember="always"),
            Decision("deny"),
        ]
        assert toggled(PARTS, press) < 4


def test_a_key_that_we_did_not_write_is_nothing() -> None:
    for data in (
        "",
        "x",
        "a|",
        "a|ask-1|zz|c0",
        "s",
        "a|ask-1|" + "0" * 12 + "|c0|" + "f" * 60,
        "s|" + "x" * 90,
    ):
        assert parse_press(data) is None


def test_a_stop_button_names_its_turn() -> None:
    assert parse_press(stop_key(TurnId("turn-1"))) == StopPress(TurnId("turn-1"))
    assert parse_press(stop_key(None)) == StopPress(None)


def test_a_key_longer_than_telegram_takes_is_refused_where_it_is_made() -> None:
    with pytest.raises(ValueError, match="64 bytes"):
        ask_key(replace(PUSH, id=AskId("x" * 60)), "choose")


def test_what_is_too_long_to_read_between_buttons_is_a_file_with_all_of_it() -> None:
    file, question = render_ask(LONG, LOOK)
    assert isinstance(file, File)
    assert isinstance(question, Message)
    assert LONG.payload["input"]["content"] in file.text
    assert LONG.payload_hash in file.text
    assert LONG.payload_hash[:12] in question.text
    assert question.reply_markup == keyboard(LONG)


def test_what_could_deceive_the_eye_is_shown_as_what_it_is() -> None:
    (question,) = render_ask(HIDDEN, LOOK)
    assert "\u202e" not in question.text
    assert r"\u202e" in question.text


def test_an_approval_is_shown_literally() -> None:
    ask = Ask(AskId("ask-1"), "approval", "echo **x** [a](https://b.c) `d`", {}, "0" * 64)
    (question,) = render_ask(ask, LOOK)
    assert question.text.startswith("echo **x** [a](https://b.c) `d`")


def keys(buttons: Keyboard | None) -> list[str]:
    return [button.callback_data for row in (buttons.inline_keyboard if buttons else ()) for button in row]


def test_a_reply_finds_its_ask_by_the_buttons_of_what_it_answers() -> None:
    wordy = replace(COLOUR, options=(), free_text=True)
    for ask, why in ((PARTS, False), (wordy, False), (PUSH, True)):
        shown = render_pressed(ask, LOOK, why=why)
        found = replied_to(["not ours", *keys(shown.reply_markup)])
        assert found is not None
        assert found.is_about(ask)
        assert (found.act == "back") == why
    assert replied_to(["s|turn-1", "x"]) is None


def test_a_question_that_wants_words_can_be_left_unanswered() -> None:
    wordy = replace(COLOUR, options=(), free_text=True)
    refused = decide(wordy, pressed(keyboard(wordy), "No answer"))
    assert refused is not None
    assert refused.verdict == "deny"
    assert refused.text
