"""Lines of Claude's own session log -> events. Pure.

The log is undocumented and has some forty kinds of lines; what people said, what the model said and what tools answered
are all that is read here, and anything else passes without a word. A turn begins with a prompt. Nothing in the log says
that one is over: it is, once the model has stopped and somebody speaks again, the CLI sums up, or it stays quiet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from pilothouse.core.event import Notice, PromptAdded, ResumeToken, SessionStarted, TurnEnded
from pilothouse.engines.claude import blocks, wire
from pilothouse.engines.claude.failures import explain_printed
from pilothouse.engines.claude.messages import Messages
from pilothouse.engines.claude.turn import OpenTurn
from pilothouse.engines.claude.turns import ENGINE_ID, Step

INTERRUPTED = "[Request interrupted by user"
MACHINE_WORDS = ("<command-", "<local-command-", "<bash-", "<task-", "<system-reminder>")
"""How the CLI writes its own commands, and what it says to its model, into a person's place."""
SUMMING_UP = ("cost-state", "queue-operation", "system/turn_duration", "system/stop_hook_summary")
COMPACTED = Notice("info", "compacted", "The conversation was summed up to make room.")


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
        self.puzzle = ""
        self._messages = Messages("")
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
        """Nobody will look any more: what is open stays unfinished."""
        return self.pause() or self._close(TurnEnded("cancelled"))

    def _user(self, record: _Record, line: bytes) -> Sequence[Step]:
        heard = _heard(line)
        if not isinstance(heard, wire.User) or record.is_meta is True:
            return ()
        content = heard.message.content
        if not isinstance(content, str) and any(isinstance(block, blocks.ToolResult) for block in content):
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


def _text_of(content: str | Sequence[blocks.Known]) -> str:
    if isinstance(content, str):
        return content.strip()
    return "\n".join(block.text for block in content if isinstance(block, blocks.Text)).strip()
