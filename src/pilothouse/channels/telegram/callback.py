"""What a button carries: an opaque key of at most 64 bytes, enough to know what was pressed after any restart.

An ask's key names the ask, the beginning of the hash of what was asked, what is done, and, where several may be
chosen, what was chosen so far: the keyboard is the state, so there is none to lose. The ask itself is a row: a key
that is forged, or of another ask, matches no row, and whoever presses must be allowed to answer anyhow.

    a|ask-3f9k2a|1c0ffee51c0f|c2          the third choice
    a|ask-3f9k2a|1c0ffee51c0f|t2|5        the third option, while the first and the third are chosen
    a|ask-3f9k2a|1c0ffee51c0f|d|5         done with choosing
    s|turn-8d2j1x                         stop this turn
"""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct

from pilothouse.channels.telegram.limits import CALLBACK_BYTES
from pilothouse.core.ask import Ask
from pilothouse.core.ids import AskId, TurnId

HASH_CHARS = 12
Act = Literal["choose", "toggle", "done"]
_LETTERS: dict[Act, str] = {"choose": "c", "toggle": "t", "done": "d"}
_ACTS: dict[str, Act] = {letter: act for act, letter in _LETTERS.items()}
_ASK = re.compile(
    r"a\|(?P<id>[^|\s]+)\|(?P<hash>[0-9a-f]{12})\|(?P<act>[ctd])(?P<index>\d{0,3})(\|(?P<chosen>[0-9a-f]{1,16}))?"
)
_STOP = re.compile(r"s\|(?P<id>[^|\s]*)")


class AskPress(Struct, frozen=True):
    """`chosen` has a bit for each option that is chosen."""

    ask_id: AskId
    hash: str
    act: Act
    index: int = 0
    chosen: int = 0

    def is_about(self, ask: Ask) -> bool:
        """Whether this was pressed below exactly what was asked."""
        return self.ask_id == ask.id and self.hash == _hash(ask)


class StopPress(Struct, frozen=True):
    """Without a turn it is about whichever runs."""

    turn_id: TurnId | None


Press = AskPress | StopPress


def ask_key(ask: Ask, act: Act, index: int = 0, chosen: int = 0) -> str:
    number = str(index) if act in ("choose", "toggle") else ""
    tail = f"|{chosen:x}" if act in ("toggle", "done") else ""
    return _bounded(f"a|{ask.id}|{_hash(ask)}|{_LETTERS[act]}{number}{tail}")


def stop_key(turn_id: TurnId | None) -> str:
    return _bounded(f"s|{turn_id or ''}")


def parse_press(data: str) -> Press | None:
    """What was pressed; None for anything that we did not write."""
    if len(data.encode(errors="replace")) > CALLBACK_BYTES:
        return None
    if found := _STOP.fullmatch(data):
        return StopPress(TurnId(found["id"]) if found["id"] else None)
    found = _ASK.fullmatch(data)
    if found is None:
        return None
    act, chosen = _ACTS[found["act"]], int(found["chosen"] or "0", 16)
    return AskPress(AskId(found["id"]), found["hash"], act, int(found["index"] or 0), chosen)


def _hash(ask: Ask) -> str:
    return ask.payload_hash[:HASH_CHARS].ljust(HASH_CHARS, "0")


def _bounded(key: str) -> str:
    if len(key.encode()) > CALLBACK_BYTES:
        raise ValueError(
            f"the button key {key!r} is longer than the {CALLBACK_BYTES} bytes that Telegram takes"
        )
    return key
