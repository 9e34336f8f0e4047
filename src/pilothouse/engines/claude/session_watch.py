"""Lines of Claude's own session log -> events, and the logs that `pilothouse watch` follows. Nothing is ever written.

The log is undocumented and has some forty kinds of lines; only messages of people and of the model and results of tools
are read. A turn begins with a prompt. No line ends it: it is over once the model has stopped and a new prompt comes, Claude
Code sums up, or the log stays quiet.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from pilothouse.core.engine import Step
from pilothouse.core.event import Notice, PromptAdded, ResumeToken, SessionStarted, TurnEnded
from pilothouse.engines.claude import wire, wire_blocks
from pilothouse.engines.claude.config import ENGINE_ID
from pilothouse.engines.claude.failures import explain_printed
from pilothouse.engines.claude.messages import Messages, OpenTurn
from pilothouse.engines.claude.session_log import (
    SUFFIX,
    LogTail,
    find_log,
    folder_name,
    newest,
    projects_folder,
)
from pilothouse.engines.polled_log import PolledLog, Read
from pilothouse.engines.resume_lines import is_uuid

INTERRUPTED = "[Request interrupted by user"
MACHINE_WORDS = ("<command-", "<local-command-", "<bash-", "<task-", "<system-reminder>")
"""Beginnings of messages that Claude Code itself writes in a person's name."""
SUMMING_UP = ("cost-state", "queue-operation", "system/turn_duration", "system/stop_hook_summary")
COMPACTED = Notice("info", "compacted", "The conversation was summed up to make room.")

BACKLOG = 8 * 1024 * 1024
"""Number of bytes at the log's end that are searched for the beginning of the running turn."""
LOOK_EVERY_S = 0.2
QUIET_S = 1.0
SHORTEST = 4


class _Record(Struct, frozen=True, rename="camel"):
    type: str = ""
    subtype: Any = None
    is_sidechain: Any = False
    is_meta: Any = False
    is_compact_summary: Any = False
    is_api_error_message: Any = False
    session_id: Any = ""
    cwd: Any = ""
    message: Any = None


_decode = msgspec.json.Decoder(_Record).decode


class LogTranslator:
    """`feed` for every line; `pause` when none came for a while."""

    def __init__(self) -> None:
        self.line_problem = ""
        self._messages = Messages("", {})
        self._turn: OpenTurn | None = None
        self._stopped = False
        self._token: ResumeToken | None = None

    def feed(self, line: bytes) -> Sequence[Step]:
        try:
            record = _decode(line)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return ()
        if record.is_sidechain is True:
            return ()
        match record.type:
            case "user":
                return self._user(record, line)
            case "assistant":
                return self._assistant(record, line)
            case _:
                kind = f"{record.type}/{record.subtype}" if record.type == "system" else record.type
                return self.pause() if kind in SUMMING_UP else ()

    def pause(self) -> Sequence[Step]:
        return self._close(TurnEnded("completed")) if self._stopped else ()

    def end(self, exit_code: int | None = None, stderr_tail: str = "") -> Sequence[Step]:
        """End the watching: an open turn is cancelled."""
        return self.pause() or self._close(TurnEnded("cancelled"))

    def _user(self, record: _Record, line: bytes) -> Sequence[Step]:
        heard = _heard(line)
        if not isinstance(heard, wire.User) or record.is_meta is True:
            return ()
        content = heard.message.content
        if not isinstance(content, str) and any(
            isinstance(block, wire_blocks.ToolResult) for block in content
        ):
            return self._say(record, lambda turn: self._messages.user(turn, heard))
        text = _text_of(content)
        if text.startswith(INTERRUPTED):
            return self._close(TurnEnded("cancelled"))
        if record.is_compact_summary is True:
            return self._say(record, lambda turn: [COMPACTED]) if self._turn is not None else ()
        if not text or text.startswith(MACHINE_WORDS):
            return ()
        before = self.pause() or self._close(TurnEnded("cancelled"))
        return [*before, *self._say(record, lambda turn: [PromptAdded(text)])]

    def _assistant(self, record: _Record, line: bytes) -> Sequence[Step]:
        heard = _heard(line)
        if not isinstance(heard, wire.Assistant):
            return ()
        if record.is_api_error_message is True or heard.error is not None:
            failure = explain_printed(_text_of(heard.message.content))
            return self._close(TurnEnded("failed", failure=failure))
        said = self._say(record, lambda turn: self._messages.assistant(turn, heard))
        self._stopped = _stop_reason(record.message) not in (None, "tool_use", "pause_turn")
        return said

    def _say(self, record: _Record, steps: Callable[[OpenTurn], Iterable[Step]]) -> Sequence[Step]:
        self._stopped = False
        opening = self._open(record)
        assert self._turn is not None
        return [*opening, *self._turn.emit(steps(self._turn))]

    def _open(self, record: _Record) -> Sequence[Step]:
        if self._turn is not None:
            return ()
        cwd = record.cwd if isinstance(record.cwd, str) else ""
        session = record.session_id if isinstance(record.session_id, str) else ""
        self._messages.workspace = self._messages.workspace or cwd
        self._token = ResumeToken(ENGINE_ID, session, cwd) if session else None
        turn = self._turn = OpenTurn()
        turn.started = True
        return turn.emit([SessionStarted(self._token, cwd=cwd)])

    def _close(self, end: TurnEnded) -> Sequence[Step]:
        turn, self._turn, self._stopped = self._turn, None, False
        if turn is None:
            return ()
        return turn.emit([TurnEnded(end.outcome, turn.answer, end.failure, None, self._token)])


