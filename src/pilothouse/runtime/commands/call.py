"""A command while it runs: who called it, where, in which transaction; and its reply."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import Struct, field

from pilothouse.core.channel import Menu
from pilothouse.core.conversation import Conversation, Session
from pilothouse.core.ids import EngineId, IdMaker
from pilothouse.core.lane import Lane
from pilothouse.core.mcp import McpStatus
from pilothouse.core.message import Address, Attachment, Author, CommandButton, InboundMessage
from pilothouse.core.people import AUTHORITY, Role, allows
from pilothouse.core.queue import QueueRow
from pilothouse.core.store import Tx
from pilothouse.runtime.commands.engine_sessions import Elsewhere
from pilothouse.runtime.conversations.binding import bound, session_owner
from pilothouse.runtime.engine_report import EngineReport
from pilothouse.runtime.settings import Settings

Listed = Mapping[EngineId, tuple[str, ...]]
"""Model names by engine."""

QUOTES = "\"'`“”‘’ "
"""Characters that people put around a name and that are not part of it."""


class NamedFile(Struct, frozen=True):
    name: str
    media_type: str
    data: bytes


class Folders(Struct, frozen=True):
    """Folders below the configured roots: all of them by name, or the one that was named; empty if there is none."""

    listed: Mapping[str, str] = field(default_factory=dict)
    named: str = ""


class LanesAnswer(Struct, frozen=True):
    """Lanes that are listed, created or closed. `place` is the thread of a new one."""

    lanes: Sequence[Lane] = ()
    made: Lane | None = None
    place: Address | None = None
    closed: Sequence[Lane] | None = None


class Prepared(Struct, frozen=True):
    """Results of work done before the transaction, which must not wait. Each field belongs to one command."""

    commands: tuple[EngineId, Sequence[str]] = (EngineId(""), ())
    """`/help`: the conversation's engine, and the commands of its own that it is passed."""
    models: Listed = field(default_factory=dict)
    """`/model`: the models that each engine lists."""
    opened: Address | str = ""
    """`/topic`: the address of the new thread, or why there is none."""
    unusable: str = ""
    """`/engine`: why the named engine cannot be used here, and what to do; empty if it can."""
    elsewhere: Elsewhere = Elsewhere()
    """`/sessions` and `/resume`: what the engine knows of its sessions."""
    engines: Sequence[EngineReport] = ()
    """`/engine`: the engines, with their programs and logins."""
    expected: tuple[InboundMessage, ...] = ()
    """`/stop`: messages of any conversation whose files are still being fetched."""
    said_at: float = 0.0
    """`/stop`: its time by the platform's clock; 0 if unknown."""
    file: NamedFile | str = ""
    """`/send`: the file, or why it is not sent."""
    folders: Folders = Folders()
    """`/bind`: the folders to choose from."""
    servers: Sequence[McpStatus] | str = ()
    """`/mcp`: the servers with their states, or what a login says."""
    lanes: LanesAnswer | str = LanesAnswer()
    """`/lanes`: the lanes, the one that was created or closed, or why not."""


class CommandCall(Struct, frozen=True):
    tx: Tx
    conversation: Conversation
    by: Author
    args: str
    settings: Settings
    ids: IdMaker
    at: float
    role: Role
    """The caller's role in the workspace of the conversation."""
    prepared: Prepared = Prepared()
    has_message: bool = False
    """True if a message follows the command in the same transaction, as in `/new TEXT`."""


class Reply(Struct, frozen=True):
    text: str
    attachments: tuple[Attachment, ...] = ()
    formatted: bool = False
    """True if the text is an engine's and keeps its markup."""
    buttons: tuple[CommandButton, ...] = ()


class NotDone(Reply, frozen=True):
    """The command changed nothing; the text says why."""


Opening = Callable[[Tx, Conversation], Reply]
"""A command before a message, such as `/new`: it runs in the transaction that stores the message."""


class CommandSpec(Struct, frozen=True):
    usage: str
    summary: str
    run: Callable[[CommandCall], Reply]
    opens: bool = False
    """True if text and files after the command are a message, stored once the command has run."""
    topic: str = ""
    """The heading in `/help`."""
    menus: tuple[Menu, ...] = ("private", "group")
    """The chats whose menu and `/help` list it."""


def save(call: CommandCall, **changes: object) -> None:
    call.tx.conversations.save(msgspec.structs.replace(call.conversation, **changes))


def refusal(call: CommandCall, deed: str) -> Reply | None:
    """Return why the caller may not do that here; None if they may."""
    role = AUTHORITY.get(deed, "owner")
    return None if allows(call.role, deed) else NotDone(f"Only an {role} may do that here.")


def binding_of(call: CommandCall) -> Conversation:
    return bound(call.tx, call.conversation)


def session_of(call: CommandCall) -> Session | None:
    kept = session_owner(call.tx, call.settings, call.conversation, call.at)
    return call.tx.sessions.get(kept.session_id) if kept.session_id else None


def queued(call: CommandCall) -> list[QueueRow]:
    return call.tx.inbox.waiting(call.conversation.id)


def engine_of(call: CommandCall, session: Session | None) -> EngineId:
    return binding_of(call).engine or (session.engine if session else None) or call.settings.default_engine


def workspace_in(call: CommandCall, session: Session | None) -> str:
    chosen = binding_of(call).workspace or (session.workspace if session else None)
    return chosen or call.settings.default_workspace
