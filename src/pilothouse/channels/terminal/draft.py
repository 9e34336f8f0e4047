"""Changing what an ask would do: what a person gets to edit, and what becomes of it.

A command is a line; anything else is JSON, in the person's own editor where they named one. What comes back is the
whole input of the tool, and nothing is allowed that was not understood.
"""

from __future__ import annotations

import json
import os
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
from msgspec import Struct

from pilothouse.channels.terminal.streams import Streams
from pilothouse.core.ask import Ask, Decision
from pilothouse.core.ask_view import command_of, input_of

CHANGE_COMMAND = "Change the command, then Enter; an empty line goes back."
CHANGE_JSON = "Change what the tool is given, as JSON, then Enter; an empty line goes back."
UNCHANGED = "Nothing was changed; it is not answered yet."


class Unusable(Exception):
    """What was typed cannot be what the tool is given; the words say why."""


class Draft(Struct, frozen=True):
    """What is edited, and what is said above it."""

    text: str
    hint: str
    is_command: bool


def draft_of(ask: Ask, *, in_editor: bool = False) -> Draft:
    command = command_of(ask)
    if command is not None:
        return Draft(command, CHANGE_COMMAND, True)
    indent = 2 if in_editor else None
    return Draft(json.dumps(input_of(ask), ensure_ascii=False, indent=indent), CHANGE_JSON, False)


def changed(ask: Ask, text: str) -> Decision | None:
    """An allow of what was typed; None if that is what was asked. Raises `Unusable`."""
    given = input_of(ask) or {}
    instead = {**given, "command": text.strip()} if command_of(ask) is not None else _parsed(text)
    return None if instead == given else Decision("allow", input=instead)


def _parsed(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unusable(f"That is no JSON: {error}.") from error
    if not isinstance(value, dict):
        raise Unusable("That is JSON, but no object: it begins with { and ends with }.")
    return value


async def edit_in_editor(streams: Streams, text: str, folder: Path) -> str:
    """What the person's own editor leaves of the text. Raises `Unusable` if it cannot be started, or fails."""
    with _scratch(folder, text) as file:
        await _run_editor(streams, str(file))
        try:
            return file.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise Unusable(f"What the editor left cannot be read: {error}.") from error


@contextmanager
def _scratch(folder: Path, text: str) -> Iterator[Path]:
    """A file that nobody else may read, and that is gone afterwards."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, name = tempfile.mkstemp(".json", "change-", folder)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text + "\n")
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


async def _run_editor(streams: Streams, name: str) -> None:
    screen = streams.stdout if streams.stdout_tty else streams.stderr
    try:
        command = [*shlex.split(streams.editor), name]
        done = await anyio.run_process(
            command, stdin=streams.stdin.fileno(), stdout=screen.fileno(), stderr=screen.fileno(), check=False
        )
    except (OSError, ValueError) as error:
        raise Unusable(f"The editor {streams.editor!r} cannot be started: {error}.") from error
    if done.returncode:
        raise Unusable(f"The editor {streams.editor!r} ended with {done.returncode}.")