def _heard(line: bytes) -> object:
    heard = wire.decode(line)
    return heard.line if isinstance(heard, wire.Parts) else heard


def _stop_reason(message: Any) -> object:
    return message.get("stop_reason") if isinstance(message, dict) else None


def _text_of(content: str | Sequence[wire_blocks.Known]) -> str:
    if isinstance(content, str):
        return content.strip()
    return "\n".join(block.text for block in content if isinstance(block, wire_blocks.Text)).strip()


class LogReader:
    """Reads what was added to a log since the last time, and notices when it stays quiet."""

    def __init__(self, find: Callable[[], Path | None]) -> None:
        self._tail = LogTail(find, skip=lambda size: max(0, size - BACKLOG))
        self._translator = LogTranslator()
        self._quiet_s = 0.0
        self._is_first = True

    async def read(self) -> Sequence[Step]:
        steps = _read(self._tail, self._translator)
        if self._is_first:
            self._is_first = False
            return _last_turn(steps)
        self._quiet_s = 0.0 if steps else self._quiet_s + LOOK_EVERY_S
        return steps if self._quiet_s < QUIET_S else self._translator.pause()


@asynccontextmanager
async def _open_reader(find: Callable[[], Path | None]) -> AsyncIterator[Read]:
    yield LogReader(find).read


def _watched(where: str, find: Callable[[], Path | None]) -> PolledLog:
    return PolledLog(where, lambda: _changed_at(find()), lambda: _open_reader(find), LOOK_EVERY_S)


def find_watched(environment: Mapping[str, str], word: str) -> Sequence[PolledLog]:
    """Return the logs that a word may mean. A whole id may appear later; the beginning of one, or a folder, must exist."""
    projects = projects_folder(environment)
    if os.sep in word or word.endswith(SUFFIX) or word in (".", "..", "~"):
        return _by_path(projects, Path(word).expanduser())
    word = word.lower()
    if is_uuid(word):
        return [_of(projects, word)]
    if len(word) < SHORTEST or not set(word) <= set("0123456789abcdef-"):
        return []
    ids = {path.stem for path in projects.glob(f"*/{word}*{SUFFIX}") if is_uuid(path.stem)}
    return [_of(projects, id) for id in sorted(ids)]


def _of(projects: Path, session: str) -> PolledLog:
    return _watched(session, lambda: find_log(projects, session))


def _by_path(projects: Path, path: Path) -> Sequence[PolledLog]:
    """Return the log at this path; for a folder, that of the session that was last used in it."""
    if path.is_dir():
        found = newest(projects, f"*{SUFFIX}", folder_name(str(path)))
        return [_watched(found.stem, lambda: found)] if found else []
    if path.suffix != SUFFIX or not path.parent.is_dir():
        return []
    return [_watched(str(path), lambda: path if path.exists() else None)]


def _read(tail: LogTail, translator: LogTranslator) -> list[Step]:
    steps: list[Step] = []
    while lines := tail.read():
        steps += [step for line in lines for step in translator.feed(line)]
    return steps


def _changed_at(path: Path | None) -> float:
    try:
        return path.stat().st_mtime if path is not None else 0.0
    except OSError:
        return 0.0


def _last_turn(steps: Sequence[Step]) -> Sequence[Step]:
    starts = [place for place, step in enumerate(steps) if isinstance(step, SessionStarted)]
    return steps[starts[-1] :] if starts else ()
