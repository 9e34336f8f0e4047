"""Exchanges: an agent asks the agent of another workspace, and the answer comes back to the session that asked.

The other agent works in a conversation of its own: below the one that asked, with the same address, bound to its folder.
So people see both where the work began, and answer asks of both there; and it has a session of its own, which goes on from
one request to the next. A request is an inbox row. The transaction that ends its turn puts the answer, with the files that the
turn made, into the inbox of the asking conversation, as a follow-up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pilothouse.core.conversation import Conversation
from pilothouse.core.ids import ConversationId, EngineId, IdMaker, MessageId, ScheduleId, SessionId, UserId
from pilothouse.core.message import Attachment, Author, Chain, InboundMessage
from pilothouse.core.schedule import split_task_place, task_place
from pilothouse.core.store import Tx
from pilothouse.core.turn import Turn
from pilothouse.runtime.audit import record
from pilothouse.runtime.conversations.binding import Wishes, keep_wishes
from pilothouse.runtime.conversations.follow_up import RESPONSE, count, put_follow_up

AGENTS = "agent-"
"""The beginning of the last part of the id of an exchange's conversation."""
MOST_CHARS = 50_000
CUT = "\n\n[The answer has {count:,} characters; this is its beginning. Ask for the rest, or for a file.]"

Status = Literal["success", "failed", "cancelled", "refused"]


class Request(Struct, frozen=True):
    """A message of one agent to another. `chain.asker` is the turn that asks; `key` makes the request unique."""

    key: str
    chain: Chain
    asker: str
    """The name of the agent that asks."""
    folder: str
    text: str
    files: tuple[Attachment, ...] = ()
    session_id: SessionId | None = None
    engine: EngineId | None = None
    model: str | None = None


def exchange_place(asking: ConversationId, folder: str) -> ConversationId:
    """Return the conversation in which the agent of a folder answers those of another conversation."""
    digest = hashlib.sha256(f"{asking}\n{folder}".encode()).hexdigest()[:12]
    return task_place(split_task_place(asking)[0], ScheduleId(f"{AGENTS}{digest}"))


def put_request(tx: Tx, ids: IdMaker, request: Request, by: str, at: float) -> None:
    """Queue a request, once, and record who asks whom."""
    asking = tx.turns.get(request.chain.asker) if request.chain.asker else None
    origin = tx.conversations.get(asking.conversation_id) if asking else None
    if asking is None or origin is None or tx.inbox.by_key(request.key) is not None:
        return
    place = _place(tx, origin, request, at)
    message = InboundMessage(
        place.address,
        Author(UserId("pilothouse:agent"), request.asker),
        request.key,
        request.text,
        kind="agent",
        attachments=request.files,
        private=place.private,
        sent_at=at,
        session_id=request.session_id,
        alone=True,
        chain=request.chain,
    )
    tx.inbox.put(
        id=MessageId(ids("msg")),
        key=request.key,
        conversation_id=place.id,
        kind="agent",
        body=msgspec.json.encode(message),
        at=at,
    )
    count(tx, request.chain, at)
    record(
        tx,
        at,
        by,
        "agent.asked",
        asker=request.asker,
        agent=request.chain.agent,
        turn=asking.id,
        root=request.chain.root,
        hops=request.chain.hops,
        conversation=place.id,
        files=len(request.files) or None,
    )


def _place(tx: Tx, origin: Conversation, request: Request, at: float) -> Conversation:
    """Return the conversation of the exchange, with the current address of the one that asks."""
    id = exchange_place(origin.id, request.folder)
    keep_wishes(tx, id, Wishes(engine=request.engine, model=request.model))
    known = tx.conversations.ensure(Conversation(id, origin.address, at))
    place = replace(
        known, address=origin.address, private=origin.private, workspace=request.folder, busy="queue"
    )
    if place != known:
        tx.conversations.save(place)
    return place


def answer_asker(tx: Tx, ids: IdMaker, turn: Turn, text: str, files: Sequence[Attachment], at: float) -> None:
    """Send the result of a turn that has ended to the agent that asked for it, if one did.

    It starts no turn if a person stopped this one, or the one that asked."""
    chain = turn.prompt.chain
    asking = tx.turns.get(chain.asker) if chain is not None and chain.asker else None
    if asking is None:
        return
    status: Status = (
        "success" if turn.status == "done" else "cancelled" if turn.status == "cancelled" else "failed"
    )
    agent = chain.agent if chain else ""
    shown = text if len(text) <= MOST_CHARS else text[:MOST_CHARS] + CUT.format(count=len(text))
    result = f"The agent {agent} (sessionId {turn.session_id}) says:\n{shown}"
    put_follow_up(
        tx,
        ids,
        asking,
        key=f"answer:{turn.id}",
        heading=f"{agent} answered" if status == "success" else f"{agent} did not answer",
        text=RESPONSE.format(action="send_to_agent", status=status, result=result),
        files=files,
        at=at,
        starts="cancelled" not in (turn.status, asking.status),
    )
    record(
        tx,
        at,
        f"engine:{turn.engine}",
        "agent.answered",
        turn=turn.id,
        asker=asking.id,
        status=status,
        conversation=turn.conversation_id,
    )


def unended_exchanges(tx: Tx, place: ConversationId) -> list[Turn]:
    """Return the turns of agents that were asked in a conversation, or by an agent that was asked there, that have not ended."""
    turns = tx.turns.of(statuses=("running", "waiting", "queued", "parked"))
    return [turn for turn in turns if _belongs(turn.conversation_id, place)]


def _belongs(id: ConversationId, place: ConversationId) -> bool:
    origin, last = split_task_place(id)
    return origin == place and last is not None and last.startswith(AGENTS)
