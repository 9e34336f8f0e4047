"""Recorded output of a script engine's process -> events: each turn as one stream, in the order in which they end.

On the wire, turns of several sessions are mixed.
"""

from __future__ import annotations

from collections.abc import Sequence

from pilothouse.core.engine import MediaFound
from pilothouse.core.event import EngineEvent
from pilothouse.engines.link import Exit
from pilothouse.engines.script import wire
from pilothouse.engines.script.translate import TurnTranslator

Step = EngineEvent | MediaFound


class ScriptReplay:
    def __init__(self) -> None:
        self.puzzle = ""
        self._open: dict[tuple[str, int], tuple[TurnTranslator, list[Step]]] = {}

    def feed(self, line: bytes) -> Sequence[Step]:
        heard = wire.decode(line)
        self.puzzle = "not of the protocol" if isinstance(heard, wire.Noise) else ""
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
