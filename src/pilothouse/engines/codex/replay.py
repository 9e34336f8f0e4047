"""Recorded messages of an app-server -> events: each turn as one stream, in the order in which they end.

A line is a message as the server sent it, one of a dialogue: `{"dir": "s2c" or "c2s", "msg": …}`, or one of `codex exec --json`.
One process serves many threads, so turns are mixed on the wire.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct

from pilothouse.core.engine import Step
from pilothouse.core.event import Asked
from pilothouse.engines.codex import wire
from pilothouse.engines.codex.asks import read_request
from pilothouse.engines.codex.exec_lines import ExecReader
from pilothouse.engines.codex.translate import TurnTranslator
from pilothouse.engines.codex.usage import TurnUsage
from pilothouse.engines.link import Exit


class _Recorded(Struct, frozen=True):
    dir: str = ""
    msg: Raw = Raw(b"")


_recorded = msgspec.json.Decoder(_Recorded)


class CodexReplay:
    def __init__(self) -> None:
        self.line_problem = ""
        self._threads: dict[str, tuple[str, str]] = {}
        """Model and folder of each thread."""
        self._open: dict[str, tuple[TurnTranslator, list[Step]]] = {}
        self._limits: wire.RateLimits | None = None
        self._exec = ExecReader()

    def feed(self, line: bytes) -> Sequence[Step]:
        heard = wire.decode(_message(line))
        told = self._exec.read(line) if isinstance(heard, wire.Unknown) else ()
        self.line_problem = "" if told else _line_problem(heard)
        return [step for one in told or (heard,) for step in self._hear(one)]

    def _hear(self, heard: wire.Heard) -> Sequence[Step]:
        match heard:
            case wire.Reply(result=result):
                self._note_thread(result)
            case wire.LimitsUpdated(rate_limits=limits):
                self._limits = limits
            case wire.TurnStarted(thread_id=thread):
                self._begin(thread)
            case _:
                pass
        return self._take(heard)

    def end(self, exit_code: int | None = None, stderr_tail: str = "") -> Sequence[Step]:
        last = Exit(exit_code, stderr_tail)
        left = [step for turn, steps in self._open.values() for step in (*steps, *turn.end(last))]
        self._open.clear()
        return left

    def _begin(self, thread: str) -> None:
        if thread in self._open:
            return
        model, cwd = self._threads.get(thread, ("", ""))
        turn = TurnTranslator(thread, TurnUsage(model), model=model, cwd=cwd)
        self._open[thread] = (turn, turn.begin())

    def _take(self, heard: wire.Heard) -> list[Step]:
        done: list[Step] = []
        for thread, (turn, steps) in list(self._open.items()):
            turn.limits = self._limits
            if isinstance(heard, wire.ServerRequest) and heard.thread_id == thread:
                pending = read_request(heard, turn.items, self._threads.get(thread, ("", ""))[1])
                steps.extend(turn.emit(Asked(ask) for ask in (pending.asks if pending else ())))
            steps.extend(turn.take(heard))
            if turn.ended:
                del self._open[thread]
                done += steps
        return done

    def _note_thread(self, result: dict[str, object]) -> None:
        thread = result.get("thread")
        if isinstance(thread, dict):
            self._threads[str(thread.get("id"))] = (
                str(result.get("model") or ""),
                str(result.get("cwd") or ""),
            )


def _line_problem(heard: wire.Heard) -> str:
    if isinstance(heard, wire.Noise):
        return "not of the protocol"
    return f"unknown: {heard.name}" if isinstance(heard, wire.Unknown) else ""


def _message(line: bytes) -> bytes:
    """Unpack a line of a dialogue; what we sent ourselves counts as nothing."""
    try:
        recorded = _recorded.decode(line)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return line
    if not recorded.dir:
        return line
    return bytes(recorded.msg) if recorded.dir == "s2c" else b'{"method": "initialized"}'
