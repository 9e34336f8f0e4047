"""Generated Markdown: Telegram takes every message, no word is lost, and code stays code in its language."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.channels.telegram.documents import make_document
from tests.channels.telegram.judging import check, check_document, check_html, words_of

from pilothouse.channels.telegram.payload import File, Look, Message, Rich
from pilothouse.channels.telegram.render import render_text

SEEDS = st.integers(0, 2**32)
slowly = settings(deadline=None, max_examples=120, suppress_health_check=[HealthCheck.too_slow])


@given(SEEDS)
@slowly
def test_a_sound_document_keeps_its_words_and_its_code(seed: int) -> None:
    document = make_document(random.Random(seed), hostile=False)
    check_document(document, list(render_text(document.source, Look(parts=40))), sound=True)


@given(SEEDS)
@slowly
def test_a_hostile_document_keeps_its_words(seed: int) -> None:
    document = make_document(random.Random(seed), hostile=True)
    check_document(document, list(render_text(document.source, Look())), sound=False)


@given(SEEDS, st.booleans())
@slowly
def test_a_rich_message_says_the_same(seed: int, hostile: bool) -> None:
    document = make_document(random.Random(seed), hostile=hostile)
    payloads = list(render_text(document.source, Look(rich=True)))
    check_document(document, payloads, sound=False)
    for payload in payloads:
        if isinstance(payload, Rich):
            shown = Message(text=check_html(payload.html))
            assert words_of(shown) == words_of(payload)


@given(st.text(max_size=400))
@slowly
def test_any_text_can_be_sent(text: str) -> None:
    for look in (Look(), Look(rich=True)):
        payloads = render_text(text, look)
        assert payloads
        for payload in payloads:
            check(payload)


@given(st.text(alphabet="*_`~[]()<>|#!\\ \n-+.:ab1&;\t\"'=", max_size=300))
@slowly
def test_letters_survive_whatever_marks_stand_around_them(text: str) -> None:
    """What is an address, or the language of a fence, is not text; all else is."""
    (payload,) = render_text(text, Look())
    check(payload)
    if not set('&#("') & set(text) and "```" not in text and "~~~" not in text:
        assert _letters(payload.text) == _letters(text) or "(no text)" in payload.text


def _letters(text: str) -> str:
    return "".join(char for char in text if char in "ab")


@pytest.mark.parametrize("size", [100_000, 1_000_000])
def test_a_huge_line_is_a_file_that_begins_in_its_caption(size: int) -> None:
    text = "word " * (size // 5)
    (payload,) = render_text(text, Look())
    check(payload)
    assert isinstance(payload, File)
    assert payload.text == text
    assert payload.caption.startswith("word word")


def test_a_caption_that_begins_with_indented_code_keeps_its_marks_in_place() -> None:
    (payload,) = render_text("```\n    x = '😀'\n```\n\n**b** 😀\n\n" + "word " * 40_000, Look())
    check(payload)
    assert isinstance(payload, File)
    raw = payload.caption.encode("utf-16-le")
    shown = [
        raw[e.offset * 2 : (e.offset + e.length) * 2].decode("utf-16-le") for e in payload.caption_entities
    ]
    assert shown == ["    x = '😀'", "b"]
