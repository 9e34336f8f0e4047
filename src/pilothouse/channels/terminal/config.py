"""What a terminal is told before it opens."""

from __future__ import annotations

from collections.abc import AsyncIterable

from msgspec import Struct

from pilothouse.core.ids import ChannelId

TERMINAL = ChannelId("terminal")


class TerminalConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """`width` is the widest that text is set, whatever the window; `history` keeps what was typed."""

    width: int = 100
    history: bool = True


class News(Struct, frozen=True):
    """A word of the house itself, for whoever sits here: of no turn, and of no conversation."""

    text: str
    worrying: bool = False


class Interactive(Struct, frozen=True):
    """Talk until the person leaves; `news` are told as they come."""

    news: AsyncIterable[News] | None = None


class OneShot(Struct, frozen=True):
    """Send one message (or one command) and leave when all that came of it was shown."""

    text: str


Mode = Interactive | OneShot
