"""Messages: from people to us, and from us to people.

`InboundMessage` is the first narrow waist: everything that can start work has this shape before it is stored.
`Content` is an outgoing message; a channel renders it into `Part`s, and each part is sent and recorded on its own.
A platform may deliver one message in several pieces; each piece keeps its own id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from pilothouse.core.ask import Ask
from pilothouse.core.ids import BlobHash, ChannelId, ConversationId, SessionId, TurnId, UserId
from pilothouse.core.outcome import Usage
from pilothouse.core.policy import ApprovalMode

MessageKind = Literal["chat", "task", "webhook", "system", "agent", "reaction", "wake"]
"""All kinds start a turn except `system`, a note that joins the next turn unless it has a `chain`. An emoji reaction that
should start a turn is sent as `reaction`, one that should not as `system`."""
BY_PEOPLE: frozenset[MessageKind] = frozenset({"chat", "reaction"})
"""Kinds for which a person is responsible."""
ContentKind = Literal["answer", "notice", "ask", "closed", "reply"]
"""`closed` replaces the message of an ask that is no longer open."""

AGAIN_MARK = "(sent again: this may be a duplicate)"
"""A channel shows this with every part whose `again` is set, so that no repeat looks like a new message."""

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

WAKE = "wake"


class Address(Struct, frozen=True):
    """The address of a conversation. Only the channel reads `place` and `thread`."""

    channel: ChannelId
    place: str
    thread: str | None = None


def conversation_id(address: Address) -> ConversationId:
    """Return the conversation of an address, the same on every node and after every restart.

    Separators are escaped inside the parts, so place `a#b` is not thread `b` of place `a`."""
    channel = address.channel.replace("%", "%25").replace(":", "%3A")
    place = address.place.replace("%", "%25").replace("#", "%23")
    tail = "" if address.thread is None else f"#{address.thread}"
    return ConversationId(f"{channel}:{place}{tail}")


def parent_id(id: ConversationId) -> ConversationId | None:
    """Return the place of a thread, whose binding and trigger the thread inherits; None for a place."""
    place, mark, _ = id.partition("#")
    return ConversationId(place) if mark else None


def inbox_key(place: ConversationId, native_id: str) -> str:
    """The dedupe key of a message in the inbox."""
    return f"{place}|{native_id}"


def parse_inbox_key(key: str) -> str:
    """Return the native id in a key of the inbox."""
    return key.rpartition("|")[2]


class Author(Struct, frozen=True):
    """`id` is `channel:native`, so that two platforms never share a person by accident."""

    id: UserId
    name: str
    is_bot: bool = False


class Presence(Struct, frozen=True):
    """We were added to a place, or removed from it. `native_id` distinguishes such events in one place."""

    address: Address
    by: Author
    title: str
    native_id: str
    private: bool = False
    beside: tuple[Address, ...] = ()
    """Other places of the same server that this event covers."""


class MessageRef(Struct, frozen=True):
    """A message on a platform, by the platform's own id."""

    address: Address
    native_id: str


class Attachment(Struct, frozen=True):
    """A file. Its bytes are in the store under their hash; the name is data, never a path."""

    name: str
    media_type: str
    size: int
    blob: BlobHash


class Piece(Struct, frozen=True):
    """One platform message of several that form one: part of a split text, or a picture of an album.

    `before` separates its text from the text before it."""

    native_id: str
    text: str
    before: str = ""
    attachments: tuple[Attachment, ...] = ()
    file_text: str = ""


class Chain(Struct, frozen=True):
    """The origin of work that the gateway starts by itself: a message of another agent, or a follow-up, which tells a
    session something that came after its turn."""

    root: TurnId
    """The first turn, which the gateway did not start by itself."""
    hops: int = 0
    """The number of times that an agent passed the work on to another."""
    depth: int = 0
    """Follow-ups in a row."""
    heading: str = ""
    """The cause, shown above the answer."""
    authors: tuple[UserId, ...] = ()
    """The people for whom the first turn worked."""
    folder: str = ""
    """The workspace of the first turn, in which these people need access."""
    mode: ApprovalMode | None = None
    """The approval mode is never wider than this; None sets no limit."""
    asker: TurnId | None = None
    """The turn of the agent that waits for the answer. None for a follow-up."""
    agent: str = ""
    """The name of the agent that is asked."""

    @property
    def is_follow_up(self) -> bool:
        return self.asker is None


