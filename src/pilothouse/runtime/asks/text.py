"""An ask as text, and the preview of a file change: the diff against the file as it is now.

A shortened payload always says where the full one is. Files outside the workspace are not previewed, because readers of
the conversation may not be allowed to read them. A slow file delays no question.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any

import anyio
import msgspec

from pilothouse.core.ask import Ask
from pilothouse.core.ask_view import input_of
from pilothouse.core.people import Authority, describe_approvers
from pilothouse.core.preview import (
    Found,
    LookAtFile,
    beside_preview,
    is_cut,
    render_change,
    shorten,
)
from pilothouse.core.text import code_block

INLINE = 1500
"""A longer payload is attached as a file."""
HEAD = 600

LOOK_S = 2.0
SLOW = Found(problem="the file could not be read in time")


def ask_text(ask: Ask, authority: Authority, before: str = "") -> str:
    """Return the title, the payload, and everything people should know before they answer."""
    parts = [before + ask.title, _body(ask), code_block(ask.preview, "diff") if ask.preview else ""]
    parts += [f"Asked because: {ask.why}" if ask.why else "", describe_approvers(authority.approvers)]
    parts += [f"For {ask.whose}" if ask.whose else ""]
    parts += [f"Allowing it {_span(offer.remember)} saves: {offer.rule}" for offer in ask.offers]
    return "\n".join(part for part in parts if part)


def is_long(ask: Ask) -> bool:
    """True if the payload does not fit beside the question."""
    return len(payload_text(ask)) > INLINE or bool(ask.preview and is_cut(ask.preview))


def payload_text(ask: Ask) -> str:
    """Format the whole payload: each value under its name."""
    given = input_of(ask)
    return _joined(ask.payload.items() if given is None else [*_around(ask), *given.items()])


def _beside(ask: Ask) -> str:
    """Format the payload without the values that the preview shows."""
    if not ask.preview or input_of(ask) is None:
        return payload_text(ask)
    return _joined([*_around(ask), *beside_preview(ask).items()])


def _around(ask: Ask) -> list[tuple[str, Any]]:
    """Return the values beside the input, even if the input has the same names."""
    return [(key, value) for key, value in ask.payload.items() if key != "input"]


def _joined(values: Iterable[tuple[str, Any]]) -> str:
    return "\n".join(_named(key, value) for key, value in values)


def _body(ask: Ask) -> str:
    """Return the payload beside the title and the preview, shortened if it is long."""
    if ask.kind == "question" or ask.of_house or _said(ask.payload, ask.title):
        return ""
    text = _beside(ask)
    shown = code_block(text if len(text) <= INLINE else text[:HEAD]) if text else ""
    if not is_long(ask):
        return shown
    whole = f"{file_name(ask)}, SHA-256 {ask.payload_hash}"
    if len(text) > INLINE:
        return f"{shown}\n… and {len(text) - HEAD:,} more characters: all of it is in {whole}"
    return f"{shown}\nThe full request is in {whole}".lstrip("\n")


def file_name(ask: Ask) -> str:
    return f"{ask.id}.json"


def _said(value: Any, title: str) -> bool:
    """True if the title contains all values."""
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


async def with_preview(ask: Ask, workspace: str, look: LookAtFile) -> Ask:
    """Add the full diff; `brief_ask` shortens it for display."""
    if ask.kind != "approval" or ask.preview:
        return ask
    change = ask.call.change if ask.call is not None else None
    if ask.call is None or change is None:
        return ask
    cwd = ask.call.cwd or workspace
    found = SLOW
    with anyio.move_on_after(LOOK_S):
        found = await look(str(PurePosixPath(cwd, change.path)), workspace)
    return msgspec.structs.replace(ask, preview=render_change(change, found, cwd))


def brief_ask(ask: Ask) -> Ask:
    """Shorten a long preview for display; `/show` gives the full one."""
    return msgspec.structs.replace(ask, preview=shorten(ask.preview)) if ask.preview else ask
