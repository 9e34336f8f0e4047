"""`session.list` and `session.history`, and `auth.logout`, which removes the keys and the login that people gave an engine in a chat."""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime

from pilothouse.channels.request_errors import INVALID_PARAMS, RequestError
from pilothouse.channels.rpc.connection import Connection, Feed
from pilothouse.channels.rpc.events import AgentEvent, HiddenUserMessage
from pilothouse.channels.rpc.model_requests import engine_of
from pilothouse.channels.rpc.notifications import AgentEventParams, UiConfirmParams, UiConfirmResult
from pilothouse.channels.rpc.params import (
    AuthLogoutParams,
    AuthLogoutResult,
    RunState,
    SessionHistoryParams,
    SessionHistoryResult,
    SessionListParams,
    SessionListResult,
    SessionRow,
)
from pilothouse.channels.rpc.protocol import BUSY, INTERNAL, SESSION_LIST_FAILED, unsupported
from pilothouse.channels.rpc.translate import RunTranslator
from pilothouse.channels.session_feed import Run
from pilothouse.channels.stdio_server import ReplyFailed, Respond
from pilothouse.core.channel import LoggedEvent
from pilothouse.core.errors import PilothouseError

NOTHING = "No key and no login was kept."
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


async def log_out(client: Connection, params: AuthLogoutParams, respond: Respond) -> None:
    """Ask the person, then remove the kept keys and logins. The reply says which key is still used."""
    engine = await engine_of(client)
    if engine not in client.setup.log_outs:
        reason = f"The program of the engine {engine} keeps its login itself. Log out with that program."
        raise unsupported("auth.logout", reason)
    if client.runs.active:
        raise RequestError(BUSY, "A run has not ended. Wait for it, or cancel it.")
    if not await _is_confirmed(client, engine):
        await respond(AuthLogoutResult(ok=False, auth_cleared=False, session_cleared=False, cancelled=True))
        return
    try:
        removed, left = await client.setup.log_outs[engine]()
    except OSError as error:
        raise RequestError(INTERNAL, f"The file of keys cannot be written: {error.strerror}.") from error
    message = f"Removed {' and '.join(removed)}." if removed else NOTHING
    if left:
        message += f" The key of the configuration or the environment is still used, for {left}."
    await respond(
        AuthLogoutResult(
            ok=True, auth_cleared=bool(removed), session_cleared=params.clear_session, message=message
        )
    )


async def _is_confirmed(client: Connection, engine: str) -> bool:
    if client.able is None or not client.able.supports_confirm:
        raise RequestError(INTERNAL, "auth.logout needs a confirm: initialize with supports_confirm.")
    asked = UiConfirmParams(
        f"Log out of {engine}?",
        "This removes the API keys and the login that were given here. The next run asks for them again.",
        confirm_label="Log out",
        cancel_label="Cancel",
        danger_level="danger",
    )
    try:
        return (await client.dialogs.ask("ui.confirm.request", asked, UiConfirmResult)).ok
    except ReplyFailed:
        return False
