"""A rich message of ours that comes back is read as text; nothing in it raises."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.channels.telegram.written import rich_markdown

values = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "text", "blocks", "items", "cells", "caption", "summary", "size", "label", "value"]
            ),
            inner | st.sampled_from(["list", "table", "heading", "pre", "url", "bold", "blockquote"]),
            max_size=4,
        )
    ),
    max_leaves=20,
)


def paragraph(text: Any) -> dict[str, Any]:
    return {"type": "paragraph", "text": text}


def item(text: str, **more: Any) -> dict[str, Any]:
    return {"label": "•", "blocks": [paragraph(text)], **more}


@pytest.mark.parametrize(
    ("block", "read"),
    [
        (paragraph("plain"), "plain"),
        (
            paragraph(["a ", {"type": "bold", "text": ["b", {"type": "italic", "text": "c"}]}, {"type": "code", "text": "d"}]),
            "a **b_c_**`d`",
        ),
        (paragraph({"type": "url", "text": "page", "url": "https://e.org"}), "[page](https://e.org)"),
        (paragraph({"type": "custom_emoji", "custom_emoji_id": "1", "alternative_text": "😀"}), "😀"),
        (paragraph({"type": "from_the_future", "text": "words"}), "words"),
        ({"type": "heading", "text": "Plan", "size": 2}, "## Plan"),
        ({"type": "pre", "text": "x = 1\n", "language": "python"}, "```python\nx = 1\n```"),
        ({"type": "pre", "text": {"type": "bold", "text": "```"}}, "````\n```\n````"),
        ({"type": "divider"}, "---"),
        ({"type": "anchor", "name": "here"}, ""),
        ({"type": "list", "items": [item("one"), item("two", has_checkbox=True, is_checked=True)]}, "- one\n- [x] two"),
        ({"type": "list", "items": [item("one", value=3, label="3."), item("two", value=4, label="")]}, "3. one\n4. two"),
        (
            {"type": "list", "items": [{"label": "•", "blocks": [paragraph("a"), {"type": "list", "items": [item("b")]}]}]},
            "- a\n  - b",
        ),
        ({"type": "blockquote", "blocks": [paragraph("a"), paragraph("b")], "credit": "Ada"}, "> a\n>\n> b\n> — Ada"),
        ({"type": "pullquote", "text": "a"}, "> a"),
        (
            {"type": "table", "cells": [[{"text": "a|b"}, {}], [{"text": "1"}, {"text": "2"}]], "caption": "T"},
            "| a\\|b |  |\n| --- | --- |\n| 1 | 2 |\nT",
        ),
        ({"type": "details", "summary": "More", "blocks": [paragraph("inside")]}, "More\ninside"),
        ({"type": "photo", "photo": [], "caption": {"text": "the yard", "credit": "Bob"}}, "[picture]\nthe yard\nBob"),
        ({"type": "mathematical_expression", "expression": "a^2"}, "$$a^2$$"),
        ({"type": "hologram", "text": "words", "blocks": [paragraph("within")]}, "words\nwithin"),
    ],
)  # fmt: skip
def test_a_block_is_read_as_markdown(block: dict[str, Any], read: str) -> None:
    assert rich_markdown({"blocks": [block]}) == read


def test_blocks_are_parted_and_silent_ones_leave_no_gap() -> None:
    blocks = [
        {"type": "heading", "text": "Plan", "size": 1},
        {"type": "buttons", "buttons": [{"text": "Go"}]},
        paragraph("go"),
    ]
    assert rich_markdown({"blocks": blocks}) == "# Plan\n\ngo"


@given(values)
def test_no_message_raises(value: object) -> None:
    rich_markdown(value)
    rich_markdown({"blocks": value})
    rich_markdown({"blocks": [value]})


def test_a_hostile_nesting_is_cut_and_does_not_break_the_reader() -> None:
    text: Any = "deep"
    block: Any = paragraph("deep")
    for _ in range(2000):
        text = {"type": "bold", "text": [text]}
        block = {"type": "blockquote", "blocks": [block]}
    rich = {"blocks": [paragraph("here"), paragraph(text), block]}
    assert rich_markdown(rich).startswith("here")
