"""The call of an ask: completed when the ask arrives, and read anew when a person changes its input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from pilothouse.core.ask import Ask
from pilothouse.core.call import Call, ReadCall
from pilothouse.core.event import clean_values


def complete_call(ask: Ask) -> Call | None:
    """Return the call with cleaned texts. Where the payload names a tool and the engine says no more, it is unreadable."""
    if ask.call is not None:
        return msgspec.convert(clean_values(msgspec.to_builtins(ask.call)), Call)
    return _unreadable(ask.payload) if ask.kind == "approval" else None


def with_input(ask: Ask, given: dict[str, Any], read: ReadCall) -> Ask:
    """Return the ask as it would be with another input. The engine that asked reads its payload again.

    A stored ask from before calls were stored is read in the same way.
    """
    payload = {**ask.payload, "input": given}
    call = read(payload) or _unreadable(payload)
    if call is None and ask.call is not None:
        call = Call("unreadable", ask.call.tool)
    return msgspec.structs.replace(ask, payload=payload, call=call)


def _unreadable(payload: Mapping[str, Any]) -> Call | None:
    tool = payload.get("tool")
    return Call("unreadable", tool) if isinstance(tool, str) else None
