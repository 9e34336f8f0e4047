"""`/bind`: the folder that a conversation works in: a configured workspace, or a folder below a configured root.

A choice is a row of the store. Links are resolved before the check, and hidden folders are never offered or taken. The
caller must be an admin both here and there. Where the approval mode of the folder is wider than the one here, an owner is
asked first, as every widening of a permission is.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import PurePath

import anyio
import anyio.to_thread
import msgspec

from pilothouse.core.ask import Ask, AskRow, Decision
from pilothouse.core.ids import AskId, IdMaker
from pilothouse.core.message import CommandButton, Content
from pilothouse.core.people import AUTHORITY, OWNERS, Authority, allows, may_say_yes
from pilothouse.core.policy import MODES, ApprovalMode
from pilothouse.core.store import Tx
from pilothouse.runtime.asks.show import origin, raise_ask
from pilothouse.runtime.commands.call import (
    QUOTES,
    CommandCall,
    Folders,
    NotDone,
    Reply,
    refusal,
    save,
    session_of,
    workspace_in,
)
from pilothouse.runtime.commands.mode import OPEN_S, mode_here, mode_in
from pilothouse.runtime.conversations.agent_groups import find_agent
from pilothouse.runtime.conversations.binding import picked_mode
from pilothouse.runtime.outbox import say
from pilothouse.runtime.roles import approver_chats, role_of

LOOK_S = 5.0
LISTED = 12
MAX_ENTRIES = 2000
BIND = "bind"
BOUND = "From your next message on: {folder}, in a new session."
WIDER = "Work in {folder}? Agents may do more there without asking: its approval mode is {mode}, here it is {now}."
CONFIRM = "The approval mode of that folder ({mode}) allows more than the one here ({now}). "
BY_YOU = "Please answer the question; until then nothing changes."
BY_OWNER = "An owner is asked first."
WIDER_NOW = "Nothing was changed: the approval mode of {folder} allows more by now. Send /bind again."
NO_OTHERS = "No other folders are set up. The owner can add some in the configuration: [gateway] roots."


async def look_for_folders(roots: Sequence[str], said: str) -> Folders:
    """List the folders below the roots, or find the one that was named. A disk may hang, so the time is limited."""
    found = Folders()
    if roots:
        with anyio.move_on_after(LOOK_S):
            found = await anyio.to_thread.run_sync(partial(_look, roots, said), abandon_on_cancel=True)
    return found


def _look(roots: Sequence[str], said: str) -> Folders:
    return Folders(named=_named(roots, said)) if said else Folders(listed=_list(roots))


def _named(roots: Sequence[str], said: str) -> str:
    """Return the folder that was named by its path below a root, or by its whole path; empty if there is none."""
    return next((real for real in _paths_below(roots, said) if os.path.isdir(real)), "")


def _paths_below(roots: Sequence[str], said: str) -> list[str]:
    paths = [os.path.join(root, os.path.expanduser(said)) for root in roots]
    return [real for path in paths if _is_below(real := os.path.realpath(path), roots)]


async def find_below(roots: Sequence[str], said: str) -> str:
    """Return the resolved path of a folder below a root that may not exist yet; empty if it would be elsewhere."""

    def look() -> str:
        found = _paths_below(roots, said)
        others = [real for real in found if not os.path.exists(real)]
        return next((real for real in found if os.path.isdir(real)), "") or next(iter(others), "")

    with anyio.move_on_after(LOOK_S):
        return await anyio.to_thread.run_sync(look, abandon_on_cancel=True)
    return ""


def _is_below(real: str, roots: Sequence[str]) -> bool:
    inner = (PurePath(real).relative_to(root).parts for root in roots if PurePath(real).is_relative_to(root))
    return any(parts and not any(part.startswith(".") for part in parts) for parts in inner)


def _list(roots: Sequence[str]) -> dict[str, str]:
    """Return folders by name, the last changed first. Of two with one name, the second goes by its whole path."""
    found: list[tuple[float, str]] = []
    for root in roots:
        try:
            with os.scandir(root) as entries:
                for entry, _ in zip(entries, range(MAX_ENTRIES), strict=False):
                    if entry.is_dir() and _is_below(os.path.realpath(entry.path), roots):
                        found.append((entry.stat().st_mtime, entry.path))
        except OSError:  # a root that cannot be read offers nothing
            continue
    listed: dict[str, str] = {}
    for _, path in sorted(found, reverse=True):
        name = os.path.basename(path)
        listed[path if name in listed else name] = os.path.realpath(path)
    return listed


def set_workspace(call: CommandCall) -> Reply:
    said = call.args.strip(QUOTES)
    if not said:
        return _show(call)
    folder = find_agent(call.tx, call.settings, said) or call.prepared.folders.named
    if not folder:
        return NotDone(f"There is no folder {said!r} to choose. /bind lists them.")
    there = role_of(call.tx, call.settings.people, call.by.id, folder)
    if refused := refusal(call, "command.bind.set"):
        return refused
    if not allows(there, "command.bind.set"):
        return NotDone(f"Only an {AUTHORITY['command.bind.set']} of {said} may do that.")
    now, mode = mode_here(call), mode_in(call, folder)
    if MODES.index(mode) > MODES.index(now):
        return _ask(call, folder, mode, now)
    save(call, workspace=folder, session_id=None)
    return Reply(BOUND.format(folder=folder))


def _ask(call: CommandCall, folder: str, mode: ApprovalMode, now: ApprovalMode) -> Reply:
    """Ask the owners of the folder: here, and if the caller is none of them, also in their private chats."""
    tx, here, authority = call.tx, call.conversation.id, Authority(OWNERS, (call.by.id,), folder)
    able = may_say_yes(authority, call.by.id, role_of(tx, call.settings.people, call.by.id, folder))
    others = () if able else approver_chats(tx, call.settings.people, authority)
    ask = Ask(
        AskId(""),
        "approval",
        WIDER.format(folder=folder, mode=mode, now=now),
        {"workspace": folder, "mode": mode},
        expires_at=call.at + (OPEN_S if able else call.settings.ask_timeout_s),
        whose=origin(tx, authority.requesters, here) if others else "",
    )
    places = (here, *(one for one in others if one != here))
    raise_ask(tx, call.ids, ask, topic=BIND, authority=authority, places=places, at=call.at)
    return Reply(CONFIRM.format(mode=mode, now=now) + (BY_YOU if able else BY_OWNER))


def settle_bind(tx: Tx, ids: IdMaker, row: AskRow, decision: Decision, at: float) -> None:
    """Carry out the answer to a folder with a wider mode."""
    place = tx.conversations.get(row.conversation_id)
    if decision.verdict != "allow" or place is None:
        return
    folder = str(row.ask.payload["workspace"])
    if picked_mode(tx, os.path.realpath(folder)) in MODES[MODES.index(row.ask.payload["mode"]) + 1 :]:
        text = WIDER_NOW.format(folder=folder)
    else:
        tx.conversations.save(msgspec.structs.replace(place, workspace=folder, session_id=None))
        text = BOUND.format(folder=folder)
    say(tx, ids, place.id, Content(text), key=f"bind:{row.ask.id}", at=at)


def _show(call: CommandCall) -> Reply:
    now = workspace_in(call, session_of(call))
    others = {name: path for name, path in _choices(call).items() if path != now}
    if not others:
        return Reply(f"The folder is {now}. {NO_OTHERS}")
    names = list(others)
    more = f"\n… and {len(names) - LISTED} more" if len(names) > LISTED else ""
    lines = "\n".join(f"· {name}" for name in names[:LISTED])
    buttons = tuple(CommandButton(name, f"/bind {name}") for name in names[:LISTED])
    return Reply(f"The folder is {now}. Others, for /bind NAME:\n{lines}{more}", buttons=buttons)


def _choices(call: CommandCall) -> Mapping[str, str]:
    configured = set(call.settings.workspaces.values())
    if not allows(
        call.role, "command.bind.set"
    ):  # the names of other folders are none of a member's business
        return call.settings.workspaces
    found = {name: path for name, path in call.prepared.folders.listed.items() if path not in configured}
    return {
        **call.settings.workspaces,
        **{n: p for n, p in found.items() if n not in call.settings.workspaces},
    }