class InboundMessage(Struct, frozen=True):
    """`native_id` is the dedupe key within its conversation: the same one twice is the same message. If it is a decimal number,
    as in a `MessageRef`, it is taken for the platform's count of the messages there."""

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
    """The session that the message asks for, or that woke. Filled by intake; channels leave it empty."""
    file_text: str = ""
    """Text of attached files, and names of refused ones. Only `text` can be edited or be a command."""
    ui_context: str = ""
    """The current view in the sender's interface. The engine reads it below the words; lists do not show it."""
    alone: bool = False
    """Its sender waits for the answer to this alone: it is a turn by itself, and answers no open ask."""
    engine_line: bool = False
    """Its `file_text` is a line for the engine itself, made by the channel: a turn that goes on gets it again."""
    pieces: tuple[Piece, ...] = ()
    """The platform's messages that it was made of, if more than one; see `pieces.py`."""
    overheard: bool = False
    """Said to others in a group: only an answer to its sender's open question is taken; nothing is kept of anything else."""
    chain: Chain | None = None
    """Set for what the gateway itself says to a session. Channels leave it empty."""

    @property
    def whole_text(self) -> str:
        """The words, then what the files say: all that the engine reads of it."""
        return "\n\n".join(part for part in (self.text, self.file_text) if part)


class MessageEdited(Struct, frozen=True):
    """`text` replaces the message's text; the text of its files stays."""

    address: Address
    author: Author
    native_id: str
    text: str


class MessageDeleted(Struct, frozen=True):
    """`author` is None where the platform does not name the person; the platform has checked their permission."""

    address: Address
    author: Author | None
    native_id: str


LINE_BYTES = 62
"""The longest line of a button that every platform takes. Channels leave out a button with a longer one."""


class CommandButton(Struct, frozen=True):
    """A button below a message. A press runs `line` as if the person who pressed had typed it."""

    label: str
    line: str


class DoneStep(Struct, frozen=True):
    """A command that ran, or a file that changed, in a turn. `ok` is false if it failed, was denied or did not end."""

    label: str
    ok: bool = True
    is_command: bool = False


class Content(Struct, frozen=True):
    """An outgoing message: its text, its kind, and the turn or ask it belongs to. The channel decides how it looks."""

    text: str
    kind: ContentKind = "notice"
    attachments: tuple[Attachment, ...] = ()
    turn_id: TurnId | None = None
    ask: Ask | None = None
    usage: Usage | None = None
    """Cost of the turn, if it should be shown."""
    reply_to: str | None = None
    dated: bool = False
    """Shown late, it starts with the time it was written."""
    formatted: bool = False
    """It contains an engine's text."""
    buttons: tuple[CommandButton, ...] = ()
    """Commands to tap. The text names them too: not every channel has buttons, and a long line fits on none."""
    steps: tuple[DoneStep, ...] = ()
    """The steps of the turn that it answers, for a short list below the text."""

    @property
    def is_markdown(self) -> bool:
        """True for engine text. In our own text only code is markup: it repeats names and input of people, and no
        stranger may place a link in our name."""
        return self.kind == "answer" or self.formatted


class Part(Struct, frozen=True):
    """One platform message, ready to send. `data` is the channel's own."""

    text: str
    data: dict[str, Any] = field(default_factory=dict)
    attachments: tuple[Attachment, ...] = ()
    again: bool = False


def clean_text(text: str) -> str:
    """Replace NUL and lone surrogates, which can be neither stored nor sent."""
    if text.isascii() and "\0" not in text:
        return text
    return "".join(REPLACEMENT if c == "\0" or "\ud800" <= c <= "\udfff" else c for c in text)


def pieces_of(message: InboundMessage) -> tuple[Piece, ...]:
    """Return the pieces of a message; a message that came whole is its only piece."""
    whole = Piece(
        message.native_id, message.text, attachments=message.attachments, file_text=message.file_text
    )
    return message.pieces or (whole,)


def made_of(message: InboundMessage, pieces: Sequence[Piece]) -> InboundMessage:
    """Return the message made of these pieces."""
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
    """Return the text of one piece."""
    return next((piece.text for piece in pieces_of(message) if piece.native_id == native_id), "")


def with_words(message: InboundMessage, native_id: str, text: str) -> InboundMessage:
    """Replace the text of one piece."""
    return made_of(
        message,
        [replace(one, text=text) if one.native_id == native_id else one for one in pieces_of(message)],
    )
