"""Recorded events of a server -> events: each turn as one stream, in the order in which they end.

A line is an event as the server sent it, with or without `data:` before it; one of a dialogue, `{"dir": "sse", "msg": …}`; or
one of `opencode run --format json`. A server has many sessions, so turns are mixed on the wire.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct, field

from pilothouse.core.engine import Step
from pilothouse.core.event import Asked
from pilothouse.engines.link import Exit
from pilothouse.engines.opencode import wire
from pilothouse.engines.opencode.asks import read_request
from pilothouse.engines.opencode.translate import GOES_ON, TurnTranslator
from pilothouse.engines.opencode.wire_parts import Fault, Message, MessageTime, read_part

_FAULTS = (msgspec.MsgspecError, UnicodeError, RecursionError)


class _Recorded(Struct, frozen=True):
    dir: str = ""
    msg: Raw = Raw(b"")


class _Run(Struct, frozen=True):
    """A line of `opencode run`: step_start, text, tool_use, step_finish or error."""

    type: str
    session_id: str = field(name="sessionID")
    part: dict[str, Any] = field(default_factory=dict)
    error: Fault | None = None


_recorded = msgspec.json.Decoder(_Recorded)
_run = msgspec.json.Decoder(_Run)


class OpenCodeReplay:
    def __init__(self) -> None:
        self.line_problem = ""
        self._folders: dict[str, str] = {}
        """The folder of each session."""
        self._seen: set[str] = set()
        """Prompts that were met: OpenCode repeats them."""
        self._open: dict[str, tuple[TurnTranslator, list[Step]]] = {}
        self._waiting: dict[str, wire.PermissionAsked] = {}
        """Permissions whose call is not known yet, by the call's id."""

    def feed(self, line: bytes) -> Sequence[Step]:
        heard = wire.decode(_message(line))
        told = read_run(line) if isinstance(heard, wire.Unknown) else ()
        self.line_problem = "" if told else _line_problem(heard)
        return [step for one in told or (heard,) for step in self._hear(one)]

    def end(self, exit_code: int | None = None, stderr_tail: str = "") -> Sequence[Step]:
        last = Exit(exit_code, stderr_tail)
        left = [step for turn, steps in self._open.values() for step in (*steps, *turn.end(last))]
        self._open.clear()
        return left

    def _hear(self, heard: wire.Heard) -> Sequence[Step]:
        match heard:
            case wire.SessionCreated(info=info):
                self._folders[info.id] = info.directory
            case wire.MessageUpdated(info=info, session_id=session) if info.role == "user":
                self._begin(session, info)
            case _:
                pass
        return self._take(heard)

    def _begin(self, session: str, info: Message) -> None:
        if info.id in self._seen:
            return
        self._seen.add(info.id)
        if session not in self._open:
            cwd = self._folders.get(session, "")
            turn = TurnTranslator(session, info.id, model=info.model.name, cwd=cwd)
            self._open[session] = (turn, turn.begin())

    def _take(self, heard: wire.Heard) -> list[Step]:
        done: list[Step] = []
        for session, (turn, steps) in list(self._open.items()):
            if getattr(heard, "session_id", "") not in ("", session):
                continue
            steps.extend(turn.take(heard))
            steps.extend(self._ask(heard, turn, self._folders.get(session, "")))
            if turn.ended:
                del self._open[session]
                done += steps
        return done

    def _ask(self, heard: wire.Heard, turn: TurnTranslator, cwd: str) -> Sequence[Step]:
        match heard:
            case wire.PermissionAsked(tool=tool) if tool is not None and tool.call_id not in turn.calls:
                self._waiting[tool.call_id] = heard
                return ()
            case wire.PermissionAsked() | wire.QuestionAsked():
                request = heard
            case wire.PartUpdated():
                ready = next((id for id in self._waiting if id in turn.calls), None)
                if ready is None:
                    return ()
                request = self._waiting.pop(ready)
            case _:
                return ()
        pending = read_request(request, turn.calls, cwd)
        return turn.emit(Asked(ask) for ask in (pending.asks if pending else ()))


def read_run(line: bytes) -> Sequence[wire.Heard]:
    """Read a line of `opencode run` as events of a server; empty if it is none. It names no prompts, so each is a turn."""
    try:
        told = _run.decode(line)
    except _FAULTS:
        return ()
    session, id = told.session_id, str(told.part.get("messageID") or "msg_run")
    prompt = wire.MessageUpdated(Message("msg_", "user", session), session)
    request = Message(id, "assistant", session, "msg_")
    heard: list[wire.Heard] = [prompt, wire.MessageUpdated(request, session)]
    if told.part:
        heard.append(wire.PartUpdated(read_part(told.part), session))
    ends = told.type == "step_finish" and told.part.get("reason") != GOES_ON
    if ends or told.type == "error":
        over = msgspec.structs.replace(request, error=told.error, time=MessageTime(0.0))
        idle = wire.StatusChanged(session, wire.Status("idle"))
        heard += [wire.MessageUpdated(over, session), idle]
    return heard


def _line_problem(heard: wire.Heard) -> str:
    if isinstance(heard, wire.Noise):
        return "not of the protocol"
    return f"unknown: {heard.name}" if isinstance(heard, wire.Unknown) else ""


def _message(line: bytes) -> bytes:
    """Unpack a line of a dialogue or of a stream; requests and their answers count as nothing."""
    line = line.removeprefix(b"data:").strip()
    try:
        recorded = _recorded.decode(line)
    except _FAULTS:
        return line
    if not recorded.dir:
        return line
    return bytes(recorded.msg) if recorded.dir == "sse" else b'{"type": "server.heartbeat"}'
