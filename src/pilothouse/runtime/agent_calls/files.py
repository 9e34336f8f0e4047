"""Files that an agent sends by a tool: by the rule of `/send`, and copied before the call returns.

A file that a rule would ask about, or whose name suggests secrets, is not sent: an agent may be talked into that. An owner
can send it with `/send`.
"""

from __future__ import annotations

from pathlib import PurePosixPath

from pilothouse.core.channel import AtMachine
from pilothouse.core.message import Content
from pilothouse.runtime.agent_calls.caller import Caller, CallRefused
from pilothouse.runtime.agent_calls.messages import Target, send
from pilothouse.runtime.commands.call import NamedFile
from pilothouse.runtime.commands.files import FoundFile, at_machine, look_for_file
from pilothouse.runtime.ports import Ports

NAME_CHARS = 200


async def read_allowed(ports: Ports, caller: Caller, path: str) -> NamedFile:
    """Read a file of the workspace that an agent may pass on. Raises `CallRefused`."""
    found = await _find(ports, caller, path)
    return found.named(PurePosixPath(found.path).name[:NAME_CHARS])


async def _find(ports: Ports, caller: Caller, path: str) -> FoundFile:
    found = await look_for_file(ports, caller.session.workspace, path)
    if isinstance(found, str):
        raise CallRefused(found)
    if found.guarded:
        raise CallRefused(
            f"{path} is not sent by a tool: {found.guarded}. An owner can send it with /send {path}."
        )
    return found


async def send_file(ports: Ports, caller: Caller, path: str, text: str, name: str, target: Target) -> str:
    """Raises `CallRefused` if the file is not sent."""
    workspace = caller.session.workspace
    found = await _find(ports, caller, path)
    if isinstance(ports.channels.get(caller.conversation.address.channel), AtMachine) and target.is_here:
        words = "\n".join(filter(None, (text, at_machine(workspace, found))))
        return await send(ports, caller, Content(words, "notice"), target)
    named, at = found.named(PurePosixPath(name).name[:NAME_CHARS]), ports.clock.now()
    file = await ports.store.write(lambda tx: tx.blobs.attach(named.data, named.name, named.media_type, at))
    content = Content(text or named.name, "notice", (file,), formatted=bool(text))
    return await send(ports, caller, content, target)
