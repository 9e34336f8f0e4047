"""A payload survives being stored, says when it is a repeat, and has a plainer form until it is plain."""

from __future__ import annotations

import msgspec
import pytest
from tests.channels.telegram.judging import check

from pilothouse.channels.parts import pack
from pilothouse.channels.telegram.payload import (
    CAPTION,
    Button,
    Entity,
    File,
    Keyboard,
    Look,
    Message,
    Payload,
    Progress,
    Rich,
    Upload,
    mark_repeat,
    plainer_form,
    unpack,
)
from pilothouse.channels.telegram.render import render, render_text
from pilothouse.channels.text import utf16_units
from pilothouse.core.message import AGAIN_MARK, Content, Part
from pilothouse.core.outcome import Usage
from pilothouse.testing.channel import CONTENTS, TEXTS

BOLD = (Entity("bold", 0, 2),)
KEYBOARD = Keyboard(((Button("Stop", "s|turn-1"),),))
PAYLOADS: tuple[Payload, ...] = (
    Message(text="hello", entities=BOLD, reply_markup=KEYBOARD, silent=True, reply_to="7"),
    Rich(text="hello", html="<p>hello</p>", is_rtl=True, reply_markup=KEYBOARD),
    Rich(text="x" * 5000, html="<p>…</p>"),
    File(text="# all", name="answer.md", caption="all", caption_entities=BOLD),
    Upload(text="look", kind="photo", entities=BOLD),
    Progress(text="working", entities=BOLD, html="<p>working</p>", reply_markup=KEYBOARD),
)


@pytest.mark.parametrize("payload", PAYLOADS)
def test_what_is_stored_is_what_is_sent(payload: Payload) -> None:
    part = pack(payload, (), {"kind": "answer"})
    stored = msgspec.json.decode(msgspec.json.encode(part), type=Part)
    assert stored == part
    assert unpack(stored) == payload
    assert part.text == payload.text


@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_repeat_says_that_it_is_one(payload: Payload) -> None:
    again = mark_repeat(unpack(pack(payload)))
    shown = (
        again.caption if isinstance(again, File) else again.html if isinstance(again, Rich) else again.text
    )
    assert AGAIN_MARK in shown
    assert AGAIN_MARK not in repr(payload)


@pytest.mark.parametrize("rich", [False, True])
@pytest.mark.parametrize("name", TEXTS)
def test_a_repeat_of_the_longest_message_still_fits(name: str, rich: bool) -> None:
    for part in render(Content(TEXTS[name], "answer"), Look(rich=rich)):
        check(mark_repeat(unpack(part)))


@pytest.mark.parametrize("payload", [payload for payload in PAYLOADS if not isinstance(payload, Rich)])
def test_what_is_refused_gets_plainer_until_it_is_plain_and_keeps_its_words(payload: Payload) -> None:
    forms = [payload]
    while (plainer := plainer_form(forms[-1])) is not None:
        forms.append(plainer)
    assert 1 < len(forms) < 5
    last = forms[-1]
    assert last.text == payload.text
    assert isinstance(last, File | Upload | Progress), "what is no message in any form is a file"
    assert not (last.caption_entities if isinstance(last, File) else last.entities)
    assert (last.reply_markup, last.silent, last.reply_to) == (
        payload.reply_markup,
        payload.silent,
        payload.reply_to,
    )
    if isinstance(last, File):
        assert utf16_units(last.caption) <= CAPTION


def test_what_an_answer_cost_is_told_where_it_became_a_file() -> None:
    (file,) = render_text("A word. " * 6000, Look(rich=False), Usage(cost_usd=0.25))
    assert isinstance(file, File)
    assert "$0.25" in file.caption
    check(mark_repeat(file))


def test_a_part_that_we_did_not_pack_is_plain_text() -> None:
    assert unpack(Part("hello")) == Message(text="hello")


@pytest.mark.parametrize("content", CONTENTS, ids=range(len(CONTENTS)))
@pytest.mark.parametrize("rich", [False, True])
def test_whatever_is_said_is_taken(content: Content, rich: bool) -> None:
    parts = render(content, Look(rich=rich))
    assert parts
    for part in parts:
        check(unpack(part))


def test_only_the_first_message_of_an_answer_makes_a_sound_and_answers_something() -> None:
    content = Content(TEXTS["paragraphs"], "answer", reply_to="7")
    first, *rest = [unpack(part) for part in render(content, Look(parts=99))]
    assert (first.silent, first.reply_to) == (False, "7")
    assert rest
    assert all(payload.silent and not payload.reply_to for payload in rest)


def test_a_receipt_makes_no_sound() -> None:
    (reply,) = render(Content("Done.", "reply"), Look())
    (notice,) = render(Content("Queued.", "notice"), Look())
    assert unpack(reply).silent
    assert unpack(notice).silent
