"""Lines of `codex exec --json` as messages of the app-server, so that its recordings can be replayed too.

It has the same items in other spellings, no deltas and no asks. Its usage is that of the whole thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct, field

from pilothouse.engines.codex import wire
from pilothouse.engines.codex.wire_items import read_item

TURN = "turn"
_RETRIES = "Reconnecting"


class _Exec(Struct, frozen=True):
    type: str
    thread_id: str = ""
    item: dict[str, Any] = field(default_factory=dict)
    message: str = ""
    error: wire.TurnError = wire.TurnError()
    usage: dict[str, int] = field(default_factory=dict)


_exec = msgspec.json.Decoder(_Exec)


class ExecReader:
    """Reads one process's output."""

    def __init__(self) -> None:
        self._thread = ""

    def read(self, line: bytes) -> Sequence[wire.Heard]:
        """Return the messages of a line; empty if it is none of `codex exec`."""
        try:
            told = _exec.decode(line)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return ()
        self._thread = told.thread_id or self._thread
        match told.type:
            case "thread.started":
                return [wire.Reply(0, {"thread": {"id": self._thread}})]
            case "turn.started":
                return [wire.TurnStarted(wire.Turn(TURN), self._thread)]
            case "turn.completed":
                count = wire.TokenCount(
                    **{key: told.usage.get(key, 0) for key in wire.TokenCount.__struct_fields__}
                )
                usage = wire.UsageUpdated(self._thread, TURN, wire.TokenUsage(count, count))
                return [usage, wire.TurnCompleted(wire.Turn(TURN, "completed"), self._thread)]
            case "turn.failed":
                return [wire.TurnCompleted(wire.Turn(TURN, "failed", told.error), self._thread)]
            case "error":
                retries = told.message.startswith(_RETRIES)
                return [wire.ErrorTold(self._thread, TURN, wire.TurnError(told.message), retries)]
            case "item.started" | "item.completed":
                return [self._item(told)]
            case _:
                return ()

    def _item(self, told: _Exec) -> wire.Heard:
        if told.item.get("type") == "error":  # a warning, in spite of its name
            return wire.Warned(self._thread, TURN, str(told.item.get("message") or ""))
        kind = wire.ItemStarted if told.type == "item.started" else wire.ItemCompleted
        item = {_camel(key): value for key, value in told.item.items()}
        changes = [one for one in item.get("changes") or () if isinstance(one, dict)]
        item |= {"changes": [{**one, "kind": {"type": one.get("kind")}} for one in changes]}
        return kind(read_item(item | {"type": _camel(str(item.get("type")))}), self._thread, TURN)


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)
