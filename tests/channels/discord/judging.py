"""What must hold for every message that we render, written apart from what renders: Discord's limits and its fences."""

from __future__ import annotations

import re

from tests.channels.telegram.documents import Document

from pilothouse.channels.discord.markdown import to_discord
from pilothouse.channels.discord.payload import Button, Message, Payload, Select
from pilothouse.channels.text import split_pieces

WORD = re.compile(r"[wc]\d{6}")
BLOCK = re.compile(r"```(?:([a-z0-9_+\-.#]+?)\n)?\n*([^\n].*?)\n*```", re.S | re.I)
"""A block of code as Discord's own client finds it: three backticks, and all up to the next three."""


def units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def check(payload: Payload) -> None:
    """Discord takes it."""
    assert units(payload.text) <= 2000
    files = len(payload.documents) + len(payload.names) if isinstance(payload, Message) else 0
    assert files <= 10
    assert payload.text.strip() or files
    check_fences(payload.text)
    check_rows(payload)


def check_fences(text: str) -> None:
    """Every block that is opened in a message is closed in it."""
    assert "```" not in BLOCK.sub("", text), text


def check_rows(payload: Payload) -> None:
    assert len(payload.rows) <= 5
    items = [item for row in payload.rows for item in row.items]
    for row in payload.rows:
        assert 1 <= len(row.items) <= (5 if isinstance(row.items[0], Button) else 1)
    assert len({item.key for item in items}) == len(items)
    for item in items:
        assert 1 <= units(item.key) <= 100
        if isinstance(item, Select):
            assert 1 <= len(item.options) <= 25
            assert 1 <= item.min <= item.max <= len(item.options)
            assert units(item.placeholder) <= 150
            assert len({option.value for option in item.options}) == len(item.options)
            assert all(option.label.strip() and units(option.label) <= 100 for option in item.options)
        else:
            assert item.label.strip()
            assert units(item.label) <= 80


def words_of(payloads: list[Payload]) -> list[str]:
    """A word may begin in one message and end in the next."""
    return WORD.findall("".join(payload.text for payload in payloads))


def code_of(payload: Payload) -> dict[str, str]:
    return {
        word: (block[1] or "")
        for block in BLOCK.finditer(payload.text)
        for word in re.findall(r"c\d{6}", block[2])
    }


def check_document(document: Document, payloads: list[Payload], *, sound: bool) -> None:
    """Discord takes every message, and together they hold every word, once and in order."""
    for payload in payloads:
        check(payload)
    whole = [file for payload in payloads if isinstance(payload, Message) for file in payload.documents]
    if whole:
        (file,) = whole
        assert file.text == document.source
        assert len(payloads) == 1
        return
    assert len(payloads) <= 10
    if sound:
        assert words_of(payloads) == document.words
        found = {word: language for payload in payloads for word, language in code_of(payload).items()}
        assert found == document.code


def check_written(document: Document, width: int) -> None:
    """Discord's Markdown has every word of the document in order, and is cut without loss."""
    written = to_discord(document.source, width)
    assert WORD.findall(written) == document.words
    assert "".join(piece.body for piece in split_pieces(written, 1900)) == written
