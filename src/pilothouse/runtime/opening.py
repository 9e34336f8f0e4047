"""Opens a thread for something of its own, where the channel can.

A platform is asked before the command is stored, for a transaction waits for nobody. Killed in between, the platform
brings the command again: the thread is then there twice, and empty once; it is never promised and missing.
"""

from __future__ import annotations

import anyio

from pilothouse.core.channel import CanOpenThread
from pilothouse.core.errors import Rejected, TryLater
from pilothouse.core.message import Address
from pilothouse.runtime.ports import Ports

NAME_CHARS = 100
NAMELESS = "/topic NAME opens a topic, or a thread, for something of its own. It works where this conversation works."
CANNOT = "There are no topics or threads on {channel}. /new starts a new session here."


async def open_thread(ports: Ports, address: Address, name: str) -> Address | str:
    """Where the new thread is; or why there is none, in words for whoever asked."""
    channel, name = ports.channels.get(address.channel), " ".join(name.split())
    if not isinstance(channel, CanOpenThread):
        return CANNOT.format(channel=address.channel)
    if not name:
        return NAMELESS
    if len(name) > NAME_CHARS:
        return f"That name has {len(name)} characters; at most {NAME_CHARS} are a name."
    try:
        with anyio.fail_after(ports.settings().send_timeout_s):
            return await channel.open_thread(address, name)
    except TryLater as error:
        return f"Not now: {error}. Try again in {max(1, round(error.after_s))} s."
    except Rejected as error:
        return f"That did not work: {error.reason}"
    except Exception as error:  # noqa: BLE001 - one delivery
        ports.log("thread.unconfirmed", level="warning", error=error)
        return "Nobody said whether it was opened: look whether it is there, and try again if it is not."
