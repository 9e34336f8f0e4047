"""Asks in tests say what would run as Claude's engine says it."""

from __future__ import annotations

import msgspec

from pilothouse.core.ask import Ask
from pilothouse.engines.claude.calls import call_of


def with_call(ask: Ask) -> Ask:
    if ask.kind == "question" or ask.call is not None:
        return ask
    return msgspec.structs.replace(ask, call=call_of(ask.payload))
