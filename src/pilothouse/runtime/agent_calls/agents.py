"""Messages to other agents: who may ask whom, and the ask where that was not granted.

A granted request is queued at once, and its answer comes back as a follow-up. For one that was not granted, people who
approve dangerous calls in the other workspace are asked; their yes covers this one message. Hops and messages are
limited, so that no two agents talk for ever.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from pilothouse.core.ask import Ask, AskRow, Decision
from pilothouse.core.ids import AskId, IdMaker, SessionId, TurnId
from pilothouse.core.message import Attachment, Chain, clean_text
from pilothouse.core.people import DESTRUCTIVE, Authority
from pilothouse.core.store import Tx
from pilothouse.core.text import code_block, first_line
from pilothouse.runtime.agent_calls.caller import Caller, CallRefused, check_live
from pilothouse.runtime.agent_calls.messages import read_allowed
from pilothouse.runtime.asks.show import raise_ask, route_ask
from pilothouse.runtime.audit import APP, record
from pilothouse.runtime.conversations.agent_groups import agent_name, find_agent, granted_agents
from pilothouse.runtime.conversations.exchange import Request, exchange_place, put_request
from pilothouse.runtime.conversations.follow_up import RESPONSE, chain_after, put_follow_up, too_many
from pilothouse.runtime.ports import ASKS, INBOX, OUTBOX, Ports
from pilothouse.runtime.settings import EngineChoice, Settings

AGENT_MESSAGE = "agent-message"
"""The topic of the ask about a request that was not granted."""
MOST_FILES = 10
MOST_OPEN = 3
SHOWN_CHARS = 1500
SENT = (
    "Sent to {agent}. Finish your turn, or go on with something else: its answer starts a turn of this session, as a "
    "system message."
)
ASKED = (
    "Not sent yet: {agent} is not granted to this workspace, so people are asked. Finish your turn; you are told what they "
    "decide in a system message."
)


async def send_to_agent(
    ports: Ports, caller: Caller, name: str, text: str, paths: Sequence[str], session: str
) -> str:
    """Queue a request, or ask people for it. Raises `CallRefused`."""
    settings = ports.settings()
    if not text.strip() or len(text) > settings.max_message_chars:
        raise CallRefused(f"A message to an agent has 1 to {settings.max_message_chars:,} characters.")
    if len(paths) > MOST_FILES:
        raise CallRefused(f"There are {len(paths)} files, and {MOST_FILES} is the most for one message.")
    await ports.store.read(lambda tx: _request(tx, ports, caller, name, text, (), session))
    files = [await read_allowed(ports, caller, path) for path in paths]

    def unit(tx: Tx) -> str:
        check_live(tx, caller)
        at = ports.clock.now()
        kept = tuple(tx.blobs.attach(one.data, one.name, one.media_type, at) for one in files)
        request = _request(tx, ports, caller, name, text, kept, session)
        if request.folder in granted_agents(tx, settings, caller.session.workspace).values():
            put_request(tx, ports.ids, request, f"engine:{caller.turn.engine}", at)
            return SENT.format(agent=name)
        _ask(tx, ports, caller, request, at)
        return ASKED.format(agent=name)

    told = await ports.store.write(unit)
    ports.signals.poke(INBOX, OUTBOX, ASKS)
    return told


def _request(
    tx: Tx,
    ports: Ports,
    caller: Caller,
    name: str,
    text: str,
    files: tuple[Attachment, ...],
    session: str,
) -> Request:
    """Return the request. Raises `CallRefused` for an unknown agent or session, or past a limit."""
    settings, at = ports.settings(), ports.clock.now()
    folder = find_agent(tx, settings, name)
    if folder is None:
        known = ", ".join(granted_agents(tx, settings, caller.session.workspace)) or "none"
        raise CallRefused(f"There is no agent {name[:80]!r}. Agents granted to this workspace: {known}.")
    asker = agent_name(tx, settings, caller.session.workspace)
    chain = chain_after(tx, caller.turn, f"{asker} asks {name}: {first_line(text)}")
    chain = replace(chain, hops=chain.hops + 1, asker=caller.turn.id, agent=name)
    key = f"agent:{caller.key}"
    if tx.inbox.by_key(key) is None:
        _check_limits(tx, settings, chain, at)
    chosen = settings.engines_in.get(os.path.realpath(folder), EngineChoice())
    return Request(
        key,
        chain,
        asker,
        folder,
        clean_text(text),
        files,
        _known_session(tx, caller, folder, session),
        chosen.engine,
        chosen.model,
    )


def _check_limits(tx: Tx, settings: Settings, chain: Chain, at: float) -> None:
    """Raise `CallRefused` if the chain has no further message."""
    if chain.hops > settings.agent_hops:
        raise CallRefused(
            f"This work was passed on {settings.agent_hops} times, which is the most. Finish it here, and say in your "
            "answer what is missing."
        )
    if why := too_many(tx, settings, chain, at):
        raise CallRefused(f"Not sent: {why}. Finish the work here, and say in your answer what is missing.")


def _known_session(tx: Tx, caller: Caller, folder: str, said: str) -> SessionId | None:
    """Return a session of this exchange. Raises `CallRefused` for any other: it knows what others said."""
    if not said:
        return None
    session = tx.sessions.get(SessionId(said))
    place = exchange_place(caller.conversation.id, folder)
    if session is None or session.conversation_id != place or session.workspace != folder or session.retired:
        raise CallRefused(
            f"{said[:80]!r} is not a session in which that agent answered this conversation. Leave out sessionId to go on "
            "in the last one."
        )
    return session.id


def _ask(tx: Tx, ports: Ports, caller: Caller, request: Request, at: float) -> None:
    """Ask the people who approve dangerous calls in the other workspace, once per call."""
    settings, here = ports.settings(), caller.conversation.id
    id = AskId(f"ask-{hashlib.sha256(request.key.encode()).hexdigest()[:12]}")
    if tx.asks.get(id) is not None:
        return
    if sum(row.conversation_id == here for row in tx.asks.open_about(AGENT_MESSAGE)) >= MOST_OPEN:
        raise CallRefused(
            f"{MOST_OPEN} such requests wait for a person already. Try again when they are decided."
        )
    authority = _authority(settings, caller, request.folder)
    others, whose = route_ask(tx, settings.people, authority, here, tuple(ports.channels), at)
    ask = Ask(
        AskId(""),
        "approval",
        _title(request),
        {"request": msgspec.to_builtins(request)},
        expires_at=at + settings.ask_timeout_s,
        whose=whose,
    )

    def ids(prefix: str) -> str:
        return id if prefix == "ask" else ports.ids(prefix)

    raise_ask(tx, ids, ask, topic=AGENT_MESSAGE, authority=authority, places=(here, *others), at=at)


def _authority(settings: Settings, caller: Caller, folder: str) -> Authority:
    approvers = settings.approvals.get("destructive", DESTRUCTIVE)
    return Authority(approvers, caller.turn.prompt.authors, folder)


def _title(request: Request) -> str:
    cut = len(request.text) > SHOWN_CHARS
    shown = f"{request.text[:SHOWN_CHARS]}\n…" if cut else request.text
    files = f"\nWith: {', '.join(first_line(file.name) for file in request.files)}" if request.files else ""
    return (
        f"Let the agent of {request.asker} ask that of {request.chain.agent} ({request.folder})?\n"
        f"{code_block(shown)}{files}"
    )


def settle_agent_message(tx: Tx, ids: IdMaker, row: AskRow, decision: Decision, at: float) -> None:
    """Carry out the answer: the request is queued, or the agent is told that it was refused."""
    request = msgspec.convert(row.ask.payload["request"], Request)
    if decision.verdict == "allow":
        put_request(tx, ids, request, decision.by or APP, at)
        return
    asking = tx.turns.get(request.chain.asker or TurnId(""))
    why = "nobody answered in time" if decision.by is None else "a person said no"
    record(tx, at, decision.by or APP, "agent.refused", asker=request.asker, agent=request.chain.agent)
    if asking is not None:
        put_follow_up(
            tx,
            ids,
            asking,
            key=f"refused:{request.key}",
            heading=f"{request.chain.agent} was not asked",
            text=RESPONSE.format(action="send_to_agent", status="refused", result=f"Not sent: {why}."),
            at=at,
        )
