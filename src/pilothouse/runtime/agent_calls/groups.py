"""Agent groups: a workspace and the place that is bound to it, registered by an agent for an admin who says yes.

Only for admins everywhere: the people for whom the turn works must be such, and one of them answers the ask. The folder is
below a configured root, and is created if it is missing; the place must not be bound to anything else. The group is a row
of the store, and granted to the workspace whose agent registered it.
"""

from __future__ import annotations

import hashlib
import os
import re
from typing import Any

import msgspec
from msgspec import Struct

from pilothouse.core.ask import Ask, AskRow, Decision
from pilothouse.core.conversation import ThreadSessions
from pilothouse.core.ids import AskId, ChannelId, IdMaker, TurnId, UserId
from pilothouse.core.message import Address, conversation_id
from pilothouse.core.people import Approvers, Authority
from pilothouse.core.store import Tx
from pilothouse.core.trigger import Mode, Trigger, describe_trigger, trigger_problem
from pilothouse.runtime.agent_calls.caller import Caller, CallRefused, check_live
from pilothouse.runtime.asks.show import raise_ask, route_ask
from pilothouse.runtime.audit import APP, record
from pilothouse.runtime.commands.folders import find_below
from pilothouse.runtime.conversations.agent_groups import (
    MOST_GROUPS,
    AgentGroup,
    find_group,
    list_groups,
    save_group,
)
from pilothouse.runtime.conversations.follow_up import RESPONSE, put_follow_up
from pilothouse.runtime.conversations.places import ensure_place, keep_trigger, place_id
from pilothouse.runtime.facts import THREADS
from pilothouse.runtime.ports import ASKS, OUTBOX, Ports
from pilothouse.runtime.roles import may

AGENT_GROUP_ASK = "agent-group"
"""The topic of the ask."""
ADMINS = Approvers(("admin",))
MOST_CHARS = 500
ASKED = "An admin is asked. Finish your turn; you are told what they decide in a system message."
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")


