"""A word for whoever waited long for us: once per conversation, until a message comes in time again."""

from __future__ import annotations

from pilothouse.core.message import Address

OLD_S = 600.0
"""A message that waited for us longer than this is answered with a word about it."""


class Lateness:
    def __init__(self) -> None:
        self._late: set[Address] = set()

    def word(self, address: Address, waited_s: float, *, queued: bool) -> str:
        """Empty if there is nothing to say."""
        if waited_s <= OLD_S:
            self._late.discard(address)
            return ""
        if not queued or address in self._late:
            return ""
        self._late.add(address)
        return f"You sent this {_ago(waited_s)} ago, while I was away. I take it up now."


def _ago(seconds: float) -> str:
    for size, name in ((86_400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {name}{'' if count == 1 else 's'}"
    return "a moment"
