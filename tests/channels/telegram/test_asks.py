"""Asks as buttons: what each press decides, what it carries, and that nothing forged counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.channels.any_ask import asks
from tests.channels.telegram.judging import check
from tests.channels.telegram.scenes import COLOUR, HIDDEN, LONG, PARTS, PLAN, PUSH, asked

from pilothouse.channels.presses import AskPress, StopPress, ask_key, decide, parse_key, stop_key
from pilothouse.channels.telegram.payload import File, Keyboard, Look, Message, keyboard, toggled, unpack
from pilothouse.channels.telegram.render import render, render_ask
from pilothouse.core.ask import Ask, Decision, answer_problem, hash_payload
from pilothouse.core.ask_view import ask_lines
from pilothouse.core.ids import AskId, TurnId
from pilothouse.core.people import Approvers, Authority
from pilothouse.runtime.asks.show import ask_text

LOOK = Look()
AUTHORITY = Authority(Approvers(("member",)))


def pressed(buttons: Keyboard | None, label: str) -> AskPress:
    assert buttons is not None
    (found,) = [button for row in buttons.inline_keyboard for button in row if label in button.text]
    press = parse_key(found.callback_data)
    assert isinstance(press, AskPress)
    return press


@given(asks(70), st.booleans())
def test_telegram_takes_any_ask(ask: Ask, bare: bool) -> None:
    *files, question = render_ask(ask, LOOK, said="" if bare else ask_text(ask, AUTHORITY))
    for payload in (*files, question):
        check(payload)
    assert isinstance(question, Message)


@given(asks(70))
def test_every_button_is_about_its_ask_and_does_something(ask: Ask) -> None:
    buttons = keyboard(ask)
    for row in buttons.inline_keyboard if buttons else ():
        for button in row:
            press = parse_key(button.callback_data)
            assert isinstance(press, AskPress)
            assert press.is_about(ask)
            assert not press.is_about(replace(ask, payload_hash=hash_payload({"other": 1})))
            decision = decide(ask, press)
            assert (decision is not None) == (press.act == "choose")
            assert decision is None or not answer_problem(ask, decision)


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
    assert buttons is not None
    labels = [button.text for row in buttons.inline_keyboard for button in row]
    assert labels == ["Allow once", "Deny", "Deny and say why", "Details"]


def test_what_the_house_asks_is_allowed_or_denied_and_shows_nothing_but_its_words() -> None:
    ask = replace(PUSH, title="Let Eve in?", payload={"user": {"id": 1}}, offers=(), of_house=True)
    buttons = keyboard(ask)
    assert buttons is not None
    labels = {button.text: button for row in buttons.inline_keyboard for button in row}
    assert [*labels] == ["Allow", "Deny"]
    assert decide(ask, pressed(buttons, "Deny")) == Decision("deny")
    assert '{"id"' not in ask_text(ask, AUTHORITY)
    assert not any(line.sort == "value" for line in ask_lines(ask))


def test_a_no_can_come_alone_or_with_its_reason_to_follow() -> None:
    buttons = keyboard(PUSH)
    assert buttons is not None
    labels = {button.text: button.callback_data for row in buttons.inline_keyboard for button in row}
    for label, decision in (
        ("Deny", Decision("deny")),
        ("Deny and say why", Decision("deny", reason_wanted=True)),
    ):
        press = parse_key(labels[label])
        assert isinstance(press, AskPress)
        assert decide(PUSH, press) == decision


def test_a_question_that_wants_words_alone_has_no_buttons_and_says_so() -> None:
    (question,) = render_ask(replace(COLOUR, options=(), free_text=True), LOOK)
    assert isinstance(question, Message)
    assert question.reply_markup is None
    assert question.text.endswith("Answer in your own words.")


def test_several_options_are_collected_in_the_buttons_themselves() -> None:
    chosen = 0
    for label in ("1.", "2.", "1."):
        chosen = toggled(PARTS, pressed(keyboard(PARTS, chosen), label))
    done = pressed(keyboard(PARTS, chosen), "Done")
    assert decide(PARTS, done) == Decision("answer", ("2",))


@given(st.lists(st.sampled_from(["1.", "2."]), max_size=6))
def test_a_press_on_buttons_that_are_behind_takes_nothing_else_back(labels: list[str]) -> None:
    """Every press was made while nothing was shown as chosen: each means that its option is chosen, however often."""
    shown, chosen = keyboard(PARTS, 0), None
    for label in labels:
        chosen = toggled(PARTS, pressed(shown, label), chosen)
    assert (chosen or 0) == sum({"1.": 1, "2.": 2}[label] for label in set(labels))


def test_done_with_nothing_chosen_decides_nothing() -> None:
    assert decide(PARTS, pressed(keyboard(PARTS), "Done")) is None


def test_a_plan_is_taken_or_sent_back() -> None:
    assert decide(PLAN, pressed(keyboard(PLAN), "Go ahead")) == Decision("allow")
    refused = decide(PLAN, pressed(keyboard(PLAN), "No"))
    assert refused is not None
    assert refused.verdict == "deny"
    assert refused.text


@given(
    st.one_of(st.text(), st.from_regex(r"a\|[a-z0-9-]{1,16}\|[0-9a-f]{12}\|[ctd]\d{0,3}(\|[0-9a-f]{1,16})?"))
)
def test_a_forged_key_decides_nothing_beyond_the_ask(data: str) -> None:
    press = parse_key(data)
    if isinstance(press, AskPress):
        decision = decide(PUSH, replace(press, ask_id=PUSH.id))
        assert decision is None or decision in [
            Decision("allow"),
            Decision("allow", remember="session"),
            Decision("allow", remember="always"),
            Decision("deny"),
            Decision("deny", reason_wanted=True),
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
        assert parse_key(data) is None


def test_a_stop_button_names_its_turn() -> None:
    assert parse_key(stop_key(TurnId("turn-1"))) == StopPress(TurnId("turn-1"))
    assert parse_key(stop_key(None)) == StopPress(None)


def test_a_key_longer_than_telegram_takes_is_refused_where_it_is_made() -> None:
    with pytest.raises(ValueError, match="64 bytes"):
        ask_key(replace(PUSH, id=AskId("x" * 60)), "choose")


def test_what_is_too_long_for_a_message_is_a_file_above_the_question() -> None:
    long = replace(PLAN, title="Step. " * 2000)
    file, question = render_ask(long, LOOK)
    assert isinstance(file, File)
    assert isinstance(question, Message)
    assert file.text.count("Step.") == 2000
    assert long.payload_hash[:12] in question.text
    assert question.reply_markup == keyboard(long)


def test_the_exact_payload_goes_along_above_the_question() -> None:
    parts = render(asked(LONG), LOOK)
    assert [len(part.attachments) for part in parts] == [1, 0]
    assert unpack(parts[-1]).reply_markup == keyboard(LONG)
    assert LONG.payload_hash in parts[-1].text


def test_what_could_deceive_the_eye_is_shown_as_what_it_is() -> None:
    (question,) = render_ask(HIDDEN, LOOK, said=ask_text(HIDDEN, AUTHORITY))
    assert "\u202e" not in question.text
    assert r"\u202e" in question.text


def test_an_approval_is_shown_literally_but_for_the_fences_of_the_house() -> None:
    command = "echo **x** [a](https://b.c)\n```\n# `d`"
    ask = Ask(AskId("ask-1"), "approval", "echo **x** [a](https://b.c)", {"command": command}, "0" * 64)
    (question,) = render_ask(ask, LOOK, said=ask_text(ask, AUTHORITY))
    assert isinstance(question, Message)
    assert question.text.startswith("The engine asks: echo **x** [a](https://b.c)\n\n")
    assert command in question.text
    assert [entity.type for entity in question.entities] == ["bold", "pre"]
