"""Pure: an ask as text, for channels that show text. What was asked is never cut without saying where the whole is."""

from __future__ import annotations

from typing import Any

import msgspec

from pilothouse.core.approvers import Authority, describe_approvers
from pilothouse.core.ask import Ask
from pilothouse.runtime.wording import fenced

INLINE = 1500
"""What is longer goes along as a file."""
HEAD = 600


def ask_words(ask: Ask, authority: Authority, before: str = "") -> str:
    """The title, exactly what is asked, and what people should know before they answer."""
    parts = [before + ask.title, _body(ask), fenced(ask.preview, "diff") if ask.preview else ""]
    parts += [f"Asked because: {ask.why}" if ask.why else "", describe_approvers(authority.approvers)]
    parts += [f"Allowing it {_span(offer.remember)} saves: {offer.rule}" for offer in ask.offers]
    return "\n".join(part for part in parts if part)


def is_long(ask: Ask) -> bool:
    return len(readable(ask)) > INLINE


def readable(ask: Ask) -> str:
    """The payload as people read it, whole: each value under its name."""
    given = ask.payload.get("input")
    around = {key: value for key, value in ask.payload.items() if key != "input"}
    values = {**around, **given} if isinstance(given, dict) else ask.payload
    return "\n".join(_named(key, value) for key, value in values.items())


def _body(ask: Ask) -> str:
    if ask.kind == "question" or ask.of_house or _said(ask.payload, ask.title):
        return ""
    text = readable(ask)
    if len(text) <= INLINE:
        return "" if ask.preview else fenced(text)
    if ask.preview:
        return f"Exactly what is asked is in {file_name(ask)}, SHA-256 {ask.payload_hash}"
    tail = f"… and {len(text) - HEAD:,} more characters: all of it is in {file_name(ask)}, SHA-256 {ask.payload_hash}"
    return f"{fenced(text[:HEAD])}\n{tail}"


def file_name(ask: Ask) -> str:
    return f"{ask.id}.json"


def _said(value: Any, title: str) -> bool:
    """Whether the title tells all of it."""
    match value:
        case dict():
            return all(_said(item, title) for item in value.values())
        case str():
            return value in title
        case _:
            return False


def _named(key: str, value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return f"{key}:\n{text}" if "\n" in text else f"{key}: {text}"


def _span(remember: str) -> str:
    return {"session": "for this session", "always": "always"}.get(remember, remember)
