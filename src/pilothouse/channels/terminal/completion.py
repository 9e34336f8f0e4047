"""Tab: completes commands, sessions, models and engines behind their commands, and files behind `@`."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from pilothouse.channels.terminal.setup import Setup
from pilothouse.core.channel import MenuCommand

if TYPE_CHECKING:
    from prompt_toolkit.completion import CompleteEvent, Completer, Completion
    from prompt_toolkit.document import Document

MOST = 200
LEAVE = (MenuCommand("exit", "leave", "stranger"), MenuCommand("quit", "leave", "stranger"))
_COMMAND = re.compile(r"/(\w*)")
_ARGUMENT = re.compile(r"/(resume|model|engine)\s+(\S*)")
_FILE = re.compile(r"(?:.*\s)?@(\S*)", re.S)

Query = Callable[[str], Awaitable[Any]]
"""Asks the desk about this conversation; an empty list if it cannot say."""


class Suggestion(Struct, frozen=True):
    text: str
    about: str = ""


async def suggest(text: str, setup: Setup, query: Query) -> tuple[str, list[Suggestion]]:
    """Returns the word that is being typed at the end of `text`, and what it may become."""
    if found := _COMMAND.fullmatch(text):
        word, known = found[1], _commands(setup.commands)
    elif found := _ARGUMENT.fullmatch(text):
        word, known = found[2], await _arguments(found[1], query)
    elif found := _FILE.fullmatch(text):
        word, known = found[1], list(_files(found[1], setup.folder))
    else:
        return "", []
    return word, [one for one in known if one.text.lower().startswith(word.lower())][:MOST]


def _commands(known: Sequence[MenuCommand]) -> list[Suggestion]:
    return [Suggestion(one.name, one.summary) for one in (*known, *LEAVE)]


async def _arguments(command: str, query: Query) -> list[Suggestion]:
    if command != "resume":
        return [Suggestion(str(name)) for name in await query(f"{command}s")]
    return [Suggestion(str(id), label) for label, id in await query("sessions")]


def _files(word: str, folder: str) -> Iterable[Suggestion]:
    """Lists the folder that the word is in; hidden files only if the word begins like one."""
    above, name = os.path.split(word)
    where = Path(folder or ".", os.path.expanduser(above))
    try:
        with os.scandir(where) as entries:
            found = sorted((entry.name, entry.is_dir()) for entry in entries)
    except OSError:
        return
    for entry, is_folder in found:
        if not entry.startswith(".") or name.startswith("."):
            yield Suggestion(os.path.join(above, entry) + ("/" if is_folder else ""))


def make_completer(setup: Setup, query: Query) -> Completer:
    """Defined in a function because prompt_toolkit is imported late."""
    from prompt_toolkit.completion import Completer, Completion

    class ChatCompleter(Completer):
        def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
            return ()

        # pyrefly: ignore [missing-override-decorator]
        async def get_completions_async(
            self, document: Document, complete_event: CompleteEvent
        ) -> AsyncGenerator[Completion, None]:
            word, found = await suggest(document.text_before_cursor, setup, query)
            for one in found:
                yield Completion(one.text, start_position=-len(word), display_meta=one.about)

    return ChatCompleter()
