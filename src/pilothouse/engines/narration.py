"""Tool-aware streaming: words before a tool do not flash by, and the final answer streams. Pure; the clock is handed in.

Text waits for `HOLD_S`. If a tool starts meanwhile, the text was narration and comes whole, together with the tool;
otherwise it streams until the next tool. While a tool runs, text waits for its end. Nothing is lost, and the order
stays.
"""

from __future__ import annotations

from collections.abc import Iterable

from pilothouse.core.engine import Step
from pilothouse.core.event import TextDelta, TextSet, ToolFinished, ToolStarted, TurnEnded

HOLD_S = 1.5


class Narration:
    def __init__(self, hold_s: float = HOLD_S) -> None:
        self._hold_s = hold_s
        self._held: list[Step] = []
        self._since = 0.0
        self._tools: set[str] = set()
        self._streams = False

    @property
    def due_at(self) -> float | None:
        """The time to call `release`; None if nothing waits, or it waits for a tool."""
        return self._since + self._hold_s if self._held and not self._tools else None

    def take(self, steps: Iterable[Step], now: float) -> list[Step]:
        return [kept for step in steps for kept in self._take(step, now)]

    def release(self) -> list[Step]:
        self._streams = not self._tools
        return self._release_held()

    def _take(self, step: Step, now: float) -> list[Step]:
        match step:
            case TextDelta(parent_id=None) | TextSet(parent_id=None) if not self._streams:
                if not self._held:
                    self._since = now
                self._held.append(step)
                return []
            case ToolStarted(call=call):
                self._tools.add(call.id)
                self._streams = False
            case ToolFinished(call_id=call_id):
                self._tools.discard(call_id)
                self._since = now
                return [step]
            case TurnEnded():
                self._tools.clear()
                self._streams = False
            case _:
                return [step]
        return [*self._release_held(), step]

    def _release_held(self) -> list[Step]:
        """Return what waits, without the deltas that a whole block replaces anyway."""
        out: list[Step] = []
        for step in self._held:
            if isinstance(step, TextSet):
                while out and isinstance(last := out[-1], TextDelta) and last.block_id == step.block_id:
                    out.pop()
            out.append(step)
        self._held = []
        return out
