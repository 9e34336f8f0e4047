"""Pure: an ask as text, for channels that show text. What was asked is never cut without saying where the whole is.

Gives an approval of a file change its preview: the diff against the file as it is when people are asked.

Rules: what lies outside the workspace is not shown, for whoever reads the conversation may not read that file; a file
that cannot be read in time delays no question.
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
    parse_change,
    render_change,
    shorten,
)
from pilothouse.core.text import fenced

INLINE = 1500
"""What is longer goes along as a file."""
HEAD = 600

LOOK_S = 2.0
SLOW = Found(problem="the file could not be read in time")


def ask_words(ask: Ask, authority: Authority, before: str = "") -> str:
    """The title, exactly what is asked, and what people should know before they answer."""
    parts = [before + ask.title, _body(ask), fenced(ask.preview, "diff") if ask.preview else ""]
    parts += [f"Asked because: {ask.why}" if ask.why else "", describe_approvers(authority.approvers)]
    parts += [f"For {ask.whose}" if ask.whose else ""]
    parts += [f"Allowing it {_span(offer.remember)} saves: {offer.rule}" for offer in ask.offers]
    return "\n".join(part for part in parts if part)


def is_long(ask: Ask) -> bool:
    """Whether it cannot all be read beside the question."""
    return len(readable(ask)) > INLINE or bool(ask.preview and is_cut(ask.preview))


def readable(ask: Ask) -> str:
    """The payload as people read it, whole: each value under its name."""
    given = input_of(ask)
    return _joined(ask.payload.items() if given is None else [*_around(ask), *given.items()])


def _beside(ask: Ask) -> str:
    """What the preview does not show, if there is one."""
    if not ask.preview or input_of(ask) is None:
        return readable(ask)
    return _joined([*_around(ask), *beside_preview(ask.payload).items()])


def _around(ask: Ask) -> list[tuple[str, Any]]:
    """The input may have a value of the same name: both are said."""
    return [(key, value) for key, value in ask.payload.items() if key != "input"]


def _joined(values: Iterable[tuple[str, Any]]) -> str:
    return "\n".join(_named(key, value) for key, value in values)


def _body(ask: Ask) -> str:
    """All of the payload; with a preview, all that it does not show."""
    if ask.kind == "question" or ask.of_house or _said(ask.payload, ask.title):
        return ""
    text = _beside(ask)
    shown = fenced(text if len(text) <= INLINE else text[:HEAD]) if text else ""
    if not is_long(ask):
        return shown
    whole = f"{file_name(ask)}, SHA-256 {ask.payload_hash}"
    if len(text) > INLINE:
        return f"{shown}\n… and {len(text) - HEAD:,} more characters: all of it is in {whole}"
    return f"{shown}\nExactly what is asked is in {whole}".lstrip("\n")


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


async def with_preview(ask: Ask, workspace: str, look: LookAtFile) -> Ask:
    """With the whole diff; `brief_ask` is what goes beside the question."""
    if ask.kind != "approval" or ask.preview:
        return ask
    change = parse_change(ask.payload)
    if change is None:
        return ask
    said = ask.payload.get("cwd")
    cwd = said if isinstance(said, str) else workspace
    found = SLOW
    with anyio.move_on_after(LOOK_S):
        found = await look(str(PurePosixPath(cwd, change.path)), workspace)
    return msgspec.structs.replace(ask, preview=render_change(change, found, cwd))


def brief_ask(ask: Ask) -> Ask:
    """As it is shown: a long preview is shortened; `/show` gives it whole."""
    return msgspec.structs.replace(ask, preview=shorten(ask.preview)) if ask.preview else ask
