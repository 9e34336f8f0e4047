"""Port: what every surface looks like from the inside of the house.

`run(desk)` receives until it is cancelled. `render` is pure; `send` sends exactly one part. A delivery error is
`TryLater`, `Rejected`, `Unconfirmed` or `WantsPlainer`; anything else is a bug. *How* something looks is the channel's, *when* it is shown is
delivery's. Optional powers are protocols of one method, found with `isinstance`.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol, runtime_checkable

from msgspec import Struct

from pilothouse.core.ask import Decision
from pilothouse.core.clock import Clock
from pilothouse.core.engine import Blobs
from pilothouse.core.event import EngineEvent
from pilothouse.core.ids import AskId, ChannelId, ConversationId, MessageId, TurnId
from pilothouse.core.message import (
    Address,
    Author,
    Content,
    InboundMessage,
    MessageDeleted,
    MessageEdited,
    MessageRef,
    Part,
    Presence,
    parent_id,
)
from pilothouse.core.people import Role
from pilothouse.core.trigger import Trigger
from pilothouse.core.view import TurnView

ReceiptState = Literal["queued", "duplicate", "refused"]

FILE_BYTES = 50_000_000
"""The largest file that is sent, which is what Telegram takes. A channel that takes less says so."""
SLOW_LINE = 32_000
"""Bytes in a second, of the slowest line that a file is waited for on."""

PAGE = 500


class Receipt(Struct, frozen=True):
    """`queued` means durable. `text` is what the person should be told now, if anything."""

    state: ReceiptState
    message_id: MessageId | None = None
    text: str = ""


class Answered(Struct, frozen=True):
    """What became of an answer: a second one changes nothing and says who was first."""

    accepted: bool
    text: str


class LoggedEvent(Struct, frozen=True):
    """One row of the event log. `seq` has no gaps within its conversation."""

    seq: int
    turn_id: TurnId
    at: float
    event: EngineEvent


class PlaceSettings(Struct, frozen=True):
    """What the people of a place chose for it, as far as its channel must know. None is as the channel is configured."""

    trigger: Trigger | None = None
    former: tuple[Address, ...] = ()
    """The addresses that the place had before it moved, the first one first."""


class Desk(Protocol):
    """All that a surface may ask of the centre. Each method has a row in the authority table."""

    async def accept(self, message: InboundMessage) -> Receipt: ...

    def expecting(self, message: InboundMessage) -> AbstractContextManager[object]:
        """Entered before what came with a message is fetched, and left once it was accepted. A `/stop` meanwhile names it,
        or takes it back: then what is done within ends, and the message has been taken care of."""
        ...

    async def edited(self, message: MessageEdited) -> Receipt:
        """Of a message that the desk never took, the receipt names none: it may be said now."""
        ...

    async def deleted(self, message: MessageDeleted) -> Receipt: ...

    async def answer(self, ask_id: AskId, payload_hash: str, decision: Decision, by: Author) -> Answered:
        """One press of one button. "Deny, and say why" is a deny with `reason_wanted`: the centre asks for the reason."""
        ...

    async def command(
        self, address: Address, by: Author, line: str, native_id: str, *, sent_at: float = 0.0
    ) -> Receipt:
        """`sent_at` is by the platform's clock, as that of its messages: 0 where it does not tell."""
        ...

    def follow(self, conversation: ConversationId, after_seq: int, by: Author) -> AsyncIterator[LoggedEvent]:
        """Every event after `after_seq`, for ever: nothing missed, nothing twice."""
        ...

    async def query(self, what: str, by: Author, **terms: Any) -> Any: ...

    async def moved(self, old: Address, new: Address) -> None:
        """The platform gave a place a new address: its conversation goes on there. Told twice, it is told once."""
        ...

    async def arrived(self, here: Presence, greeting: str) -> None:
        """We were added to a place. The greeting is said there if whoever did it may talk to us; else owners are told."""
        ...

    async def left(self, here: Presence) -> None:
        """We were put out of a place: nothing that waits to be said there is tried any more."""
        ...

    async def waiting(self, channel: ChannelId) -> Sequence[MessageRef]:
        """For the channel itself, which may not have heard what became of them: messages that wait behind a turn."""
        ...

    async def running(self, address: Address) -> Mapping[TurnId, Address]:
        """For the channel itself, which may not be told of which thread something is: the turns that are live in this
        place and in its threads, and where each of them is."""
        ...

    async def address_of(self, ref: MessageRef) -> Address:
        """For the channel itself, where its platform names a message by its place alone: the thread of that place in which
        it stands, whether we sent it or a person did. A message that is not known is where it is said to be."""
        ...

    async def settings_of(self, address: Address) -> PlaceSettings:
        """For the channel itself, before it knows whether a message is for us. Cheap: asked for each one of a group."""
        ...


class Channel(Protocol):
    id: ChannelId

    async def run(self, desk: Desk) -> None: ...

    def render(self, content: Content) -> tuple[Part, ...]: ...

    async def send(self, address: Address, part: Part) -> MessageRef: ...


@runtime_checkable
class RendersPlainly(Protocol):
    """A channel whose `send` may raise `WantsPlainer`, for a form that not every server of its platform takes."""

    def render_plainly(self, content: Content) -> tuple[Part, ...]:
        """The same without that form. What stands before and behind a part that had it is what `render` gives."""
        ...


