"""Choices of a session that clients show: its approval mode, its engine and its model. They are changed as people do it in
any chat, by `/engine` and `/model`; the mode of a folder is the person's own choice at this machine.
"""

from __future__ import annotations

from collections.abc import Sequence

from pilothouse.channels.acp.connection import Connection, OpenSession
from pilothouse.channels.acp.updates import Command, CommandsUpdate, ModeUpdate, OptionsUpdate
from pilothouse.channels.acp.wire import ConfigOption, Mode, Modes, OptionValue
from pilothouse.channels.request_errors import INVALID_PARAMS, RequestError
from pilothouse.core.policy import MODES

MODE, ENGINE, MODEL = "mode", "engine", "model"
DEFAULT = "default"
MEANS = {
    "minimal": "Reads in this folder; asks for everything else.",
    "trusted": "Also changes files in this folder; asks for everything else.",
    "full-access": "Does everything that no rule denies.",
}
TITLES = {"minimal": "Minimal", "trusted": "Trusted", "full-access": "Full access"}


async def modes_of(client: Connection, session: OpenSession) -> Modes:
    current = await session.feed.query("mode", conversation=session.feed.conversation)
    return Modes(current, tuple(Mode(mode, TITLES[mode], MEANS[mode]) for mode in MODES))


async def options_of(client: Connection, session: OpenSession) -> tuple[ConfigOption, ...]:
    """Return the mode, the engine, and the model if the engine lists any."""
    feed = session.feed
    known = await feed.query("conversation", id=feed.conversation)
    engines = await feed.query("engines", conversation=feed.conversation)
    engine = await feed.query("engine", conversation=feed.conversation)
    mode = await modes_of(client, session)
    found = [
        ConfigOption(
            MODE,
            "Approval mode",
            "mode",
            mode.current_mode_id,
            tuple(OptionValue(one.id, one.name) for one in mode.available_modes),
        ),
        _choice(ENGINE, "Engine", "_engine", engine, engines),
    ]
    models = await feed.query("models", conversation=feed.conversation)
    if models:
        current = (known.model if known is not None else None) or DEFAULT
        found.append(_choice(MODEL, "Model", "model", current, [DEFAULT, *models]))
    return tuple(found)


def _choice(id: str, name: str, category: str, current: str, names: Sequence[str]) -> ConfigOption:
    values = tuple(OptionValue(one, one) for one in dict.fromkeys([*names, current]))
    return ConfigOption(id, name, category, current, values)


async def set_mode(client: Connection, session: OpenSession, mode: str) -> None:
    """Choose the approval mode of the session's folder, and tell the client. Raises `RequestError`."""
    if mode not in MODES:
        raise RequestError(INVALID_PARAMS, f"There is no mode {mode!r}. There are: {', '.join(MODES)}.")
    if problem := await client.setup.pick_mode(session.folder, mode):
        raise RequestError(INVALID_PARAMS, problem)


async def set_option(client: Connection, session: OpenSession, id: str, value: str | bool) -> None:
    """Choose a value. Raises `RequestError` with the reason why it cannot be chosen."""
    if id == MODE and isinstance(value, str):
        await set_mode(client, session, value)
        await client.update(session.feed, ModeUpdate(value))
        return
    if id not in (ENGINE, MODEL) or not isinstance(value, str) or not value:
        raise RequestError(INVALID_PARAMS, f"There is no option {id!r} with the value {value!r}.")
    await _command(client, session, f"/{id} {value}")
    options = {option.id: option.current_value for option in await options_of(client, session)}
    if options.get(id, value) != value:
        raise RequestError(INVALID_PARAMS, f"{value!r} is not a choice for {id}.")


async def _command(client: Connection, session: OpenSession, line: str) -> None:
    setup, id = client.setup, client.setup.new_id()
    client.quiet.add(id)
    receipt = await client.desk.command(
        session.feed.address, setup.author, line, id, sent_at=client.host.clock.now()
    )
    if receipt.state == "refused":
        raise RequestError(INVALID_PARAMS, receipt.text or f"{line} was refused.")


async def tell_options(client: Connection, session: OpenSession) -> None:
    await client.update(session.feed, OptionsUpdate(await options_of(client, session)))


async def tell_commands(client: Connection, session: OpenSession) -> None:
    """Tell which commands a prompt may begin with."""
    found = [
        Command(one.name, one.summary, {"hint": hint} if (hint := _hint(one.usage)) else None)
        for one in client.host.commands
        if "private" in one.menus
    ]
    await client.update(session.feed, CommandsUpdate(tuple(found)))


def _hint(usage: str) -> str:
    return usage.partition(" ")[2].strip()
