"""Recorded messages of an ACP agent -> events: each prompt as one turn, in the order in which they end.

A line is a message as the agent sent it, or one of a dialogue: `{"dir": "s2c" or "c2s", "msg": …}`. Without our own side of the
dialogue, a prompt is known by the reply that ends it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct

from pilothouse.core.engine import Step
from pilothouse.core.event import Asked, ResumeToken
from pilothouse.core.ids import EngineId
from pilothouse.engines.acp import wire
from pilothouse.engines.acp.agents import PLAIN, Agent
from pilothouse.engines.acp.asks import read_elicitation, read_permission, tool_update
from pilothouse.engines.acp.translate import TurnTranslator
from pilothouse.engines.jsonrpc import Noise, Reply, Request, RequestId
from pilothouse.engines.link import Exit


class _Recorded(Struct, frozen=True):
    dir: str = ""
    msg: Raw = Raw(b"")


class _Open(Struct):
    """A prompt whose end has not come yet, and the steps so far."""

    id: RequestId | None
    turn: TurnTranslator
    steps: list[Step]


_recorded = msgspec.json.Decoder(_Recorded)


class AcpReplay:
    """`agent` is the one that was recorded, if it is known."""

    def __init__(self, engine: EngineId, agent: Agent = PLAIN) -> None:
        self.line_problem = ""
        self._engine = engine
        self._agent = agent
        self._folders: dict[str, str] = {}
        """The folder of each session, and of requests that open one."""
        self._open: dict[str, list[_Open]] = {}
        """Prompts by session, in the order in which they were sent."""

    def feed(self, line: bytes) -> Sequence[Step]:
        sent, raw = _unpack(line)
        heard = wire.decode(raw)
        self.line_problem = "" if sent else _line_problem(heard)
        if sent:
            return self._note_sent(heard)
        match heard:
            case Reply():
                return self._end(heard)
            case wire.Told(session_id=session, update=update):
                if opened := self._running(session):
                    opened.steps += opened.turn.take(update)
            case Request():
                self._ask(heard)
            case _:
                pass
        return ()

    def end(self, exit_code: int | None = None, stderr_tail: str = "") -> Sequence[Step]:
        last = Exit(exit_code, stderr_tail)
        opened = [one for turns in self._open.values() for one in turns]
        self._open.clear()
        return [step for one in opened for step in (*one.steps, *one.turn.end(last))]

    def _note_sent(self, heard: wire.Heard) -> Sequence[Step]:
        if not isinstance(heard, Request):
            return ()
        session, folder = str(heard.params.get("sessionId") or ""), str(heard.params.get("cwd") or "")
        if folder:
            self._folders[session or str(heard.id)] = folder
        if heard.method == "session/prompt":
            self._begin(session, heard.id)
        return ()

    def _begin(self, session: str, id: RequestId | None) -> _Open:
        token = ResumeToken(self._engine, session, self._folders.get(session, ""))
        turn = TurnTranslator(self._agent, token)
        opened = _Open(id, turn, turn.begin())
        self._open.setdefault(session, []).append(opened)
        return opened

    def _running(self, session: str) -> _Open | None:
        """Return the first prompt that has not ended: agents work on them in order."""
        turns = self._open.get(session)
        return turns[0] if turns else None

    def _end(self, reply: Reply) -> Sequence[Step]:
        if session := reply.result.get("sessionId"):  # a new one
            self._folders[str(session)] = self._folders.pop(str(reply.id), "")
        for turns in self._open.values():
            for opened in turns:
                if opened.id == reply.id:
                    turns.remove(opened)
                    self._open = {key: value for key, value in self._open.items() if value}
                    return [*opened.steps, *opened.turn.close(reply)]
        return ()

    def _ask(self, request: Request) -> None:
        session = str(request.params.get("sessionId") or "")
        opened = self._running(session)
        if opened is None:
            return
        id, turn = f"{session}:{request.id}", opened.turn
        if request.method == wire.ELICITATION:
            pending = read_elicitation(request, id)
        elif request.method == wire.PERMISSION and (update := tool_update(request)) is not None:
            opened.steps += turn.take_call(update)
            pending = read_permission(request, turn.tools[update.tool_call_id], id, turn.cwd, turn.agent)
        else:
            return
        opened.steps += turn.emit(Asked(ask) for ask in (pending.asks if pending else ()))


def _line_problem(heard: wire.Heard) -> str:
    if isinstance(heard, Noise):
        return "not of the protocol"
    return f"unknown: {heard.name}" if isinstance(heard, wire.Unknown) else ""


def _unpack(line: bytes) -> tuple[bool, bytes]:
    """Return whether we sent the message, and the message."""
    try:
        recorded = _recorded.decode(line)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False, line
    return (recorded.dir == "c2s", bytes(recorded.msg)) if recorded.dir else (False, line)
