"""`model.list` and `model.set`, and the engine and model that a session or the next new one uses."""

from __future__ import annotations

from typing import Any

from pilothouse.channels.request_errors import INVALID_PARAMS, RequestError
from pilothouse.channels.rpc.connection import Connection
from pilothouse.channels.rpc.params import (
    ModelDetails,
    ModelListParams,
    ModelListResult,
    ModelSetParams,
    ModelSetResult,
)
from pilothouse.channels.rpc.protocol import INTERNAL
from pilothouse.channels.stdio_server import Respond
from pilothouse.core.engine import Model
from pilothouse.core.errors import PilothouseError
from pilothouse.core.message import Address, conversation_id


async def engine_of(client: Connection, address: Address | None = None) -> str:
    """Return the engine of a session; without one, that of the next new session."""
    flag = client.setup.defaults.engine if address is None or address.thread is None else ""
    return flag or await _query(client, "engine", address or folder_address(client))


async def list_models(client: Connection, params: ModelListParams, respond: Respond) -> None:
    address = await find_place(client, params.session_id)
    try:
        engine = await engine_of(client, address)
        current = await _model_of(client, address)
        models: list[str] = await _query(client, "models", address, engine=engine)
        facts: dict[str, Model] = await _query(client, "model_facts", address, engine=engine)
    except PilothouseError as error:
        raise RequestError(INTERNAL, f"The models cannot be listed: {error}") from error
    if params.provider and params.provider != engine:
        if params.provider not in client.setup.providers.get(engine, ()):
            text = f"This session uses {engine}. Choose {params.provider} with model.set first."
            raise RequestError(INVALID_PARAMS, text)
        models = [name for name in models if name in facts and facts[name].provider == params.provider]
    details = {name: _details(facts[name]) for name in models if name in facts}
    newest_first = sorted(
        models, key=lambda name: facts[name].release_date if name in facts else "", reverse=True
    )
    await respond(
        ModelListResult(
            params.provider or engine,
            tuple(newest_first),
            current,
            details if params.include_details else None,
        )
    )


def _details(model: Model) -> ModelDetails:
    return ModelDetails(
        model.release_date,
        model.context_window,
        model.max_output_tokens,
        model.input_usd,
        model.output_usd,
    )


async def set_model(client: Connection, params: ModelSetParams, respond: Respond) -> None:
    """Choose engine and model by the same commands that people type. A choice ends the flags of the command line."""
    if params.scope == "session" and params.session_id is None:
        raise RequestError(INVALID_PARAMS, "The parameters are wrong: scope `session` needs a `session_id`.")
    if not (params.name or params.provider or params.reset):
        raise RequestError(
            INVALID_PARAMS, "The parameters are wrong: give a `name`, a `provider` or `reset`."
        )
    address = await find_place(client, params.session_id if params.scope == "session" else None)
    provider, name = params.provider, params.name
    if provider in client.setup.providers.get(await engine_of(client, address), ()):
        if not name:
            raise RequestError(INVALID_PARAMS, f"Give the `name` of a model of {provider} too.")
        provider, name = "", f"{provider}/{name.removeprefix(f'{provider}/')}"
    if name and not provider and await engine_of(client, address) != await _stored_engine(client, address):
        provider = await engine_of(client, address)  # the model is one of the flag's engine
    lines = [f"/engine {provider}"] if provider else []
    lines += ["/model default"] if params.reset else []
    lines += [f"/model {name}"] if name else []
    told = [await _command(client, address, line) for line in lines]
    if provider and await _stored_engine(client, address) != provider:
        raise RequestError(INVALID_PARAMS, told[0] or f"There is no engine {provider!r} here.")
    if address.thread is None:
        client.setup.defaults.model = ""
        if provider or name:
            client.setup.defaults.engine = ""
    engine, model = await engine_of(client, address), await _model_of(client, address)
    await respond(ModelSetResult(engine, model, "\n".join(filter(None, told))))


async def _stored_engine(client: Connection, address: Address) -> str:
    return await _query(client, "engine", address)


async def _model_of(client: Connection, address: Address) -> str:
    """Return the chosen model of a session, or of the next new one; empty is the engine's default."""
    flags = client.setup.defaults
    # A model is inherited by the same engine only.
    if address.thread is None and (flags.engine or flags.model):
        return flags.model
    return await _query(client, "model", address)


async def _query(client: Connection, what: str, address: Address, **terms: str) -> Any:
    return await client.desk.query(what, client.setup.author, conversation=conversation_id(address), **terms)


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
    address = folder_address(client)
    await client.setup.bind(address)
    return address


def folder_address(client: Connection) -> Address:
    return Address(client.address_of("").channel, str(client.setup.folder))
