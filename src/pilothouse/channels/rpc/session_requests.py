"""`session.list`, `session.history`, `model.list` and `model.set`."""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime

from pilothouse.channels.rpc.connection import Connection, Feed
from pilothouse.channels.rpc.events import AgentEvent, HiddenUserMessage
from pilothouse.channels.rpc.notifications import AgentEventParams
from pilothouse.channels.rpc.params import (
    ModelDetails,
    ModelListParams,
    ModelListResult,
    ModelSetParams,
    ModelSetResult,
    RunState,
    SessionHistoryParams,
    SessionHistoryResult,
    SessionListParams,
    SessionListResult,
    SessionRow,
)
from pilothouse.channels.rpc.protocol import INTERNAL, SESSION_LIST_FAILED
from pilothouse.channels.rpc.translate import RunTranslator
from pilothouse.channels.session_feed import Run
from pilothouse.channels.stdio_server import INVALID_PARAMS, RequestError, Respond
from pilothouse.core.channel import LoggedEvent
from pilothouse.core.errors import PilothouseError
from pilothouse.core.message import Address, conversation_id

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
    queued = [row.id for row in await feed.query("queue", conversation=feed.conversation)]
    states += [RunState(id, "running") for id in queued if id not in known]
    cut = bool(omitted) or total > len(kept)
    await respond(SessionHistoryResult(len(past), len(kept), cut, tuple(states)))
    for run, _ in past:
        if not run.state.ended:
            client.runs.active[run.id] = feed
            client.runs.waiting.pop(run.id, None)
            await client.status(feed, run.id, run.state.status)


async def list_models(client: Connection, params: ModelListParams, respond: Respond) -> None:
    address = await find_place(client, params.session_id)
    try:
        models = await client.desk.query("models", client.setup.author, conversation=conversation_id(address))
        known = await client.desk.query("conversation", client.setup.author, id=conversation_id(address))
    except PilothouseError as error:
        raise RequestError(INTERNAL, f"The models cannot be listed: {error}") from error
    current = known.model if known is not None and known.model else ""
    provider = known.engine if known is not None and known.engine else client.setup.engine
    if params.provider and params.provider != provider:
        text = f"This session uses {provider}. Choose {params.provider} with model.set first."
        raise RequestError(INVALID_PARAMS, text)
    details = await _details(client, address, models) if params.include_details else None
    await respond(ModelListResult(provider, tuple(models), current, details))


async def _details(client: Connection, address: Address, names: list[str]) -> dict[str, ModelDetails]:
    facts = await client.desk.query("model_facts", client.setup.author, conversation=conversation_id(address))
    return {
        name: ModelDetails(
            one.release_date, one.context_window, one.max_output_tokens, one.input_usd, one.output_usd
        )
        for name in names
        if (one := facts.get(name)) is not None
    }


async def set_model(client: Connection, params: ModelSetParams, respond: Respond) -> None:
    """Choose engine and model by the same commands that people type."""
    if params.scope == "session" and params.session_id is None:
        raise RequestError(INVALID_PARAMS, "The parameters are wrong: scope `session` needs a `session_id`.")
    if not (params.name or params.provider or params.reset):
        raise RequestError(
            INVALID_PARAMS, "The parameters are wrong: give a `name`, a `provider` or `reset`."
        )
    address = await find_place(client, params.session_id if params.scope == "session" else None)
    lines = [f"/engine {params.provider}"] if params.provider else []
    lines += ["/model default"] if params.reset else []
    lines += [f"/model {params.name}"] if params.name else []
    told = [await _command(client, address, line) for line in lines]
    known = await client.desk.query("conversation", client.setup.author, id=conversation_id(address))
    if params.provider and (known is None or known.engine != params.provider):
        raise RequestError(INVALID_PARAMS, told[0] or f"There is no engine {params.provider!r} here.")
    model = (known.model if known is not None else None) or ""
    engine = (known.engine if known is not None else None) or client.setup.engine
    await respond(ModelSetResult(engine, model, "\n".join(filter(None, told))))


async def _command(client: Connection, address: Address, line: str) -> str:
    setup = client.setup
    try:
        receipt = await client.desk.command(
            address, setup.author, line, setup.new_id(), sent_at=client.host.clock.now()
        )
    except PilothouseError as error:
        raise RequestError(INTERNAL, f"{line} failed: {error}") from error
    if receipt.state == "refused":
        raise RequestError(INVALID_PARAMS, receipt.text or f"{line} was refused.")
    return receipt.text


async def find_place(client: Connection, session_id: str | None) -> Address:
    """Return a session's address; without one, the folder's own, whose choices new sessions inherit."""
    if session_id is not None:
        return await client.find(session_id)
    address = Address(client.address_of("").channel, str(client.setup.folder))
    await client.setup.bind(address)
    return address
