"""`/mode`: the approval mode of the conversation's folder. Only owners change it.

A narrower mode holds at once. A wider one is asked for first, as every widening of a permission is. The mode is a row of
the store; one that the configuration file or the chat's own flag sets is stronger, and cannot be changed from a chat.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from pilothouse.core.ask import Ask, AskRow, Decision
from pilothouse.core.ids import AskId, ConversationId, IdMaker
from pilothouse.core.message import CommandButton, Content
from pilothouse.core.people import OWNERS, Authority
from pilothouse.core.policy import MODES, ApprovalMode, narrower
from pilothouse.core.store import Tx
from pilothouse.runtime.asks.show import raise_ask
from pilothouse.runtime.commands.call import (
    QUOTES,
    CommandCall,
    NotDone,
    Reply,
    refusal,
    session_of,
    workspace_in,
)
from pilothouse.runtime.conversations.binding import pick_mode, picked_mode, wishes_of
from pilothouse.runtime.outbox import say

MODE = "mode"
OPEN_S = 600.0
CHANGES = "/mode NAME changes it."
FIXED = "the configuration sets the mode {mode} for {folder}. On the machine, `pilothouse config show` says where."
WHY_NARROW = "It is a home folder, or its own .pilothouse.toml says so."
MEANS: Mapping[ApprovalMode, str] = {
    "minimal": "only reads without asking",
    "trusted": "reads and changes files here without asking",
    "full-access": "does everything without asking, except what a rule denies or asks about",
}
ASKS: Mapping[ApprovalMode, str] = {
    "minimal": "",
    "trusted": "Let agents change files in {folder} without asking?",
    "full-access": "Let agents do everything in {folder} without asking, except what a rule denies or asks about?",
}


def mode_here(call: CommandCall) -> ApprovalMode:
    """Return the approval mode of the next turn in this conversation."""
    return mode_in(call, workspace_in(call, session_of(call)))


def mode_in(call: CommandCall, folder: str) -> ApprovalMode:
    """Return the approval mode that this conversation has, or would have, in a folder."""
    chosen = _fixed(call, folder)[0] or picked_mode(call.tx, os.path.realpath(folder)) or MODES[0]
    return narrower(chosen, call.settings.widest_in(folder))


def set_mode(call: CommandCall) -> Reply:
    said, folder, now = call.args.strip(QUOTES).lower(), workspace_in(call, session_of(call)), mode_here(call)
    if not said:
        return _list(call, folder, now)
    if refused := refusal(call, "command.mode.set"):
        return refused
    mode = next((mode for mode in MODES if mode == said), None)
    if mode is None:
        return NotDone(f"There is no approval mode {said!r}. There are: {', '.join(MODES)}.")
    fixed, why = _fixed(call, folder)
    if fixed is not None:
        return NotDone(f"Nothing was changed: {why.format(mode=fixed, folder=folder)}")
    if mode != narrower(mode, widest := call.settings.widest_in(folder)):
        return NotDone(f"Nothing was changed: {folder} accepts no wider mode than {widest}. {WHY_NARROW}")
    if MODES.index(mode) <= MODES.index(now):
        pick_mode(call.tx, folder, mode, call.at, call.by.id)
        return Reply(changed(mode, folder))
    ask = Ask(
        AskId(""),
        "approval",
        ASKS[mode].format(folder=folder),
        {"mode": mode, "workspace": folder},
        expires_at=call.at + OPEN_S,
    )
    authority = Authority(OWNERS, workspace=folder)
    raise_ask(
        call.tx, call.ids, ask, topic=MODE, authority=authority, places=(call.conversation.id,), at=call.at
    )
    return Reply(
        f"That allows more than now ({now}). Please answer the question; until then nothing changes."
    )


def settle_mode(tx: Tx, ids: IdMaker, row: AskRow, decision: Decision, at: float) -> None:
    """Carry out the answer to a wider mode."""
    if decision.verdict != "allow":
        return
    folder = str(row.ask.payload["workspace"])
    mode = next(mode for mode in MODES if mode == row.ask.payload["mode"])
    pick_mode(tx, folder, mode, at, decision.by or "")
    place = ConversationId(row.conversation_id)
    say(tx, ids, place, Content(changed(mode, folder)), key=f"mode:{row.ask.id}", at=at)


def changed(mode: ApprovalMode, folder: str) -> str:
    return f"From the next message on, the approval mode in {folder} is {mode}. The agent {MEANS[mode]}."


def _list(call: CommandCall, folder: str, now: ApprovalMode) -> Reply:
    lines = [f"{'→' if mode == now else '·'} {mode}: {MEANS[mode]}" for mode in MODES]
    fixed, why = _fixed(call, folder)
    how = f"It cannot be changed here: {why.format(mode=fixed, folder=folder)}" if fixed else CHANGES
    buttons = () if fixed else tuple(CommandButton(mode, f"/mode {mode}") for mode in MODES if mode != now)
    return Reply("\n".join([f"What the agent may do in {folder}:", *lines, how]), buttons=buttons)


def _fixed(call: CommandCall, folder: str) -> tuple[ApprovalMode | None, str]:
    """Return a mode that no chat can change, and why."""
    if flag := wishes_of(call.tx, call.conversation.id).approval_mode:
        return flag, "this chat was opened with the mode {mode}, which holds until it is closed."
    if configured := call.settings.mode_in(folder):
        return configured, FIXED
    return None, ""
