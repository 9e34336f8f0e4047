"""What people say, and what we say to them.

`InboundMessage` is the first narrow waist: everything that can start work has this shape before it is stored.
`Content` is what we want said; a channel renders it into `Part`s, and each part is sent, and recorded, alone.

A message that a platform brings in several: what it says is made of its pieces, and each is known by its own id. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from pilothouse.core.ask import Ask
from pilothouse.core.ids import BlobHash, ChannelId, ConversationId, SessionId, TurnId, UserId
from pilothouse.core.outcome import Usage

MessageKind = Literal["chat", "task", "webhook", "system", "agent", "reaction", "wake"]
"""All start a turn, but for `system`: that is a note, which goes along with the next turn. So a channel where a thumb
shall start something sends it as a `reaction`, and one where it shall start nothing as a note."""
BY_PEOPLE: frozenset[MessageKind] = frozenset({"chat", "reaction"})
"""What a person did, and answers for."""
ContentKind = Literal["answer", "notice", "ask", "closed", "reply"]
"""`closed` is what stands in the place of an ask once it is open no longer."""

AGAIN_MARK = "(sent again: it may stand above already)"
"""A channel shows this with every part whose `again` is set: a repeat without it would be a lie."""

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

WAKE = "wake"


class Address(Struct, frozen=True):
    """Where people talk, in the channel's own terms. Only the channel reads `place` and `thread`."""

    channel: ChannelId
    place: str
    thread: str | None = None


def conversation_id(address: Address) -> ConversationId:
    """One place is one conversation, on every node and after every restart; two places are never the same one.

    What separates the parts is escaped within them, so that place `a#b` is not thread `b` of place `a`.
    """
    channel = address.channel.replace("%", "%25").replace(":", "%3A")
    place = address.place.replace("%", "%25").replace("#", "%23")
    tail = "" if address.thread is None else f"#{address.thread}"
    return ConversationId(f"{channel}:{place}{tail}")


def parent_id(id: ConversationId) -> ConversationId | None:
    """The place that a thread belongs to: it has that one's binding and trigger, until it has its own."""
    place, mark, _ = id.partition("#")
    return ConversationId(place) if mark else None


def inbox_key(place: ConversationId, native_id: str) -> str:
    """What makes a message that a platform brings twice one message. Whoever looks for a repeat looks under this."""
    return f"{place}|{native_id}"


class Author(Struct, frozen=True):
    """`id` is `channel:native`, so that two platforms never share a person by accident."""

    id: UserId
    name: str
    is_bot: bool = False


class Presence(Struct, frozen=True):
    """Somebody brought us into a place, or put us out of it. `native_id` tells one such deed there from another."""

    address: Address
    by: Author
    title: str
    native_id: str
    private: bool = False
    beside: tuple[Address, ...] = ()
    """Other places that this happened in with the same deed: those of one server."""


class MessageRef(Struct, frozen=True):
    """A message that stands on a platform, by the platform's own id."""

    address: Address
    native_id: str


class Attachment(Struct, frozen=True):
    """Bytes live in the store under their hash; the name is data and never a path."""

    name: str
    media_type: str
    size: int
    blob: BlobHash


class Piece(Struct, frozen=True):
    """One of the platform's messages that together are one: a cut of a long text, a picture of an album.

    `before` stands between the words before it and its own."""

    native_id: str
    text: str
    before: str = ""
    attachments: tuple[Attachment, ...] = ()
    file_text: str = ""


