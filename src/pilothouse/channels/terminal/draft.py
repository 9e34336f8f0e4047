"""Editing a tool's input before it is allowed.

A command is edited as a line; any other input as JSON, in the person's own editor if one is set. The result is the whole
input of the tool, and nothing is allowed that cannot be parsed.
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
from pilothouse.core.ask import Ask, Decision, input_of
from pilothouse.core.ask_view import command_of

CHANGE_COMMAND = "Change the command, then Enter; an empty line goes back."
CHANGE_JSON = "Change what the tool is given, as JSON, then Enter; an empty line goes back."
UNCHANGED = "Nothing was changed; it is not answered yet."


class Unusable(Exception):
    """Raised if what was typed cannot be the tool's input; the message says why."""


class Draft(Struct, frozen=True):
    """The text to edit, and the hint above it."""

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
    """Returns an allow with the typed input; None if it is unchanged. Raises `Unusable`."""
    given = input_of(ask) or {}
    instead = {**given, "command": text.strip()} if command_of(ask) is not None else _parsed(text)
    return None if instead == given else Decision("allow", input=instead)


def _parsed(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unusable(f"That is not valid JSON: {error}.") from error
    if not isinstance(value, dict):
        raise Unusable("That is not a JSON object: write {…}.")
    return value


async def edit_in_editor(streams: Streams, text: str, folder: Path) -> str:
    """Returns the text as edited in the person's own editor. Raises `Unusable` if that cannot be started, or fails."""
    with _scratch(folder, text) as file:
        await _run_editor(streams, str(file))
        try:
            return file.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise Unusable(f"The edited file cannot be read: {error}.") from error


@contextmanager
def _scratch(folder: Path, text: str) -> Iterator[Path]:
    """Yields a private file, which is removed afterwards."""
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
