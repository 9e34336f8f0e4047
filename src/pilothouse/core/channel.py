"""Port: the interface of every channel, and of the desk that channels talk to.

`run(desk)` receives until it is cancelled. `render` is pure; `send` sends exactly one part. A delivery error is
`TryLater`, `Rejected`, `Unconfirmed` or `WantsPlainer`; anything else is a bug. The channel decides how something
looks; delivery decides when it is shown. Optional capabilities are small protocols, found with `isinstance`.
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
"""The largest file that is sent: Telegram's limit. A channel with a smaller limit says so."""
MIN_BYTES_PER_S = 32_000
"""The slowest connection on which a file transfer is waited for."""
PAGE = 500
"""Events read from the log at a time."""


class Receipt(Struct, frozen=True):
    """`queued` means durable. `text` is for the person, if there is something to say now."""

    state: ReceiptState
    message_id: MessageId | None = None
    text: str = ""


class Answered(Struct, frozen=True):
    """The result of an answer. A second answer changes nothing, and its text names the first."""

    accepted: bool
    text: str


class LoggedEvent(Struct, frozen=True):
    """One row of the event log. `seq` has no gaps within its conversation."""

    seq: int
    turn_id: TurnId
    at: float
    event: EngineEvent


class PlaceSettings(Struct, frozen=True):
    """Settings that people chose for a place and its channel needs. None means "as configured"."""

    trigger: Trigger | None = None
    former: tuple[Address, ...] = ()
    """Earlier addresses of the place, oldest first."""


class Desk(Protocol):
    """Everything that a channel may call. Each method has a row in the table `AUTHORITY`."""

    async def accept(self, message: InboundMessage) -> Receipt: ...

    def expecting(self, message: InboundMessage) -> AbstractContextManager[object]:
        """Announce a message while its files are fetched; leave once it was accepted.

        A `/stop` in the meantime may withdraw it: the body is then cancelled, and the message counts as handled."""
        ...

    async def edited(self, message: MessageEdited) -> Receipt:
        """The receipt has no `message_id` if the desk never took the message; it may be accepted now."""
        ...

    async def deleted(self, message: MessageDeleted) -> Receipt: ...

    async def answer(self, ask_id: AskId, payload_hash: str, decision: Decision, by: Author) -> Answered:
        """Take one press of one button. "Deny, and say why" is a deny with `reason_wanted`: the desk asks for the reason."""
        ...

    async def command(
        self, address: Address, by: Author, line: str, native_id: str, *, sent_at: float = 0.0
    ) -> Receipt:
        """`sent_at` is the platform's time; 0 if it gives none."""
        ...

    def follow(self, conversation: ConversationId, after_seq: int, by: Author) -> AsyncIterator[LoggedEvent]:
        """Yield every event after `after_seq` exactly once, without end."""
        ...

    async def query(self, what: str, by: Author, **terms: Any) -> Any: ...

    async def moved(self, old: Address, new: Address) -> None:
        """The platform gave a place a new address; its conversation continues there. Idempotent."""
        ...

    async def arrived(self, here: Presence, greeting: str) -> None:
        """We were added to a place. Greets there if the person who added us may talk to us; else tells the owners."""
        ...

    async def left(self, here: Presence) -> None:
        """We were removed from a place; undelivered messages for it are dropped."""
        ...

    async def running(self, address: Address) -> Mapping[TurnId, Address]:
        """For the channel itself, where the platform does not name the thread: live turns of this place and its threads,
        with their addresses."""
        ...

    async def address_of(self, ref: MessageRef) -> Address:
        """For the channel itself, where the platform names a message by its place alone: the address with the thread that
        holds it. The address of an unknown message is returned unchanged."""
        ...

    async def settings_of(self, address: Address) -> PlaceSettings:
        """For the channel itself, to decide whether a message is for us. Cheap: called for each message of a group."""
        ...


class Channel(Protocol):
    id: ChannelId

    async def run(self, desk: Desk) -> None: ...

    def render(self, content: Content) -> tuple[Part, ...]: ...

    async def send(self, address: Address, part: Part) -> MessageRef: ...


@runtime_checkable
class RendersPlainly(Protocol):
    """A channel whose `send` may raise `WantsPlainer`, because some servers of its platform reject a format."""

    def render_plainly(self, content: Content) -> tuple[Part, ...]:
        """Render without that format. All other parts are as from `render`."""
        ...


@runtime_checkable
class CanEdit(Protocol):
    """Renders live views and edits messages. After `CannotEdit` (too old, or edited too often) a view continues in a new
    message."""

    def render_view(self, view: TurnView, now: float) -> Part | None: ...

    async def edit(self, ref: MessageRef, part: Part) -> None: ...


@runtime_checkable
class CanDelete(Protocol):
    async def delete(self, ref: MessageRef) -> None: ...


@runtime_checkable
class CanReact(Protocol):
    async def react(self, ref: MessageRef, emoji: str) -> None: ...


@runtime_checkable
class FindsViews(Protocol):
    """A marker: a view whose send was not confirmed may be sent again. If the first did arrive, the platform keeps that
    one and returns its ref."""

    finds_views: bool


