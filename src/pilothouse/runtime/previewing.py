"""Gives an approval of a file change its preview: the diff against the file as it is when people are asked.

Rules: what lies outside the workspace is not shown, for whoever reads the conversation may not read that file; a file
that cannot be read in time delays no question.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import PurePosixPath

import anyio
import msgspec

from pilothouse.core.ask import Ask
from pilothouse.core.preview import Found, parse_change, render_change, shorten

LOOK_S = 2.0
SLOW = Found(problem="the file could not be read in time")
UNSEEN = Found(problem="the file was not looked at")

LookAtFile = Callable[[str, str], Awaitable[Found]]
"""The file at a path, if it lies in the folder that is named second."""


async def not_looked_at(path: str, folder: str) -> Found:
    return UNSEEN


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
