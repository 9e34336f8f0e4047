"""What must hold for every message that we render: checked by Telegram's own code, and by counting."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import msgspec
from tests.channels.telegram.documents import Document
from tests.channels.telegram.judge_tdlib import judge, units
from typing_extensions import override

from pilothouse.channels.telegram.payload import (
    CAPTION,
    ENTITIES,
    RICH_CHARS,
    TEXT,
    Entity,
    File,
    Keyboard,
    Message,
    Payload,
    Progress,
    Rich,
    Upload,
)

CALLBACK_BYTES = 64
WORD = re.compile(r"[wc]\d{6}")
RICH_TAGS = frozenset(
    [
        "p",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "pre",
        "code",
        "blockquote",
        "ul",
        "ol",
        "li",
        "input",
        "table",
        "tr",
        "th",
        "td",
        "hr",
        "b",
        "i",
        "s",
        "a",
        "br",
    ]
)
VOID = frozenset({"input", "hr", "br"})


def check(payload: Payload) -> None:
    """Telegram takes it."""
    match payload:
        case Message(text=text, entities=entities) | Progress(text=text, entities=entities):
            check_text(text, entities, TEXT)
        case Upload(text=text, entities=entities):
            check_text(text, entities, CAPTION, may_be_empty=True)
        case File(caption=text, caption_entities=entities):
            check_text(text, entities, CAPTION, may_be_empty=True)
        case Rich(html=html):
            check_html(html)
    if isinstance(payload, Progress) and payload.html:
        check_html(payload.html)
    check_keyboard(payload.reply_markup)


def check_text(text: str, entities: tuple[Entity, ...], limit: int, *, may_be_empty: bool = False) -> None:
    judged = judge(text, entities=msgspec.to_builtins(entities), limit=limit, may_be_empty=may_be_empty)
    assert judged.accepted, judged.why
    assert units(text) <= limit
    assert len(entities) <= ENTITIES
    raw = text.encode("utf-16-le", "surrogatepass")
    for entity in entities:
        assert entity.length > 0
        # Half a pair cannot be decoded.
        raw[entity.offset * 2 : (entity.offset + entity.length) * 2].decode("utf-16-le")


def check_keyboard(keyboard: Keyboard | None) -> None:
    buttons = [button for row in keyboard.inline_keyboard for button in row] if keyboard else []
    assert all(0 < len(button.callback_data.encode()) <= CALLBACK_BYTES for button in buttons)
    assert all(button.text.strip() for button in buttons)
    assert len(buttons) <= 100


def check_html(html: str) -> str:
    """Only tags that Telegram knows, each closed in order; gives the text."""
    reader = RichReader()
    reader.feed(html)
    reader.close()
    assert not reader.open, f"left open: {reader.open}"
    text = "".join(reader.text)
    assert len(text) <= RICH_CHARS
    return text


class RichReader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in RICH_TAGS, tag
        if tag not in VOID:
            self.open.append(tag)

    @override
    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    @override
    def handle_data(self, data: str) -> None:
        self.text.append(data)


def words_of(payload: Payload) -> list[str]:
    return WORD.findall(payload.text)


def code_of(payload: Payload) -> dict[str, str]:
    """Each word that stands in a block of code, with the block's language."""
    if not isinstance(payload, Message):
        return {}
    raw = payload.text.encode("utf-16-le", "surrogatepass")
    blocks = [entity for entity in payload.entities if entity.type == "pre"]
    texts = [(raw[e.offset * 2 : (e.offset + e.length) * 2].decode("utf-16-le"), e.language) for e in blocks]
    return {word: language for text, language in texts for word in re.findall(r"c\d{6}", text)}


def languages_of(payload: Payload) -> list[str]:
    if isinstance(payload, Rich):
        return re.findall(r'class="language-([^"]*)"', payload.html)
    return [entity.language for entity in payload.entities] if isinstance(payload, Message) else []


def check_document(document: Document, payloads: list[Payload], *, sound: bool) -> None:
    """Telegram takes every message, and together they hold every word, once and in order."""
    for payload in payloads:
        check(payload)
    shown = WORD.findall("".join(payload.text for payload in payloads))
    # A word after a fence is a language, which Telegram shows above the block.
    languages = {language for payload in payloads for language in languages_of(payload)}
    hidden: set[str] = set() if sound else languages - set(shown)
    assert shown == [word for word in document.words if word not in hidden]
    if sound and all(isinstance(payload, Message) for payload in payloads):
        found = {word: language for payload in payloads for word, language in code_of(payload).items()}
        assert found == document.code