class TriggerRules(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The messages of the place that the agent reacts to. `pattern` is a word or a phrase, never an expression."""

    mode: Mode | None = None
    words: tuple[str, ...] = ()
    pattern: str = ""
    requires_trigger: bool = True

    def trigger(self) -> Trigger:
        words = (*self.words, *([self.pattern] if self.pattern else []))
        usual: Mode = "pattern" if words else "mention" if self.requires_trigger else "all"
        return Trigger(self.mode or usual, words=words)


class NewGroup(Struct, frozen=True):
    """The group as it was asked for; the ask holds it, so a yes covers exactly this."""

    name: str
    folder: str
    address: Address
    trigger: Trigger | None
    threads: ThreadSessions
    asker: TurnId
    granted: str


def read_trigger(said: dict[str, Any] | None) -> Trigger | None:
    """Raises `CallRefused` for rules that cannot be understood."""
    if said is None:
        return None
    try:
        trigger = msgspec.convert(said, TriggerRules).trigger()
    except msgspec.ValidationError as error:
        raise CallRefused(f"The triggerRules are not valid: {error}.") from error
    if problem := trigger_problem(trigger):
        raise CallRefused(f"The triggerRules are not valid: {problem}.")
    return trigger


async def register_group(
    ports: Ports,
    caller: Caller,
    name: str,
    folder: str,
    address: Address,
    trigger: Trigger | None,
    threads: ThreadSessions,
) -> str:
    """Ask an admin for a new group. Raises `CallRefused`."""
    settings = ports.settings()
    if not _NAME.fullmatch(name):
        raise CallRefused(
            "A name has 1 to 40 small letters, digits, - and _, and begins with a letter or digit."
        )
    if max(len(folder), len(address.place)) > MOST_CHARS:
        raise CallRefused(f"The folder and the platformId have at most {MOST_CHARS} characters each.")
    real = await find_below(settings.roots, folder)
    if not real:
        roots = ", ".join(settings.roots) or "none are configured ([gateway] roots)"
        raise CallRefused(f"The folder {folder[:80]!r} is not below a configured root. Roots: {roots}.")
    if address.channel not in settings.known_channels:
        known = ", ".join(settings.known_channels)
        raise CallRefused(f"There is no channel {address.channel[:40]!r}. Channels: {known}.")
    granted = caller.session.workspace
    new = NewGroup(name, real, address, trigger, threads, caller.turn.id, granted)
    await ports.store.write(lambda tx: _ask(tx, ports, caller, new))
    ports.signals.poke(OUTBOX, ASKS)
    return ASKED


def _ask(tx: Tx, ports: Ports, caller: Caller, new: NewGroup) -> None:
    check_live(tx, caller)
    settings, at, here = ports.settings(), ports.clock.now(), caller.conversation.id
    id = AskId(f"ask-{hashlib.sha256(caller.key.encode()).hexdigest()[:12]}")
    if tx.asks.get(id) is not None:
        return
    authors = caller.turn.prompt.authors
    if not authors or not all(may(tx, settings.people, one, "command.bind.set") for one in authors):
        raise CallRefused("Only an admin may register agent groups, and this turn does not work for one.")
    if new.name in settings.workspaces:
        raise CallRefused(f"The workspace {new.name} is configured already. Choose another name.")
    if problem := _problem(tx, new):
        raise CallRefused(problem)
    if any(row.conversation_id == here for row in tx.asks.open_about(AGENT_GROUP_ASK)):
        raise CallRefused("An agent group of this conversation waits for an answer already.")
    authority = Authority(ADMINS, authors)
    others, whose = route_ask(tx, settings.people, authority, here, tuple(ports.channels), at)
    ask = Ask(
        AskId(""),
        "approval",
        _title(new),
        {"group": msgspec.to_builtins(new)},
        expires_at=at + settings.ask_timeout_s,
        whose=whose,
    )

    def ids(prefix: str) -> str:
        return id if prefix == "ask" else ports.ids(prefix)

    raise_ask(tx, ids, ask, topic=AGENT_GROUP_ASK, authority=authority, places=(here, *others), at=at)


def _title(new: NewGroup) -> str:
    hears = describe_trigger(new.trigger) if new.trigger else "what the configured trigger says"
    sessions = "one session each" if new.threads == "own" else "the session of the place"
    return (
        f"Register the agent {new.name}? It works in {new.folder}, answers in {conversation_id(new.address)}, reacts there "
        f"to {hears}, and its threads have {sessions}. Agents of {new.granted} may ask it."
    )


def _problem(tx: Tx, new: NewGroup) -> str:
    """Return why the group cannot be registered; empty if it can."""
    if find_group(tx, new.name) is not None:
        return f"There is an agent group {new.name} already. Choose another name."
    if len(list_groups(tx)) >= MOST_GROUPS:
        return f"There are {MOST_GROUPS} agent groups, which is the most."
    place = tx.conversations.get(place_id(tx, new.address))
    if place is not None and place.workspace not in (None, new.folder):
        return f"{place.id} is bound to another folder. An admin can change that there, with /bind."
    return ""


def settle_group(tx: Tx, ids: IdMaker, row: AskRow, decision: Decision, at: float) -> None:
    """Carry out the answer, and tell the agent with a system message."""
    new = msgspec.convert(row.ask.payload["group"], NewGroup)
    by, asking = decision.by or APP, tx.turns.get(new.asker)
    problem = "nobody answered in time" if decision.by is None else "an admin said no"
    status = "refused"
    if decision.verdict == "allow" and decision.by is not None:
        problem = _problem(tx, new) or _make_folder(new)
        status = "failed" if problem else "success"
    if status == "success":
        _register(tx, new, UserId(by), at)
    record(tx, at, by, "agent_group.registered" if not problem else "agent_group.refused", name=new.name)
    if asking is not None:
        result = problem or msgspec.json.encode({"agent_group_id": new.name, "folder": new.folder}).decode()
        put_follow_up(
            tx,
            ids,
            asking,
            key=f"group:{row.ask.id}",
            heading=f"agent {new.name}: {'registered' if not problem else 'not registered'}",
            text=RESPONSE.format(action="register_agent_group", status=status, result=result),
            at=at,
        )


def _make_folder(new: NewGroup) -> str:
    """Create the folder; return why that was not possible. A link that appeared meanwhile is not followed."""
    try:
        os.makedirs(new.folder, exist_ok=True)
    except OSError as error:
        return f"the folder {new.folder} could not be created: {error.strerror}"
    return "" if os.path.realpath(new.folder) == new.folder else f"{new.folder} is a link now"


def _register(tx: Tx, new: NewGroup, by: UserId, at: float) -> None:
    place = ensure_place(tx, new.address, at)
    if place.workspace != new.folder:
        tx.conversations.save(msgspec.structs.replace(place, workspace=new.folder, session_id=None))
    if new.trigger is not None:
        keep_trigger(tx, place.id, new.trigger)
    tx.set_fact(THREADS.of(place.id), new.threads)
    save_group(tx, AgentGroup(new.name, new.folder, place.id, by, at, (os.path.realpath(new.granted),)))


def read_address(channel: str, place: str) -> Address:
    """Raises `CallRefused` for an empty one."""
    if not channel.strip() or not place.strip():
        raise CallRefused("The channelType and the platformId must not be empty.")
    return Address(ChannelId(channel.strip()), place.strip())
