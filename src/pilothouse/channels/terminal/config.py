"""Settings and modes of a terminal."""

from __future__ import annotations

from collections.abc import AsyncIterable

from msgspec import Struct

from pilothouse.core.ids import ChannelId

TERMINAL = ChannelId("terminal")


class TerminalConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """`width` is the maximum width of text, whatever the window; `history` keeps what was typed."""

    width: int = 100
    history: bool = True


class ChatFacts(Struct, frozen=True):
    """`header` is the first line of a chat; `program` is the command that the person types to start Pilothouse."""

    header: str = ""
    program: str = "pilothouse"


NO_FACTS = ChatFacts()


class News(Struct, frozen=True):
    """A notice for the person at the terminal that belongs to no turn and no conversation."""

    text: str
    worrying: bool = False


class Interactive(Struct, frozen=True):
    """Talk until the person leaves; `news` are shown as they come."""

    news: AsyncIterable[News] | None = None
    first: str = ""
    """A message that is sent when the chat is open."""


class OneShot(Struct, frozen=True):
    """Send one message or command, and leave when everything it caused was shown."""

    text: str


Mode = Interactive | OneShot
