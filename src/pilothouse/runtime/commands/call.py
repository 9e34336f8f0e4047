"""A command as it is carried out: by whom, where, in which transaction; and what a person reads of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
from msgspec import Struct, field

from pilothouse.core.conversation import Conversation, Session
from pilothouse.core.ids import EngineId, IdMaker
from pilothouse.core.message import Address, Attachment, Author, InboundMessage
from pilothouse.core.people import AUTHORITY, Role, allows
from pilothouse.core.queue import QueueRow
from pilothouse.core.store import Tx
from pilothouse.runtime.conversations.binding import bound, keeper
from pilothouse.runtime.settings import Settings

Listed = Mapping[EngineId, tuple[str, ...]]

QUOTES = "\"'`“”‘’ "
"""Around a name, these are how somebody writes it, and no part of it."""


class NamedFile(Struct, frozen=True):
    name: str
    media_type: str
    data: bytes


class Prepared(Struct, frozen=True):
    """What was looked at, or done, before the transaction, which waits for nobody. Each is of one command."""

    models: Listed = field(default_factory=dict)
    """Of `/model`: which ones the engines say that they have."""
    opened: Address | str = ""
    """Of `/topic`: where the new thread is, or why there is none."""
    unusable: str = ""
    """Of `/engine`: why the one that was named would not answer here, and what to do."""
    expected: tuple[InboundMessage, ...] = ()
    """Of `/stop`: messages, wherever they are from, whose files are still being fetched."""
    said_at: float = 0.0
    """Of `/stop`: when, by the clock of the platform; 0 if that is not known."""
    file: NamedFile | str = ""
    """Of `/send`: the file, or why it is not sent."""


class CommandCall(Struct, frozen=True):
    tx: Tx
    conversation: Conversation
    by: Author
    args: str
    settings: Settings
    ids: IdMaker
    at: float
    role: Role
    """Of whoever said it, in the workspace of the conversation."""
    prepared: Prepared = Prepared()
    has_message: bool = False
    """Of a command that opens something: a message comes right behind it, in the same transaction."""


class Reply(Struct, frozen=True):
    text: str
    attachments: tuple[Attachment, ...] = ()
    formatted: bool = False
    """Whether it repeats what an engine said."""


class NotDone(Reply, frozen=True):
    """The command was understood or not, allowed or not: it changed nothing, and the text says why."""


class CommandSpec(Struct, frozen=True):
    usage: str
    summary: str
    run: Callable[[CommandCall], Reply]
    opens: bool = False
    """What stands behind it, and the files that came with it, are a message: it is taken in once the command was done."""


def save(call: CommandCall, **changes: object) -> None:
    call.tx.conversations.save(msgspec.structs.replace(call.conversation, **changes))


def refusal(call: CommandCall, deed: str) -> Reply | None:
    """None if whoever said it may do that here."""
    role = AUTHORITY.get(deed, "owner")
    return None if allows(call.role, deed) else NotDone(f"Only an {role} may do that here.")


def binding_of(call: CommandCall) -> Conversation:
    return bound(call.tx, call.conversation)


def session_of(call: CommandCall) -> Session | None:
    kept = keeper(call.tx, call.settings, call.conversation, call.at)
    return call.tx.sessions.get(kept.session_id) if kept.session_id else None


def queued(call: CommandCall) -> list[QueueRow]:
    return call.tx.inbox.waiting(call.conversation.id)


def engine_of(call: CommandCall, session: Session | None) -> EngineId:
    return binding_of(call).engine or (session.engine if session else None) or call.settings.default_engine


def workspace_in(call: CommandCall, session: Session | None) -> str:
    chosen = binding_of(call).workspace or (session.workspace if session else None)
    return chosen or call.settings.default_workspace


Opening = Callable[[Tx, Conversation], Reply]
"""A command that stands before the message, such as `/new`: done in the transaction that takes the message in."""
