"""`/send PATH` and `/topic NAME`: commands that use the disk or a platform before their transaction, which must not wait.

`/send` sends only a regular file inside the workspace, links resolved; in a terminal it says where the file is. Files
that the rules would ask about before an engine reads them, and files whose names suggest secrets, are for owners.

`/topic` opens a thread where the channel can. If the gateway is killed before the command is stored, the platform
repeats the command and an empty second thread is left over; none is ever announced and missing.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

import anyio
from msgspec import Struct

from pilothouse.core.ask import Ask
from pilothouse.core.call import Call
from pilothouse.core.channel import FILE_BYTES, AtMachine, CanOpenThread
from pilothouse.core.errors import NoThreads, Rejected, TryLater
from pilothouse.core.ids import AskId
from pilothouse.core.media import sniff
from pilothouse.core.message import Address, Author
from pilothouse.core.people import Role, allows
from pilothouse.core.policy import Site
from pilothouse.core.store import Tx
from pilothouse.core.text import file_size
from pilothouse.runtime.commands.call import QUOTES, CommandCall, NamedFile, NotDone, Reply
from pilothouse.runtime.conversations.binding import bound
from pilothouse.runtime.conversations.places import place_id
from pilothouse.runtime.ports import Ports
from pilothouse.runtime.roles import role_of
from pilothouse.runtime.settings import Settings

READ_S = 10.0
USAGE = "/send PATH sends a file of the workspace here, such as /send build/report.pdf."

_SECRET = re.compile(
    r"(?:^|/)(?:\.env[^/]*|\.ssh|\.git|\.git-credentials|\.aws|\.kube|\.docker|\.gnupg|\.netrc|\.pgpass|\.npmrc|\.pypirc)(?:/|$)"
    r"|(?:^|/)(?:id_(?:rsa|dsa|ecdsa|ed25519)|credentials|secrets?)(?:\.[^/]*)?(?:/|$)|\.(?:pem|key|p12|pfx|jks|kdbx)$",
    re.IGNORECASE,
)

NAME_CHARS = 100
NAMELESS = (
    "/topic NAME opens a topic or thread as a separate conversation, with this one's engine and workspace."
)
CANNOT = "{channel} has no topics or threads. /new starts a new session here."
UNOPENED = "The topic was not opened: {reason}"


async def find_file(ports: Ports, address: Address, by: Author, said: str) -> NamedFile | str:
    """Return the file, or tell why it is not sent."""
    path = said.strip(QUOTES)
    if not path:
        return USAGE
    settings = ports.settings()
    workspace, role = await ports.store.read(lambda tx: _place(tx, settings, address, by))
    found = await look_for_file(ports, workspace, path)
    if isinstance(found, str):
        return found
    if found.guarded and not allows(role, "command.send.guarded"):
        return f"{path} is sent only to owners: {found.guarded}."
    if isinstance(ports.channels.get(address.channel), AtMachine):
        return at_machine(workspace, found)
    return found.named()


class FoundFile(Struct, frozen=True):
    """A file of a workspace: its path there, and why only owners may have it, if so."""

    path: str
    data: bytes
    guarded: str = ""

    def named(self, name: str = "") -> NamedFile:
        media_type = sniff(self.data) or "application/octet-stream"
        return NamedFile(name or PurePosixPath(self.path).name, media_type, self.data)


def at_machine(workspace: str, found: FoundFile) -> str:
    return f"{found.path} is on this machine: {PurePosixPath(workspace, found.path)}"


async def look_for_file(ports: Ports, workspace: str, path: str) -> FoundFile | str:
    """Read a file that may be sent, or tell why it is not."""
    reading = Call("read", "/send", workspace, paths=(path,))
    ask = Ask(AskId(""), "approval", f"/send {path}", {"path": path}, call=reading)
    ruling = await ports.policy.judge(ask, Site(workspace))
    if ruling.outcome == "deny":
        return f"{path} is not sent: {ruling.rule}."
    found = None
    with anyio.move_on_after(READ_S):
        found = await ports.read_file(str(PurePosixPath(workspace, path)), workspace, FILE_BYTES)
    if found is None:
        return f"{path} could not be read in time. Try again."
    if isinstance(found, str):
        return f"{path} is not sent: {found}. Paths are relative to {workspace}."
    inner, data = found
    guarded = (
        ruling.rule if ruling.outcome == "ask" else "it may hold secrets" if _SECRET.search(inner) else ""
    )
    if not data:  # platforms may refuse it
        return f"{path} is not sent: it is empty."
    return FoundFile(inner, data, guarded)


def send_file(call: CommandCall) -> Reply:
    file = call.prepared.file
    if isinstance(file, str):
        return NotDone(file or USAGE)
    attached = call.tx.blobs.attach(file.data, file.name, file.media_type, call.at)
    return Reply(f"{file.name}, {file_size(len(file.data))}", (attached,))


def _place(tx: Tx, settings: Settings, address: Address, by: Author) -> tuple[str, Role]:
    """Return the conversation's workspace and the person's role in it."""
    known = tx.conversations.get(place_id(tx, address))
    chosen = None if known is None else bound(tx, known).workspace
    session = tx.sessions.get(known.session_id) if known and known.session_id else None
    workspace = chosen or (session.workspace if session else None) or settings.default_workspace
    return workspace, role_of(tx, settings.people, by.id, workspace)


async def open_topic(ports: Ports, address: Address, name: str) -> Address | str:
    """Open a thread and return its address, or tell why there is none."""
    try:
        return await open_thread(ports, address, name)
    except NoThreads as error:
        return UNOPENED.format(reason=error.reason)


async def open_thread(ports: Ports, address: Address, name: str) -> Address | str:
    """Do the same, but raise `NoThreads` where the place has none."""
    channel, name = ports.channels.get(address.channel), " ".join(name.split())
    if not isinstance(channel, CanOpenThread):
        return CANNOT.format(channel=address.channel)
    if not name:
        return NAMELESS
    if len(name) > NAME_CHARS:
        return f"That name has {len(name)} characters; at most {NAME_CHARS} are allowed."
    try:
        with anyio.fail_after(ports.settings().send_timeout_s):
            return await channel.open_thread(address, name)
    except TryLater as error:
        return f"Not now: {error}. Try again in {max(1, round(error.after_s))} s."
    except NoThreads:
        raise
    except Rejected as error:
        return UNOPENED.format(reason=error.reason)
    except Exception as error:  # noqa: BLE001 - one delivery
        ports.log("thread.unconfirmed", level="warning", error=error)
        return f"{address.channel} did not confirm the new topic. Check whether it exists, and retry if not."
