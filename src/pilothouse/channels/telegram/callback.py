"""What a button of Telegram's carries: a key of at most 64 bytes."""

from __future__ import annotations

from pilothouse.channels import pressing
from pilothouse.channels.pressing import Act, AskPress, Press, StopPress
from pilothouse.channels.telegram.limits import CALLBACK_BYTES
from pilothouse.core.ask import Ask
from pilothouse.core.ids import TurnId

__all__ = ["AskPress", "Press", "StopPress", "ask_key", "parse_press", "stop_key"]


def ask_key(ask: Ask, act: Act, index: int = 0, chosen: int = 0) -> str:
    return pressing.bounded(pressing.ask_key(ask, act, index, chosen), CALLBACK_BYTES)


def stop_key(turn_id: TurnId | None) -> str:
    return pressing.bounded(pressing.stop_key(turn_id), CALLBACK_BYTES)


def parse_press(data: str) -> Press | None:
    """What was pressed; None for anything that we did not write."""
    if len(data.encode(errors="replace")) > CALLBACK_BYTES:
        return None
    return pressing.parse_key(data)
