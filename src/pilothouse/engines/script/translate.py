"""Lines of one turn -> events. Pure: `feed` for every line, `end` once when the process has ended.

Rules: whatever is fed, the events keep the grammar of core/event.py. A line outside the protocol costs at most two
notices per turn and harms no other line. A process that dies ends the turn with the reason. `TOOLS` are the names that
a script's payload, or a program that sends no `call`, may use; docs/engines/script.md lists them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pilothouse.core.ask import hash_payload
from pilothouse.core.call import Call
from pilothouse.core.engine import MediaFound
from pilothouse.core.event import (
    Asked,
    EngineEvent,
    Grammar,
    MediaProduced,
    Notice,
    ResumeToken,
    SessionChanged,
    SessionStarted,
    TurnEnded,
)
from pilothouse.core.ids import EngineId
from pilothouse.core.message import Attachment
from pilothouse.core.outcome import Failure
from pilothouse.engines.link import Exit, explain_exit
from pilothouse.engines.script import wire
from pilothouse.engines.tool_calls import ToolNames, read_tool_call

_PATH = ("file_path", "filePath", "path")

TOOLS = ToolNames(
    commands=frozenset({"Bash", "bash", "shell", "Shell", "exec_command", "local_shell"}),
    reads={
        "Read": _PATH,
        "read": _PATH,
        "LS": ("path",),
        "list": ("path",),
        "Glob": ("path", "pattern"),
        "glob": ("path", "pattern"),
        "Grep": ("path",),
        "grep": ("path",),
    },
    changes={
        "Write": _PATH,
        "write": _PATH,
        "Edit": _PATH,
        "edit": _PATH,
        "MultiEdit": _PATH,
        "NotebookEdit": ("notebook_path",),
    },
    deep=frozenset({"Glob", "glob", "Grep", "grep"}),
    patterns=frozenset({"Glob", "glob"}),
    web={"WebFetch": "url", "webfetch": "url"},
    skills={"Skill": ("skill", "command", "name"), "skill": ("name",)},
)


def call_of(payload: Mapping[str, Any]) -> Call | None:
    """Return the call that `{"tool", "input", "cwd"}` describes; None if it names no tool."""
    return read_tool_call(TOOLS, payload)


ENGINE_ID = EngineId("script")

_QUOTED_CHARS = 200


class TurnTranslator:
    """One turn of one session. Set `interrupted` when it was asked to stop: a dead process then means cancelled."""

    def __init__(self, session: str, turn: int, cwd: str, engine: EngineId = ENGINE_ID) -> None:
        self._session = session
        self._turn = turn
        self._cwd = cwd
        self._engine = engine
        self._grammar = Grammar()
        self._noise = 0
        self.interrupted = False

    @property
    def ended(self) -> bool:
        return self._grammar.ended

    def feed(self, line: bytes) -> Sequence[EngineEvent | wire.Media]:
        return self.take(wire.decode(line))

    def take(self, heard: wire.Heard) -> Sequence[EngineEvent | wire.Media]:
        """Return events, and media as it is: only a store can keep bytes, and `keep` makes the event."""
        match heard:
            case wire.Event(session=self._session, turn=self._turn, event=event):
                return [*self._before_end(event), *self._grammar.feed(self._ours(event))]
            case wire.Media(session=self._session, turn=self._turn) if not self.ended:
                return [heard]
            case wire.Noise():
                return self._hear_noise(heard)
            case _:
                return []

    def keep(self, attachment: Attachment) -> list[EngineEvent]:
        return self._grammar.feed(MediaProduced(attachment))

    def note(self, notice: Notice) -> list[EngineEvent]:
        return self._grammar.feed(notice)

    def end(self, last: Exit) -> list[EngineEvent]:
        """Return what is missing when nothing more can come; nothing after a `TurnEnded`."""
        if self.ended:
            return []
        if self.interrupted:
            return self._grammar.feed(TurnEnded("cancelled"))
        return [*self._noise_summary(), *self._grammar.end(explain_exit(last))]

    def fail(self, failure: Failure) -> list[EngineEvent]:
        return self._grammar.end(failure)

    def _ours(self, event: EngineEvent) -> EngineEvent:
        """Fill in the token's engine and folder and the hash of an ask, and the call where a program sends none."""
        match event:
            case SessionStarted(resume=ResumeToken() as token) | TurnEnded(resume=ResumeToken() as token):
                return msgspec.structs.replace(event, resume=self._token(token))
            case SessionChanged(resume=token):
                return SessionChanged(self._token(token))
            case Asked(ask=ask):
                call = ask.call if ask.call is not None or ask.kind == "question" else call_of(ask.payload)
                return Asked(msgspec.structs.replace(ask, payload_hash=hash_payload(ask.payload), call=call))
            case _:
                return event

    def _token(self, token: ResumeToken) -> ResumeToken:
        return ResumeToken(self._engine, token.value, self._cwd)

    def _hear_noise(self, noise: wire.Noise) -> list[EngineEvent]:
        known, self._noise = self._noise, self._noise + noise.lines
        if known:
            return []
        quoted = noise.raw.decode("utf-8", "replace")[:_QUOTED_CHARS]
        return self._warn(f"The engine printed something that is not of its protocol: {quoted}")

    def _before_end(self, event: EngineEvent) -> list[EngineEvent]:
        return self._noise_summary() if isinstance(event, TurnEnded) else []

    def _noise_summary(self) -> list[EngineEvent]:
        if self._noise < 2 or self.ended:
            return []
        return self._warn(f"The engine printed {self._noise - 1} more lines that are not of its protocol.")

    def _warn(self, text: str) -> list[EngineEvent]:
        return self._grammar.feed(Notice("warning", "engine_noise", text))


Step = EngineEvent | MediaFound


class ScriptReplay:
    """Translates recorded output, in which turns are mixed: each turn as one stream, in the order in which they end."""

    def __init__(self) -> None:
        self.line_problem = ""
        self._open: dict[tuple[str, int], tuple[TurnTranslator, list[Step]]] = {}

    def feed(self, line: bytes) -> Sequence[Step]:
        heard = wire.decode(line)
        self.line_problem = "not of the protocol" if isinstance(heard, wire.Noise) else ""
        match heard:
            case wire.Event(session=session, turn=turn) | wire.Media(session=session, turn=turn):
                return self._take((session, turn), heard)
            case _:
                return ()

    def end(self, exit_code: int | None = None, stderr_tail: str = "") -> Sequence[Step]:
        last = Exit(exit_code, stderr_tail)
        left = [step for turn, steps in self._open.values() for step in (*steps, *turn.end(last))]
        self._open.clear()
        return left

    def _take(self, key: tuple[str, int], heard: wire.Heard) -> Sequence[Step]:
        turn, steps = self._open.setdefault(key, (TurnTranslator(key[0], key[1], ""), []))
        steps += [_found(step) for step in turn.take(heard)]
        if not turn.ended:
            return ()
        del self._open[key]
        return steps


def _found(step: EngineEvent | wire.Media) -> Step:
    return MediaFound(step.name, step.media_type, step.data) if isinstance(step, wire.Media) else step
