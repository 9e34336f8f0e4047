"""`/lanes`: worktrees in which an agent works beside this conversation. List them, create one, close some.

Where the chat has threads, a new lane is a thread that is bound to its worktree, and its first message is a row there. Else
it is a chat in tmux on the machine of the gateway. The worktree is made before the transaction, because that takes a while.
"""

from __future__ import annotations

import msgspec

from pilothouse.core.channel import CanOpenThread
from pilothouse.core.errors import NoThreads
from pilothouse.core.ids import ConversationId, IdMaker
from pilothouse.core.lane import Lane, LaneError, NewLane
from pilothouse.core.message import (
    Address,
    CommandButton,
    Content,
    InboundMessage,
    clean_text,
    conversation_id,
)
from pilothouse.core.store import Tx
from pilothouse.core.text import first_line
from pilothouse.runtime.commands.call import CommandCall, LanesAnswer, NotDone, Reply, refusal
from pilothouse.runtime.commands.files import NAME_CHARS, open_thread
from pilothouse.runtime.conversations.binding import workspace_of
from pilothouse.runtime.conversations.pieces import keep_message
from pilothouse.runtime.conversations.places import ensure_place, place_id
from pilothouse.runtime.outbox import say
from pilothouse.runtime.ports import Ports

USAGE = "/lanes lists the lanes, /lanes status ID shows one, /lanes create TASK starts one, /lanes close ID ends one; with the word force also if it runs or has changes that are not committed. /lanes gc closes all that ended more than a day ago and have no such changes."
NONE = "No lanes. /lanes create TASK starts one: an agent that works on a branch of its own, beside this conversation."
NO_FOLDER = "No folder is chosen for this conversation. /bind FOLDER chooses one."
OPENED = (
    "This is lane {id}: {task}\nIt works in {worktree}, on the branch {branch}. /lanes close {id} ends it."
)
IN_THREAD = "Lane {id} works in a thread of its own: {task}\nbranch: {branch}\nworktree: {enter}\n/lanes close {id} ends it."
IN_TMUX = "Lane {id} works on {machine}: {task}\nbranch: {branch}\nlook at it: {attach}\nworktree: {enter}\n/lanes close {id} ends it."
NEITHER = "The topic was not opened: {why}\nA chat in tmux was not started either: {error}"
CLOSED = "Lane {id} is closed. Its commits are on the branch {branch}."
LEFT = f"{CLOSED} This thread works in the folder of its parent again."
NOTHING = "No lane ended more than a day ago without changes that are not committed."
IDLE_S = 24 * 3600.0
TASK_CHARS = 60


def deed_of(args: str) -> str:
    """Return the right that the command needs."""
    word = args.strip().partition(" ")[0].lower()
    return "command.lanes" if word in ("", "status") else "command.lanes.change"


async def ask_lanes(ports: Ports, address: Address, args: str) -> LanesAnswer | str:
    word, _, rest = args.strip().partition(" ")
    try:
        match word.lower(), rest.split():
            case "", _:
                return LanesAnswer(await ports.lanes.all())
            case "status", [id]:
                return LanesAnswer([await ports.lanes.status(id)])
            case "gc", []:
                return LanesAnswer(closed=await ports.lanes.collect(IDLE_S))
            case "create" | "new", [_, *_]:
                return await _create(ports, address, rest.strip())
            case "close", [id]:
                return LanesAnswer(closed=[await ports.lanes.close(id)])
            case "close", [id, force] if force.lower().strip("-") == "force":
                return LanesAnswer(closed=[await ports.lanes.close(id, force=True)])
            case _:
                return USAGE
    except LaneError as error:
        return str(error).replace("--force", f"/lanes close {rest.split()[0]} force") if rest else str(error)


