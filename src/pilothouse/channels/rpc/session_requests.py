"""`session.list` and `session.history`."""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime

from pilothouse.channels.request_errors import INVALID_PARAMS, RequestError
from pilothouse.channels.rpc.connection import Connection, Feed
from pilothouse.channels.rpc.events import AgentEvent, HiddenUserMessage
from pilothouse.channels.rpc.notifications import AgentEventParams
from pilothouse.channels.rpc.params import (
    RunState,
    SessionHistoryParams,
    SessionHistoryResult,
    SessionListParams,
    SessionListResult,
    SessionRow,
)
from pilothouse.channels.rpc.protocol import SESSION_LIST_FAILED
from pilothouse.channels.rpc.translate import RunTranslator
from pilothouse.channels.session_feed import Run
from pilothouse.channels.stdio_server import Respond
from pilothouse.core.channel import LoggedEvent
from pilothouse.core.errors import PilothouseError

MAX_RUNS = 1000
MAX_EVENTS = 100_000

Past = list[tuple[Run[RunTranslator], tuple[LoggedEvent, ...]]]


async def list_sessions(client: Connection, params: SessionListParams, respond: Respond) -> None:
    root = params.workspace_root or str(client.setup.folder)
    try:
        places = await client.desk.query("places", client.setup.author)
    except PilothouseError as error:
        raise RequestError(SESSION_LIST_FAILED, f"The sessions cannot be read: {error}") from error
    found = [place for place in places if params.scope == "all" or place.workspace == root]
    rows = [
        SessionRow(
            client.name_of(place.conversation.address),
            datetime.fromtimestamp(place.used_at, UTC).isoformat(),
            place.run_id,
            place.turns,
            place.last_said,
            place.workspace,
            place.conversation.address.channel,
        )
        for place in (found if params.limit <= 0 else found[: params.limit])
    ]
    await respond(SessionListResult(tuple(rows), str(client.setup.folder)))


async def send_history(client: Connection, params: SessionHistoryParams, respond: Respond) -> None:
    """Replay the newest runs, at most the last `max_events` events of them; then follow the session live."""
    if not (0 <= params.max_runs <= MAX_RUNS and 0 <= params.max_events <= MAX_EVENTS):
        limits = f"max_runs is at most {MAX_RUNS}, max_events at most {MAX_EVENTS}; neither is negative"
        raise RequestError(INVALID_PARAMS, f"The parameters are wrong: {limits}.")
    feed = await client.open(await client.find(params.session_id))

    async def show(past: Past, omitted: int) -> None:
        await _replay(client, feed, params, past, omitted, respond)

    await feed.replay(params.max_runs, show)


async def _replay(
    client: Connection, feed: Feed, params: SessionHistoryParams, past: Past, omitted: int, respond: Respond
) -> None:
    kept: deque[tuple[str, int, AgentEvent]] = deque(maxlen=params.max_events)
    total = 0
    for run, rows in past:
        events: list[tuple[str, int, AgentEvent]] = [(run.id, -1, HiddenUserMessage(run.said))]
        events += [(run.id, one.seq, one.event) for row in rows for one in run.state.feed(row)]
        total += len(events)
        kept.extend(events)
    told = (AgentEventParams(run_id, feed.session_id, seq, event) for run_id, seq, event in kept)
    await client.writer.notify_all("agent.event", told)
    states = [RunState(run.id, run.state.status, run.state.message) for run, _ in past]
    known = {state.run_id for state in states}
    queued = [row for row in await feed.query("queue", conversation=feed.conversation) if row.id not in known]
    states += [RunState(row.id, "running") for row in queued]
    cut = bool(omitted) or total > len(kept)
    await respond(SessionHistoryResult(len(past), len(kept), cut, tuple(states)))
    for row in queued:
        client.runs.adopt(feed, row)
    for run, _ in past:
        if not run.state.ended:
            client.runs.active[run.id] = feed
            client.runs.waiting.pop(run.id, None)
            await client.status(feed, run.id, run.state.status)
