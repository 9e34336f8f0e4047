"""Hosts that a jailed program wants to reach and nobody has allowed: an ask in the conversation whose turn runs there.

The ask names the host, and the open tool call if there is exactly one. "Always" is kept for the workspace; shorter answers are
kept by the jail. Where a rule denies the host, no turn runs, or several people's turns do, nobody can be asked, and the answer is no.
"""

from __future__ import annotations

import hashlib
import os
from typing import Literal

from msgspec import Struct

from pilothouse.core.ask import Ask, AskRow, Decision, Option
from pilothouse.core.call import Call, host_of
from pilothouse.core.event import ToolCall, ToolFinished, ToolStarted
from pilothouse.core.ids import AskId, IdMaker
from pilothouse.core.people import DESTRUCTIVE, Authority
from pilothouse.core.policy import Site
from pilothouse.core.store import Tx
from pilothouse.core.text import first_line
from pilothouse.core.turn import Turn
from pilothouse.runtime.agent_calls.questions import wait_settled
from pilothouse.runtime.asks.show import raise_ask, route_ask
from pilothouse.runtime.facts import ALLOWED_HOSTS, load_fact, save_fact
from pilothouse.runtime.ports import ASKS, OUTBOX, Ports

HOST_ASK = "host"
"""The topic of these asks."""
EXPIRES_S = 600.0
CALL_CHARS = 200
TITLE = "Let {engine} connect to {host}? It runs in a jail in {workspace}, and the host is not allowed there.{call}"
OPEN_CALL = "\nIts open call: {title}"

HostAnswer = Literal["once", "session", "always", "no"]
_OPTIONS = (
    Option("once", "Once (5 minutes)"),
    Option("session", "While this process runs"),
    Option("always", "Always in this folder"),
    Option("no", "No"),
)


class AllowedHosts(Struct, frozen=True):
    hosts: tuple[str, ...] = ()


async def ask_host(ports: Ports, workspace: str, host: str) -> HostAnswer:
    """Return what people allowed, or ask them and wait. A host that a rule denies is refused without an ask."""
    wanted = Ask(AskId(""), "approval", host, call=Call("web", cwd=workspace, host=host_of(host)))
    if (await ports.policy.judge(wanted, Site(workspace))).outcome == "deny":
        return "no"
    if host in await ports.store.read(lambda tx: _kept(tx, workspace)):
        return "always"
    id = AskId(f"ask-{hashlib.sha256(ports.ids('host').encode()).hexdigest()[:12]}")
    if not await ports.store.write(lambda tx: _raise(tx, ports, id, workspace, host)):
        return "no"
    ports.signals.poke(OUTBOX, ASKS)
    row = await wait_settled(ports, id, EXPIRES_S)
    return _answer_of(row.decision) if row.state == "answered" else "no"


def _answer_of(decision: Decision | None) -> HostAnswer:
    for answer in ("once", "session", "always"):
        if decision is not None and decision.options == (answer,):
            return answer
    return "no"


def _kept(tx: Tx, workspace: str) -> tuple[str, ...]:
    found = load_fact(tx, ALLOWED_HOSTS.of(os.path.realpath(workspace)), AllowedHosts)
    return found.hosts if found else ()


def _raise(tx: Tx, ports: Ports, id: AskId, workspace: str, host: str) -> bool:
    """Store the ask; False if there is no one conversation in the folder that it belongs to."""
    place = os.path.realpath(workspace)
    turns = [turn for turn in tx.turns.of(statuses=("running", "waiting")) if _folder(tx, turn) == place]
    if len({turn.conversation_id for turn in turns}) != 1:
        return False
    turn, settings, at = turns[0], ports.settings(), ports.clock.now()
    engine = settings.engine_titles.get(turn.engine) or turn.engine.capitalize()
    authority = Authority(settings.approvals.get("destructive", DESTRUCTIVE), turn.prompt.authors, place)
    here = turn.conversation_id
    others, whose = route_ask(tx, settings.people, authority, here, tuple(ports.channels), at)
    call = _open_call(tx, turn) if len(turns) == 1 else None
    named = OPEN_CALL.format(title=first_line(call.title)[:CALL_CHARS]) if call else ""
    ask = Ask(
        AskId(""),
        "question",
        TITLE.format(engine=engine, host=host, workspace=place, call=named),
        {"host": host, "workspace": place},
        options=_OPTIONS,
        expires_at=at + EXPIRES_S,
        whose=whose,
    )

    def ids(prefix: str) -> str:
        return id if prefix == "ask" else ports.ids(prefix)

    raise_ask(tx, ids, ask, topic=HOST_ASK, authority=authority, places=(here, *others), at=at)
    return True


def _folder(tx: Tx, turn: Turn) -> str:
    session = tx.sessions.get(turn.session_id)
    return os.path.realpath(session.workspace) if session else ""


def _open_call(tx: Tx, turn: Turn) -> ToolCall | None:
    """Return the turn's open tool call, if there is exactly one."""
    calls: dict[str, ToolCall] = {}
    for row in tx.events.of_turn(turn.id):
        if isinstance(row.event, ToolStarted):
            calls[row.event.call.id] = row.event.call
        elif isinstance(row.event, ToolFinished):
            calls.pop(row.event.call_id, None)
    return next(iter(calls.values())) if len(calls) == 1 else None


def settle_host(tx: Tx, ids: IdMaker, row: AskRow, decision: Decision, at: float) -> None:
    """Keep an "always" for the workspace. The jail that waits reads every other answer itself."""
    if _answer_of(decision) != "always":
        return
    place, host = str(row.ask.payload["workspace"]), str(row.ask.payload["host"])
    save_fact(tx, ALLOWED_HOSTS.of(place), AllowedHosts((*_kept(tx, place), host)))
