"""One turn while it is translated: its blocks of text, its calls, its images, and its grammar.

A block is known by its message and its place in it. While it streams, the API counts the places; the finished block
comes without its place, just before the stream says that the block is over, so the place is the open one, or, where
nothing streams, the next.
"""

from __future__ import annotations

from collections.abc import Iterable

from pilothouse.core.engine import MediaFound
from pilothouse.core.event import EngineEvent, TextDelta, TextSet, ThinkingDelta, ToolCall
from pilothouse.core.grammar import Grammar
from pilothouse.core.ids import CallId
from pilothouse.core.view import join_blocks
from pilothouse.engines.claude.pictures import Pictures
from pilothouse.engines.claude.wire import Assistant

Out = list[EngineEvent | MediaFound]


class OpenTurn:
    def __init__(self) -> None:
        self.grammar = Grammar()
        self.pictures = Pictures()
        self.calls: dict[str, ToolCall] = {}
        self.plans: dict[str, str] = {}
        """By call: the request to approve a plan does not repeat the plan."""
        self.denied: set[str] = set()
        self.api_error: Assistant | None = None
        self.noise = 0
        self.started = False
        self.inits = 0
        self.message_id = ""
        self._texts: dict[str, list[str]] = {}
        self._places: dict[str, int] = {}
        self._streaming: dict[str, str] = {}
        """Blocks that have begun and are not finished: id -> message."""
        self._thought: set[str] = set()
        self._now = ("", -1, "")

    @property
    def answer(self) -> str:
        return join_blocks("".join(parts) for parts in self._texts.values())

    def emit(self, events: Iterable[EngineEvent | MediaFound]) -> Out:
        out: Out = []
        for event in events:
            if isinstance(event, MediaFound):
                out.append(event)
            else:
                out += self.grammar.feed(event)
        return out

    def begin_block(self, message_id: str, place: int) -> None:
        block_id = f"{message_id}:{place}"
        self._now = (message_id, place, block_id)
        self._streaming[block_id] = message_id

    def add_text(self, message_id: str, place: int, text: str) -> EngineEvent:
        """The hot path: two of three lines of a turn that streams end here."""
        if self._now[0] != message_id or self._now[1] != place:
            self.begin_block(message_id, place)
        block_id = self._now[2]
        parts = self._texts.get(block_id)
        if parts is None:
            self._texts[block_id] = [text]
        else:
            parts.append(text)
        return TextDelta(block_id, text)

    def add_thought(self, message_id: str, place: int, text: str) -> list[EngineEvent]:
        self._thought.add(f"{message_id}:{place}")
        return [ThinkingDelta(text)]

    def finish_text(self, message_id: str, text: str, parent_id: str | None) -> list[EngineEvent]:
        block_id = self._finish(message_id)
        if parent_id is None:
            self._texts[block_id] = [text]
        return [TextSet(block_id, text, CallId(parent_id) if parent_id else None)]

    def finish_thought(self, message_id: str, text: str, parent_id: str | None) -> list[EngineEvent]:
        """Thinking has no blocks: what streamed is not said again, and a sub-agent's is nobody's business."""
        streamed = self._finish(message_id) in self._thought
        return [] if streamed or parent_id or not text else [ThinkingDelta(text)]

    def finish_other(self, message_id: str) -> None:
        self._finish(message_id)

    def withdraw(self, but_of: str = "", from_place: int = 0) -> list[EngineEvent]:
        """Blocks that began and will never be finished, because the CLI asks the model anew."""
        gone = [
            block_id
            for block_id, message_id in self._streaming.items()
            if message_id != but_of and int(block_id.rpartition(":")[2]) >= from_place
        ]
        for block_id in gone:
            del self._streaming[block_id]
        return [TextSet(block_id, "") for block_id in gone if self._texts.pop(block_id, None)]

    def _finish(self, message_id: str) -> str:
        streaming = self._now[2] in self._streaming and self._now[0] == message_id
        place = self._now[1] if streaming else self._places.get(message_id, 0)
        self._places[message_id] = place + 1
        block_id = f"{message_id}:{place}"
        self._streaming.pop(block_id, None)
        return block_id