@runtime_checkable
class CanEdit(Protocol):
    """Live views need both: what a view looks like, and a way to change what stands there. `CannotEdit` says that a message
    was changed too often, or is too old: a view goes on in a new one."""

    def render_view(self, view: TurnView, now: float) -> Part | None: ...

    async def edit(self, ref: MessageRef, part: Part) -> None: ...


@runtime_checkable
class CanDelete(Protocol):
    async def delete(self, ref: MessageRef) -> None: ...


@runtime_checkable
class FindsViews(Protocol):
    """A marker: a view that was sent without an answer may be sent again. If the first one arrived after all, the second
    is not shown, and its ref is the first one's."""

    finds_views: bool


@runtime_checkable
class RenewsViews(Protocol):
    """Some of its views the platform takes away by itself, unless they are written anew."""

    def renew_view_s(self, ref: MessageRef) -> float | None:
        """How long after a view was shown it is to be shown again, though it looks the same; None if it stays."""
        ...


@runtime_checkable
class CanType(Protocol):
    """Shows that somebody is writing. The runtime calls `type` from a turn's start, every `type_every_s`, until it ends
    or waits for an answer. It must never hold up a message: what a platform's limits have no room for is not shown."""

    type_every_s: float
    """A little less than the time after which the platform takes the sign away."""

    async def type(self, address: Address) -> None: ...


@runtime_checkable
class CanReact(Protocol):
    async def react(self, ref: MessageRef, emoji: str) -> None: ...


@runtime_checkable
class CanOpenThread(Protocol):
    """Makes a thread (a topic) for something of its own: `/topic NAME`, which is also `/thread NAME`."""

    async def open_thread(self, address: Address, name: str) -> Address:
        """The thread's address: the same place, with `thread` set. `address` may itself be one of the place's threads.

        `Rejected` says in plain words why there can be none here, and what would help."""
        ...


@runtime_checkable
class Paced(Protocol):
    """The platform wants a pause between two messages of one conversation."""

    interval_s: float


@runtime_checkable
class HoldsPlaces(Protocol):
    """A channel that serves only some conversations of its kind: a terminal holds its own, no other's.

    Whoever holds a place holds its threads, also those that nobody has told it of."""

    def holds(self) -> tuple[ConversationId, ...]: ...


@runtime_checkable
class HoldsMessages(Protocol):
    """A channel that is here for some messages only: one question, and its answer.

    Of what is said in the places that it holds it is sent what came of these messages, and what belongs to nobody's.
    The rest waits for others. None if it is here for everything."""

    def messages(self) -> tuple[MessageId, ...] | None: ...


def serves(channel: Channel, place: ConversationId) -> bool:
    """Whether what happens in this conversation is shown through this channel, here."""
    if not isinstance(channel, HoldsPlaces):
        return True
    held = channel.holds()
    return place in held or parent_id(place) in held


class ChannelHealth(Struct, frozen=True):
    """`heard_at` is when the platform last showed that it reaches us, in UTC epoch seconds; `trouble` what a person
    should know. A platform with nothing to say must be asked: what was not heard for `DEAF_S` (`core/health`) is in trouble."""

    heard_at: float | None = None
    trouble: str = ""


@runtime_checkable
class HasHealth(Protocol):
    def health(self) -> ChannelHealth: ...


class MenuCommand(Struct, frozen=True):
    """A command for a platform's menu, and who may use it at least."""

    name: str
    summary: str
    role: Role
    usage: str = ""
    """How it is written, with what stands behind it: `/cancel N`."""
    aliases: tuple[str, ...] = ()
    """Further names that it is known by. They stand in no menu."""


class ChannelHost(Struct, frozen=True):
    """What the house gives to a channel that it builds."""

    blobs: Blobs
    state_dir: str
    log: Callable[..., None]
    clock: Clock
    commands: tuple[MenuCommand, ...] = ()


class Met(Struct, frozen=True):
    """Who we are on a platform, and the address under which people find us; or why that is not known."""

    name: str = ""
    link: str = ""
    problem: str = ""


class Finding(Struct, frozen=True):
    """Something that does not work on a platform, or not everywhere, and what to do."""

    text: str
    fix: str = ""


class IdForm(Struct, frozen=True):
    """What the ids of people look like on a platform: people take their names for them."""

    pattern: re.Pattern[str]
    words: str
    """What comes after "people are known by": "a number, such as 12345"."""


class ChannelSpec(Struct, frozen=True):
    """How a channel presents itself; the object that an entry point of `pilothouse.channels` names."""

    id: ChannelId
    title: str
    config: type[Struct]
    build: Callable[[Any, ChannelHost], Channel]
    problem: Callable[[Any], str]
    """Why this configuration cannot work, in plain words with the fix; empty if it can."""
    meet: Callable[[Any], Met] | None = None
    """Asks the platform who we are: whoever sets the channel up learns at once whether that works."""
    examine: Callable[[Any], Sequence[Finding]] | None = None
    """A longer look, for `doctor`: asks the platform what we lack there. Bounded in time, and it changes nothing."""
    user_ids: IdForm | None = None
    """Without it, every word may be somebody's id."""
