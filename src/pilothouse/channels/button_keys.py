"""The opaque key of a button: enough to know what was pressed, after any restart. Shared by every channel.

An ask's key has the ask's id, the beginning of the hash of what was asked, the action, and, where several options may
be chosen, those chosen so far: all state is in the buttons. A forged key matches no stored ask, and the person who
presses must be allowed to answer anyway.

    a|ask-3f9k2a|1c0ffee51c0f|c2          the third choice
    a|ask-3f9k2a|1c0ffee51c0f|t2|5        the third option, while the first and the third are chosen
    a|ask-3f9k2a|1c0ffee51c0f|d|5         done with choosing
    a|ask-3f9k2a|1c0ffee51c0f|p           picked from a list, which says what was picked
    a|ask-3f9k2a|1c0ffee51c0f|w2          the words that belong to the third choice; without a number, the answer
    s|turn-8d2j1x                         stop this turn
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from pilothouse.core.ask import Ask
from pilothouse.core.ids import AskId, TurnId

HASH_CHARS = 12
MAX_OPTIONS = 60
"""A press has one bit for each option."""
Act = Literal["choose", "toggle", "done", "pick", "words"]
_LETTERS: dict[Act, str] = {"choose": "c", "toggle": "t", "done": "d", "pick": "p", "words": "w"}
_ACTS: dict[str, Act] = {letter: act for act, letter in _LETTERS.items()}
_ASK = re.compile(
    r"a\|(?P<id>[^|\s]+)\|(?P<hash>[0-9a-f]{12})\|(?P<act>[ctdpw])(?P<index>[0-9]{0,3})(\|(?P<chosen>[0-9a-f]{1,16}))?"
)
_STOP = re.compile(r"s\|(?P<id>[^|\s]*)")
_PICKED = re.compile(r"[0-9]{1,2}")


class AskPress(Struct, frozen=True):
    """`chosen` has a bit for each option that is chosen; `index` is None for the words of an answer."""

    ask_id: AskId
    hash: str
    act: Act
    index: int | None = 0
    chosen: int = 0

    def is_about(self, ask: Ask) -> bool:
        """Returns true if the button belongs to exactly this ask."""
        return self.ask_id == ask.id and self.hash == _hash(ask)


class StopPress(Struct, frozen=True):
    """Stops a turn; without an id, the one that runs."""

    turn_id: TurnId | None


Press = AskPress | StopPress


def ask_key(ask: Ask, act: Act, index: int | None = 0, chosen: int = 0) -> str:
    number = str(index) if act in ("choose", "toggle", "words") and index is not None else ""
    tail = f"|{chosen:x}" if act in ("toggle", "done") else ""
    return f"a|{ask.id}|{_hash(ask)}|{_LETTERS[act]}{number}{tail}"


def stop_key(turn_id: TurnId | None) -> str:
    return f"s|{turn_id or ''}"


def parse_key(key: str, picked: Sequence[str] = ()) -> Press | None:
    """Parses a button's key and what was picked from a list; None for a key that is not ours."""
    if found := _STOP.fullmatch(key):
        return StopPress(TurnId(found["id"]) if found["id"] else None)
    found = _ASK.fullmatch(key)
    chosen = _bits(picked)
    if found is None or chosen is None:
        return None
    act = _ACTS[found["act"]]
    if act != "pick":
        chosen = int(found["chosen"] or "0", 16)
    index = None if act == "words" and not found["index"] else int(found["index"] or 0)
    return AskPress(AskId(found["id"]), found["hash"], act, index, chosen)


def bounded(key: str, limit: int) -> str:
    if len(key.encode()) > limit:
        raise ValueError(f"the button key {key!r} is longer than the {limit} bytes that fit into a button")
    return key


def _bits(picked: Sequence[str]) -> int | None:
    bits = 0
    for value in picked:
        if not _PICKED.fullmatch(value) or int(value) >= MAX_OPTIONS:
            return None
        bits |= 1 << int(value)
    return bits


def _hash(ask: Ask) -> str:
    return ask.payload_hash[:HASH_CHARS].ljust(HASH_CHARS, "0")