class InboundMessage(Struct, frozen=True):
    """`native_id` is the dedupe key within its conversation: the same one twice is the same message."""

    address: Address
    author: Author
    native_id: str
    text: str
    kind: MessageKind = "chat"
    attachments: tuple[Attachment, ...] = ()
    reply_to: str | None = None
    quoted: str | None = None
    private: bool = False
    source: str = ""
    sent_at: float = 0.0
    session_id: SessionId | None = None
    """The session that it is for, where it says so, or comes from, if it is a wake. A channel leaves it empty: intake
    finds it."""
    file_text: str = ""
    """What its files say, where a channel puts that into the prompt, and which ones were not taken. It stands apart from
    the words, for those alone can be edited, and be a command."""
    alone: bool = False
    """Whoever sent it waits for the answer to this and to nothing else: it is a turn by itself, whatever the busy
    policy, and answers nothing that is asked here."""
    pieces: tuple[Piece, ...] = ()
    """What it was made of, where that is more than one message of the platform's; see `pieces.py`."""
    overheard: bool = False
    """It was said to others, where several people talk: it is taken if it answers a question that was put to its sender, and
    is nothing else. Nothing is kept of it then, and its receipt is a refusal without words."""

    @property
    def whole_text(self) -> str:
        """The words, then what the files say: all that the engine reads of it."""
        return "\n\n".join(part for part in (self.text, self.file_text) if part)


class MessageEdited(Struct, frozen=True):
    """`text` takes the place of the words alone: what the files say stays."""

    address: Address
    author: Author
    native_id: str
    text: str


class MessageDeleted(Struct, frozen=True):
    """`author` is None where a platform does not tell who did it: it let only those who may."""

    address: Address
    author: Author | None
    native_id: str


class Content(Struct, frozen=True):
    """What is said, what it is, and what it belongs to. A channel decides how it looks."""

    text: str
    kind: ContentKind = "notice"
    attachments: tuple[Attachment, ...] = ()
    turn_id: TurnId | None = None
    ask: Ask | None = None
    usage: Usage | None = None
    """What the turn cost, where people want to see it."""
    reply_to: str | None = None
    dated: bool = False
    """Whether it tells of a moment: shown late, it says when that was."""
    formatted: bool = False
    """Whether an engine's words stand in it."""

    @property
    def is_markdown(self) -> bool:
        """What an engine says is. Of what the house says only code is markup, for it names people as they call themselves,
        and repeats what they typed: no stranger shall set a link in our name."""
        return self.kind == "answer" or self.formatted


class Part(Struct, frozen=True):
    """One platform message, ready to send. `data` is the channel's own."""

    text: str
    data: dict[str, Any] = field(default_factory=dict)
    attachments: tuple[Attachment, ...] = ()
    again: bool = False


def clean_text(text: str) -> str:
    """NUL and lone surrogates can be neither stored nor sent: each becomes one replacement character."""
    if text.isascii() and "\0" not in text:
        return text
    return "".join(REPLACEMENT if c == "\0" or "\ud800" <= c <= "\udfff" else c for c in text)


def pieces_of(message: InboundMessage) -> tuple[Piece, ...]:
    """One that came whole is its only piece."""
    whole = Piece(
        message.native_id, message.text, attachments=message.attachments, file_text=message.file_text
    )
    return message.pieces or (whole,)


def made_of(message: InboundMessage, pieces: Sequence[Piece]) -> InboundMessage:
    """The message with what these pieces say and bring."""
    whole = len(pieces) == 1 and pieces[0].native_id == message.native_id and not pieces[0].before
    text = ""
    for piece in pieces:
        text += (piece.before if text and piece.text else "") + piece.text
    return replace(
        message,
        text=text,
        attachments=tuple(file for piece in pieces for file in piece.attachments),
        file_text="\n".join(piece.file_text for piece in pieces if piece.file_text),
        pieces=() if whole else tuple(pieces),
    )


def words_of(message: InboundMessage, native_id: str) -> str:
    """What one piece of it says."""
    return next((piece.text for piece in pieces_of(message) if piece.native_id == native_id), "")


def with_words(message: InboundMessage, native_id: str, text: str) -> InboundMessage:
    """One piece says something else; the others stay."""
    return made_of(
        message,
        [replace(one, text=text) if one.native_id == native_id else one for one in pieces_of(message)],
    )
