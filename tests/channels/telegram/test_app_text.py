"""A person's name in a text of the app sets no link and no mark: only code is markup there."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.channels.telegram.payload import Look, Message, unpack
from pilothouse.channels.telegram.render import app_blocks, render
from pilothouse.channels.telegram.styled import Code, Paragraph, plain_text
from pilothouse.core.message import Content, ContentKind

EVIL = (
    "[Yan](https://evil.example/a) **x** <b>y</b> ![i](https://evil.example/b) <https://evil.example/c> __z__"
)


def shown(content: Content) -> Message:
    (part,) = render(content, Look(rich=True))
    payload = unpack(part)
    assert isinstance(payload, Message)
    return payload


@pytest.mark.parametrize("kind", ["notice", "reply", "closed"])
def test_a_name_is_shown_letter_by_letter(kind: ContentKind) -> None:
    found = shown(
        Content(f"{EVIL} added me. `pilothouse users` shows who may.\n\n# no heading\n- {EVIL}", kind)
    )
    assert found.text == f"{EVIL} added me. pilothouse users shows who may.\n\n# no heading\n- {EVIL}"
    assert [entity.type for entity in found.entities] == ["code"]


def test_what_an_engine_said_keeps_its_look_also_where_the_house_repeats_it() -> None:
    assert [entity.type for entity in shown(Content("**so**", "answer")).entities] == ["bold"]
    assert [entity.type for entity in shown(Content("**so**\n\nStopped.", formatted=True)).entities] == [
        "bold"
    ]


def test_a_listing_is_a_block_and_a_name_turns_nothing_around() -> None:
    blocks = app_blocks("```\n/help  this *list*\n```\nby \u202eecila\u202c 👩\u200d💻")
    assert blocks[0] == Code("/help  this *list*")
    assert isinstance(blocks[1], Paragraph)
    assert plain_text(blocks[1].spans) == "by \\u202eecila\\u202c 👩\u200d💻"


@given(st.text(alphabet=st.sampled_from("ab *_~|<>[]()#!-`\\\n😀&@/:."), max_size=80))
def test_every_letter_is_there_but_for_the_marks_of_code(text: str) -> None:
    blocks = app_blocks(text.replace("```", ""))
    said = "\n".join(plain_text(block.spans) for block in blocks if isinstance(block, Paragraph))
    expected = re.sub(r"`([^`\n]+)`", r"\1", text.replace("```", "").strip())
    assert said == expected
    assert not any(
        span.url or span.marks - {"code"}
        for block in blocks
        if isinstance(block, Paragraph)
        for span in block.spans
    )
