"""`/mcp`: the MCP servers of this conversation's folder with their states, and the login to one of them.

Servers are asked before the transaction, because they may be slow.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from pilothouse.core.mcp import McpState, McpStatus
from pilothouse.core.message import Address, CommandButton
from pilothouse.core.store import Tx
from pilothouse.runtime.commands.call import CommandCall, NotDone, Reply, refusal
from pilothouse.runtime.conversations.binding import workspace_of
from pilothouse.runtime.conversations.places import place_id
from pilothouse.runtime.ports import Ports
from pilothouse.runtime.trust import StoredTrust, note_trust, stored_trust

AUTH = "auth"
USAGE = "/mcp lists the MCP servers. /mcp auth NAME logs in to one of them."
LOG_IN = "/mcp auth NAME logs in."
NONE = "No MCP servers here. To add one, on the machine: pilothouse mcp add NAME --url https://…"
MARKS: dict[McpState, str] = {
    "ready": "✓",
    "connecting": "…",
    "disabled": "–",
    "auth_required": "!",
    "error": "✗",
}
STATES: dict[McpState, str] = {
    "connecting": "connecting",
    "disabled": "off",
    "auth_required": "wants a login",
    "error": "error",
}


async def ask_servers(ports: Ports, address: Address, args: str) -> Sequence[McpStatus] | str:
    """Return the states of the servers; with `auth`, what the login says."""
    workspace, real, stored = await ports.store.read(lambda tx: _place(tx, ports, address))
    if not workspace:
        return ()
    trust = await note_trust(ports.settings(), stored, real)
    match args.split():
        case []:
            return await ports.mcp.report(workspace, trust.holds)
        case [word, id, *pasted] if word.lower() == AUTH and len(pasted) < 2:
            return await ports.mcp.log_in(workspace, trust.holds, id, "".join(pasted))
        case _:
            return USAGE


def show_servers(call: CommandCall) -> Reply:
    found = call.prepared.servers
    if call.args and (refused := refusal(call, "command.mcp.auth")):
        return refused
    if isinstance(found, str):
        return NotDone(found) if found == USAGE else Reply(found)
    if not found:
        return Reply(NONE)
    wanting = [one.id for one in found if one.state == "auth_required"]
    buttons = tuple(CommandButton(f"Log in to {id}", f"/mcp {AUTH} {id}") for id in wanting)
    lines = [*(_line(one) for one in found), *([LOG_IN] if wanting else [])]
    return Reply("\n".join(lines), buttons=buttons)


def _line(one: McpStatus) -> str:
    count = f"{one.tools} tool" if one.tools == 1 else f"{one.tools} tools"
    state = count if one.state == "ready" else STATES[one.state]
    problem = f": {one.problem}" if one.state == "error" and one.problem else ""
    return f"{MARKS[one.state]} {one.id} ({one.target}): {state}{problem}"


def _place(tx: Tx, ports: Ports, address: Address) -> tuple[str, str, StoredTrust]:
    workspace = workspace_of(tx, place_id(tx, address), ports.settings().default_workspace)
    real = os.path.realpath(workspace)
    return workspace, real, stored_trust(tx, real)