async def _create(ports: Ports, address: Address, task: str) -> LanesAnswer | str:
    default = ports.settings().default_workspace
    folder = await ports.store.read(lambda tx: workspace_of(tx, place_id(tx, address), default))
    if not folder:
        return NO_FOLDER
    wish = NewLane(task=task, folder=folder, seed=task)
    if not isinstance(ports.channels.get(address.channel), CanOpenThread):
        return LanesAnswer(made=await ports.lanes.create_here(wish))
    lane = await ports.lanes.add(msgspec.structs.replace(wish, backend="chat"))
    try:
        thread = await open_thread(ports, address, first_line(task, NAME_CHARS))
    except NoThreads as error:
        await ports.lanes.drop(lane)
        return await _create_here(ports, wish, error.reason)
    if isinstance(thread, str):
        await ports.lanes.drop(lane)
        return thread
    return LanesAnswer(made=ports.lanes.join(lane, conversation_id(thread)), place=thread)


async def _create_here(ports: Ports, wish: NewLane, why: str) -> LanesAnswer | str:
    """Create a lane in tmux, because this chat of the channel has no threads."""
    try:
        return LanesAnswer(made=await ports.lanes.create_here(wish))
    except LaneError as error:
        return NEITHER.format(why=why, error=error)


def show_lanes(call: CommandCall) -> Reply:
    if refused := refusal(call, deed_of(call.args)):
        return refused
    found = call.prepared.lanes
    if isinstance(found, str):
        return NotDone(found)
    if found.closed is not None:
        told = [CLOSED.format(id=lane.id, branch=lane.branch) for lane in found.closed]
        return Reply("\n".join(told) or NOTHING)
    if found.made is not None:
        return _made(call, found.made, found.place)
    if not found.lanes:
        return Reply(NONE)
    buttons = tuple(
        CommandButton(f"Close {lane.id}", f"/lanes close {lane.id}")
        for lane in found.lanes
        if lane.state != "running"
    )
    return Reply("\n".join(_line(lane) for lane in found.lanes), buttons=buttons)


def _line(lane: Lane) -> str:
    where = lane.attach_command or "in a thread"
    line = f"{lane.id} {lane.state}: {first_line(lane.task, TASK_CHARS)} ({lane.branch}; {where})"
    return f"{line}\n{lane.error}" if lane.error else line


def _made(call: CommandCall, lane: Lane, thread: Address | None) -> Reply:
    task = first_line(lane.task, TASK_CHARS)
    if thread is None:
        words = {"machine": call.settings.machine, "attach": lane.attach_command, "enter": lane.enter_command}
        return Reply(IN_TMUX.format(id=lane.id, task=task, branch=lane.branch, **words))
    private = call.conversation.private
    place = ensure_place(call.tx, thread, call.at, private=private)
    place = msgspec.structs.replace(place, workspace=lane.worktree)
    call.tx.conversations.save(place)
    told = OPENED.format(id=lane.id, task=task, worktree=lane.worktree, branch=lane.branch)
    say(call.tx, call.ids, place.id, Content(told), key=f"lane:{lane.id}", at=call.at)
    first = InboundMessage(
        thread, call.by, f"lane:{lane.id}", clean_text(lane.task), sent_at=call.at, private=private
    )
    keep_message(call.tx, call.ids, first, place.id, call.at)
    return Reply(IN_THREAD.format(id=lane.id, task=task, branch=lane.branch, enter=lane.enter_command))


def leave_thread(tx: Tx, ids: IdMaker, lane: Lane, at: float) -> None:
    """The worktree is gone: its thread works in its parent's folder from now on, unless somebody bound it elsewhere."""
    place = tx.conversations.get(ConversationId(lane.conversation))
    if place is None:
        return
    if place.workspace == lane.worktree:
        tx.conversations.save(msgspec.structs.replace(place, workspace=None, session_id=None))
    text = LEFT.format(id=lane.id, branch=lane.branch)
    say(tx, ids, place.id, Content(text), key=f"lane-closed:{lane.id}", at=at)