@runtime_checkable
class WithdrawsViews(Protocol):
    """A marker: a `send` of a view that is cancelled before its message was sent is cancelled; later it ends as usual, so
    that its ref is known. Progress is cancelled when its turn ends."""

    withdraws_views: bool


@runtime_checkable
class RenewsViews(Protocol):
    """The platform removes some views after a while unless they are sent again."""

    def renew_view_s(self, ref: MessageRef) -> float | None:
        """Seconds after which an unchanged view must be sent again; None if it stays."""
        ...


@runtime_checkable
class CanType(Protocol):
    """Shows a typing indicator. The runtime calls `type` every `type_every_s` while a turn runs and waits for no answer.

    It must never delay a message: skip it when the platform's rate limit has no room."""

    type_every_s: float
    """A little less than the time after which the platform hides the indicator."""

    async def type(self, address: Address) -> None: ...


@runtime_checkable
class CanOpenThread(Protocol):
    """Opens a thread (a topic) for `/topic NAME` or `/thread NAME`."""

    async def open_thread(self, address: Address, name: str) -> Address:
        """Return the new thread's address: the same place, with `thread` set. `address` may itself be a thread.

        Raises `Rejected` with a text for people: why not, and what would help; `NoThreads` if the place has none."""
        ...


@runtime_checkable
class Paced(Protocol):
    """The platform requires a pause between two messages of one conversation."""

    interval_s: float


@runtime_checkable
class HoldsPlaces(Protocol):
    """A channel that serves only some conversations, as a terminal serves only its own. Threads belong to their place."""

    def holds(self) -> tuple[ConversationId, ...]: ...


@runtime_checkable
class HoldsMessages(Protocol):
    """A channel that serves only some messages: a one-shot question and its answer.

    It is sent the results of these messages, and messages that belong to no other; the rest waits. None means all."""

    def messages(self) -> tuple[MessageId, ...] | None: ...


@runtime_checkable
class SharesPlaces(Protocol):
    """A channel whose places several processes show at once, as two terminals in one folder do.

    The replies to a message are left to the process that sent it, for a moment: it may have ended."""

    def was_sent_elsewhere(self, native_id: str) -> bool: ...


def serves(channel: Channel, place: ConversationId) -> bool:
    """True if this channel shows the conversation."""
    if not isinstance(channel, HoldsPlaces):
        return True
    held = channel.holds()
    return place in held or parent_id(place) in held


@runtime_checkable
class AtMachine(Protocol):
    """A marker: people of this channel sit at this machine. They are told where a file is, instead of being sent it."""

    at_machine: bool


@runtime_checkable
class LimitsFiles(Protocol):
    """A platform that takes less than `FILE_BYTES`. A larger file is left out of its message, which says so."""

    def file_bytes(self, address: Address) -> int:
        """Return how large a file may be there."""
        ...


class ChannelHealth(Struct, frozen=True):
    """`heard_at` is when the platform last showed that it reaches us, in UTC epoch seconds; `trouble` what a person
    should know. A platform with nothing to say must be asked: what was not heard for `DEAF_S` (`core/health`) is in trouble."""

    heard_at: float | None = None
    trouble: str = ""


@runtime_checkable
class HasHealth(Protocol):
    def health(self) -> ChannelHealth: ...


Menu = Literal["private", "group"]
"""The kinds of chat that a menu of commands is for."""


class MenuCommand(Struct, frozen=True):
    """A command for a platform's menu, and the lowest role that may use it."""

    name: str
    summary: str
    role: Role
    usage: str = ""
    """The command with its arguments: `/cancel N`."""
    aliases: tuple[str, ...] = ()
    """Further names, not shown in menus."""
    menus: tuple[Menu, ...] = ("private", "group")
    """The menus that list it."""


class ChannelHost(Struct, frozen=True):
    """Everything that a channel is given when it is built."""

    blobs: Blobs
    state_dir: str
    log: Callable[..., None]
    clock: Clock
    commands: tuple[MenuCommand, ...] = ()


class BotIdentity(Struct, frozen=True):
    """Our name and link on a platform; or the problem that kept us from asking."""

    name: str = ""
    link: str = ""
    problem: str = ""
    idle: str = ""
    """Set for a channel that only a running gateway can answer for, while none runs: what was tried instead."""


class Finding(Struct, frozen=True):
    """Something that does not work on a platform, and how to fix it."""

    text: str
    fix: str = ""


class IdForm(Struct, frozen=True):
    """The format of user ids on a platform, to reject names that people enter instead."""

    pattern: re.Pattern[str]
    words: str
    """The end of the sentence "people are known by …": "a number, such as 12345"."""


class ChannelSpec(Struct, frozen=True):
    """The object that an entry point of `pilothouse.channels` names."""

    id: ChannelId
    title: str
    config: type[Struct]
    build: Callable[[Any, ChannelHost], Channel]
    problem: Callable[[Any], str]
    """Says why this configuration cannot work, and the fix; empty if it can."""
    identify: Callable[[Any], BotIdentity] | None = None
    """Asks the platform who we are, so that setup can check the credentials."""
    examine: Callable[[Any], Sequence[Finding]] | None = None
    """For `doctor`: asks the platform which permissions or settings are missing. Bounded in time, changes nothing."""
    user_ids: IdForm | None = None
    """None accepts any word as a user id."""
