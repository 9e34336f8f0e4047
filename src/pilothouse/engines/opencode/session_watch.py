"""Sessions of somebody's terminal -> events, for `pilothouse watch`. Nothing is ever written.

A terminal's OpenCode listens nowhere, so its database is read. A turn begins with a prompt. It is over when a request to the
model is, and asks for no call; a prompt before that belongs to the running turn.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pilothouse.core.engine import FoundSession, Step
from pilothouse.core.errors import EngineError
from pilothouse.core.event import PromptAdded
from pilothouse.engines.opencode import wire
from pilothouse.engines.opencode.database import database_path, open_database
from pilothouse.engines.opencode.session_list import read_sessions, said_in
from pilothouse.engines.opencode.translate import COMPACTION, GOES_ON, TurnTranslator
from pilothouse.engines.opencode.wire_parts import Message, read_message, read_part
from pilothouse.engines.polled_log import PolledLog, Read, named_folder

LOOK_EVERY_S = 0.5
ID = "ses_"
SHORTEST = len(ID) + 2


class HistoryReader:
    """`read` for every state of the session's last messages: returns what is new, at first the last turn."""

    def __init__(self, session: str, cwd: str) -> None:
        self._session = session
        self._cwd = cwd
        self._turn: TurnTranslator | None = None
        self._from = ""
        self._known: dict[str, Any] = {}

    def read(self, history: Sequence[dict[str, Any]]) -> Sequence[Step]:
        if not self._from and history:
            prompts = [message for message in history if said_in(message)]
            self._from = (prompts or list(history))[-1 if prompts else 0]["info"]["id"]
        new = [message for message in history if message["info"]["id"] >= self._from]
        return [step for message in new for step in self._take(message)]

    def _take(self, message: dict[str, Any]) -> Sequence[Step]:
        info = read_message(message["info"])
        if text := said_in(message):
            return self._open(info.id, PromptAdded(text)) if self._is_news(info.id, text) else ()
        if info.role != "assistant":
            return ()
        heard: list[wire.Heard] = [
            wire.PartUpdated(read_part(part), self._session)
            for part in message["parts"]
            if self._is_news(str(part.get("id")), part)
        ]
        if self._is_news(info.id, message["info"]):
            heard.insert(0, wire.MessageUpdated(info, self._session))
        return self._hear(info, heard) if heard else ()

    def _is_news(self, id: str, state: Any) -> bool:
        known, self._known[id] = self._known.get(id), state
        return known != state

    def _open(self, prompt: str, *steps: Step) -> Sequence[Step]:
        """Add steps to the running turn, or begin one with them."""
        if self._turn is not None and not self._turn.ended:
            return self._turn.emit(steps)
        turn = self._turn = TurnTranslator(self._session, prompt, cwd=self._cwd)
        return [*turn.begin(), *turn.emit(steps)]

    def _hear(self, info: Message, heard: Sequence[wire.Heard]) -> Sequence[Step]:
        opening = self._open(info.parent_id)
        assert self._turn is not None
        steps = [step for one in heard for step in self._turn.take(one)]
        return [*opening, *steps, *(self._turn.close() if _ends_turn(info) else ())]


def _ends_turn(info: Message) -> bool:
    return info.error is not None or (info.is_over and info.finish != GOES_ON and info.mode != COMPACTION)


def find_watched(environment: Mapping[str, str], word: str) -> Sequence[PolledLog]:
    """Return the logs that a word may mean: a session, the beginning of its id, or a folder."""
    path, folder = database_path(environment), named_folder(word)
    if not path.exists() or not (folder or (word.startswith(ID) and len(word) >= SHORTEST)):
        return []
    try:
        with open_database(path) as database:
            found = read_sessions(database.sessions(), str(folder or ""))
    except EngineError:
        if folder is None:
            raise
        return []
    named = found[:1] if folder else [one for one in found if one.resume.value.startswith(word)]
    return [_watched(path, one) for one in named]


def _watched(path: Path, found: FoundSession) -> PolledLog:
    return PolledLog(
        found.resume.value, lambda: found.used_at, lambda: _open_reader(path, found), LOOK_EVERY_S
    )


@asynccontextmanager
async def _open_reader(path: Path, found: FoundSession) -> AsyncIterator[Read]:
    session = found.resume.value
    reader = HistoryReader(session, found.resume.cwd)

    with open_database(path) as database:

        async def read() -> Sequence[Step]:
            return reader.read(database.history(session)) if database.changed() else ()

        yield read
