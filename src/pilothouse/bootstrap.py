"""The composition root: configuration → objects → gateway. The only file that sees everything."""

from __future__ import annotations

import getpass
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import msgspec

from pilothouse import __version__
from pilothouse.channels.terminal.config import Interactive, OneShot
from pilothouse.config import (
    AUTO,
    Config,
    ConfigHolder,
    Loaded,
    Models,
    find_paths,
    in_workspace,
    load,
    watch,
)
from pilothouse.core.ask import Ask
from pilothouse.core.channel import Channel, ChannelHost
from pilothouse.core.engine import Brief, Engine, EngineHost, EngineSpec, EngineStatus
from pilothouse.core.errors import ConfigError, PilothouseError
from pilothouse.core.ids import ChannelId, ConversationId, EngineId, UserId
from pilothouse.core.message import Address, conversation_id
from pilothouse.core.people import People, Role
from pilothouse.core.policy import ApprovalMode, DefaultPolicy, Ruling
from pilothouse.core.store import Conversation, NodeInfo, Store, Tx
from pilothouse.logs import Log, Redactor, open_log
from pilothouse.plugins import Loaded as LoadedPlugin
from pilothouse.plugins import Plugins
from pilothouse.runtime.blobs import StoreBlobs
from pilothouse.runtime.clock import SystemClock, new_id
from pilothouse.runtime.gateway import Gateway
from pilothouse.runtime.ports import Ports
from pilothouse.runtime.settings import Settings

TERMINAL = ChannelId("terminal")
DEMO = EngineId("script")
NODE_MARKER = "PILOTHOUSE_NODE"


class House:
    """What every command that runs a gateway needs, opened in order."""

    def __init__(
        self, plugins: Plugins, holder: ConfigHolder, log: Log, redactor: Redactor, store: Store
    ) -> None:
        self.plugins = plugins
        self.holder = holder
        self.log = log
        self.redactor = redactor
        self.store = store
        self.clock = SystemClock()
        self._statuses: dict[EngineId, EngineStatus] = {}

    def status_of(self, spec: EngineSpec) -> EngineStatus:
        """Looked for once: a look may start a program."""
        if spec.id not in self._statuses:
            self._statuses[spec.id] = spec.probe(self.config.engines[spec.id].settings)
        return self._statuses[spec.id]

    @property
    def config(self) -> Config:
        return self.holder.current


@asynccontextmanager
async def open_house(*, on_terminal: bool, flags: Mapping[str, Any] | None = None) -> AsyncIterator[House]:
    plugins = Plugins()
    read = partial(_load, plugins, flags or {})
    loaded = read()
    redactor = Redactor(loaded.secrets)
    section = loaded.config.log
    spec = plugins.store(loaded.config.store.id)
    with open_log(
        loaded.log_file,
        redactor,
        level=section.level,
        max_mb=section.max_mb,
        keep=section.keep,
        terminal=sys.stderr if on_terminal else None,
    ) as log:
        for problem in loaded.warnings:
            log.warning("config.warned", text=str(problem))
            if not on_terminal:
                sys.stderr.write(f"warning: {problem}\n")
        async with spec.open(loaded.config.store.settings) as store:
            yield House(plugins, ConfigHolder(loaded, read), log, redactor, store)


def _load(plugins: Plugins, flags: Mapping[str, Any]) -> Loaded:
    models = Models(
        engines=plugins.sections("engines"),
        channels=plugins.sections("channels"),
        stores=plugins.sections("stores"),
        engine_aliases=plugins.aliases(),
    )
    return load(find_paths(os.environ), os.environ, models, flags)


def run_up(*, safe: bool = False) -> int:
    """The gateway, until somebody stops it."""
    return _run(partial(_up, safe=safe))


async def _up(*, safe: bool) -> int:
    async with open_house(on_terminal=True) as house:
        engines, channels = build_engines(house), build_channels(house)
        ports = make_ports(house, engines, channels, safe=safe)
        gateway = Gateway(ports, this_node("pilothouse up"), on_ready=partial(_say_ready, house, ports))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_stop_on_signal, gateway.stop)
            tasks.start_soon(_reload_on_change, house)
            tasks.start_soon(_adopt_orphans)
            await gateway.run()
            tasks.cancel_scope.cancel()
    return 0


def run_chat(
    *,
    text: str | None = None,
    as_json: bool = False,
    engine: str | None = None,
    model: str | None = None,
    workspace: str | None = None,
    new: bool = False,
    verbose: bool = False,
) -> int:
    """This terminal as a channel: a conversation in a folder, or one question and its answer."""
    folder = Path(workspace or os.getcwd()).expanduser().resolve()
    if not folder.is_dir():
        raise ConfigError(f"The workspace {folder} does not exist. Create the folder, or name another.")
    return _run(partial(_chat, folder, text, as_json, engine, model, new, verbose))


async def _chat(
    folder: Path,
    text: str | None,
    as_json: bool,
    engine: str | None,
    model: str | None,
    new: bool,
    verbose: bool,
) -> int:
    from pilothouse.channels.terminal.channel import TerminalChannel
    from pilothouse.channels.terminal.streams import system_streams

    async with open_house(on_terminal=False) as house:
        place = Address(TERMINAL, str(folder))
        chosen = await _bind(house, place, folder, engine, model, new=new)
        terminal = TerminalChannel(
            house.config.channels[TERMINAL].settings,
            _channel_host(house, TERMINAL),
            mode=_mode(text),
            streams=system_streams(),
            place=place.place,
            user=terminal_user().partition(":")[2],
            json=as_json,
            verbose=verbose,
            header=f"pilothouse {__version__} · {chosen} · {_tilde(folder)}",
        )
        ports = make_ports(house, build_engines(house), {TERMINAL: terminal}, workspace=str(folder))
        gateway = Gateway(ports, this_node("pilothouse chat"), primary=TERMINAL, standby=True)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_stop_on_signal, gateway.stop, (signal.SIGTERM, signal.SIGHUP))
            tasks.start_soon(_adopt_orphans)
            await gateway.run()
            tasks.cancel_scope.cancel()
        return terminal.exit_code


def _mode(text: str | None) -> Interactive | OneShot:
    """What was piped in is one message; a person at a keyboard talks."""
    if text is not None:
        return OneShot(text)
    return Interactive() if sys.stdin.isatty() else OneShot(sys.stdin.read())


async def _bind(
    house: House, place: Address, folder: Path, engine: str | None, model: str | None, *, new: bool
) -> EngineId:
    """The conversation of this folder, with what the flags and the folder's own file choose for it."""
    wishes = in_workspace(house.holder.loaded, folder)
    for problem in wishes.warnings:
        house.log.warning("config.warned", text=str(problem))
    names = engine_names(house)
    wanted = engine or wishes.engine
    if wanted != AUTO and wanted.lower() not in names:
        known = ", ".join(sorted(set(names.values())))
        raise ConfigError(f"There is no engine {wanted!r} here. There are: {known}.")
    chosen = default_engine(house) if wanted == AUTO else names[wanted.lower()]
    now = house.clock.now()

    def unit(tx: Tx) -> EngineId:
        conversation = tx.conversations.ensure(
            Conversation(conversation_id(place), place, now, private=True, workspace=str(folder))
        )
        kept = conversation.engine if engine is None and conversation.engine in names.values() else None
        changed = msgspec.structs.replace(
            conversation,
            workspace=str(folder),
            engine=kept or chosen,
            model=model or conversation.model or wishes.model,
            busy=conversation.busy or (wishes.busy if wishes.busy != "collect" else None),
            session_id=None if new else conversation.session_id,
        )
        if changed != conversation:
            tx.conversations.save(changed)
        return changed.engine or chosen

    return await house.store.write(unit)


def make_ports(
    house: House,
    engines: Mapping[EngineId, Engine],
    channels: Mapping[ChannelId, Channel],
    *,
    workspace: str | None = None,
    safe: bool = False,
) -> Ports:
    names = engine_names(house)
    chosen = default_engine(house)
    return Ports(
        store=house.store,
        clock=house.clock,
        ids=new_id,
        settings=_while_config_stands(
            house, lambda config: make_settings(config, chosen, names, workspace, safe=safe)
        ),
        engines=engines,
        channels=channels,
        brief=partial(_complete_brief, house),
        alive=is_alive,
        sweep=partial(sweep_leftovers, _marker(house), house.log),
        log=house.log,
    )


def _while_config_stands(house: House, make: Callable[[Config], Settings]) -> Callable[[], Settings]:
    """Made anew only when the configuration was read anew: verbs ask for their settings at every step."""
    config, settings = house.config, make(house.config)

    def current() -> Settings:
        nonlocal config, settings
        if house.config is not config:
            config = house.config
            settings = make(config)
        return settings

    return current


def _complete_brief(house: House, conversation_id: ConversationId, brief: Brief) -> Brief:
    """With the folder in which the owner keeps files about a workspace that the configuration names."""
    place = os.path.realpath(brief.workspace)
    named = house.config.workspaces.items()
    name = next(
        (name for name, row in named if os.path.realpath(os.path.expanduser(row.path)) == place), None
    )
    if name is None:
        return brief
    folder = house.holder.loaded.paths.config_file.parent / "workspaces" / name
    return msgspec.structs.replace(brief, settings_dir=str(folder))


def make_settings(
    config: Config,
    engine: EngineId,
    names: Mapping[str, EngineId],
    workspace: str | None,
    *,
    safe: bool = False,
) -> Settings:
    gateway = config.gateway
    roles: dict[UserId, Role] = {UserId(user): "member" for user in config.people.members}
    for user in (*config.people.owners, terminal_user()):
        roles[UserId(user)] = "owner"
    return Settings(
        default_engine=engine,
        default_workspace=workspace or gateway.default_workspace or os.getcwd(),
        engine_names=names,
        people=People(roles),
        busy=gateway.busy,
        max_turns_at_once=gateway.max_turns_at_once,
        max_attempts=gateway.max_attempts,
        max_message_chars=gateway.max_message_chars,
        grace_s=gateway.grace_s,
        hang_after_s=gateway.hang_after_s,
        ask_timeout_s=gateway.ask_timeout_s,
        question_timeout_s=gateway.question_timeout_s,
        retention_s=gateway.retention_days * 86_400.0,
        engine_commands=gateway.engine_commands,
        show_cost=gateway.show_cost,
        resume_lost=not safe,
        known_channels=(TERMINAL, *(ChannelId(id) for id, row in config.channels.items() if row.enabled)),
    )


def build_engines(house: House) -> dict[EngineId, Engine]:
    engines: dict[EngineId, Engine] = {}
    for id, row in house.config.engines.items():
        if row.enabled and not isinstance(row.settings, dict):
            spec = house.plugins.engine(id)
            engines[spec.id] = spec.build(row.settings, _engine_host(house, spec.id))
    return engines


def build_channels(house: House) -> dict[ChannelId, Channel]:
    """Every channel that is switched on; the terminal is the chat command's own."""
    channels: dict[ChannelId, Channel] = {}
    for id, row in house.config.channels.items():
        if not row.enabled or id == TERMINAL or isinstance(row.settings, dict):
            continue
        spec = house.plugins.channel(id)
        if problem := spec.problem(row.settings):
            raise ConfigError(f"The channel {id} cannot start: {problem}")
        channels[spec.id] = spec.build(row.settings, _channel_host(house, spec.id))
    return channels


def engine_names(house: House) -> dict[str, EngineId]:
    names: dict[str, EngineId] = {}
    for row in house.plugins.engines():
        if isinstance(row, LoadedPlugin) and house.config.engines[row.name].enabled:
            names |= {name.lower(): row.spec.id for name in (row.name, *row.spec.aliases)}
    return names


def default_engine(house: House) -> EngineId:
    """The configured one; with `auto` the first real engine that is available, else the demo."""
    wanted = house.config.gateway.default_engine
    if wanted != AUTO:
        return engine_names(house)[wanted.lower()]
    for row in house.plugins.engines():
        if isinstance(row, LoadedPlugin) and row.spec.id != DEMO:
            adapter = house.config.engines.get(row.name)
            if adapter is not None and adapter.enabled and house.status_of(row.spec).available:
                return row.spec.id
    return DEMO


def terminal_user() -> UserId:
    """Whoever may read our files is the operating system's business: they own this house."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = str(os.getuid())
    return UserId(f"terminal:{name}")


def this_node(name: str) -> NodeInfo:
    from pilothouse.processes.procfs import read_process

    info = read_process(os.getpid())
    return NodeInfo(name, _host(), os.getpid(), str(info.id.started) if info else "")


def is_alive(info: NodeInfo) -> bool | None:
    """None where we cannot know: another host, or a system that does not tell."""
    from pilothouse.processes.procfs import procfs_works, read_process

    if info.host != _host() or not procfs_works():
        return None
    found = read_process(info.pid)
    return found is not None and found.alive and str(found.id.started) == info.started


async def sweep_leftovers(marker: str, log: Callable[..., None]) -> None:
    """Ends what a killed gateway of this store left running."""
    from pilothouse.processes import Marker
    from pilothouse.processes import sweep_leftovers as sweep

    for left in await sweep(Marker(NODE_MARKER, marker)):
        log("process.swept", pid=left.id.pid, command=left.command, ended=left.ended)


async def _adopt_orphans() -> None:
    """Grandchildren that lose their parent become ours, and are buried."""
    from pilothouse.processes import become_subreaper, collect_orphans

    if become_subreaper():
        await collect_orphans()


def _host() -> str:
    """With the boot: after one, every pid of before means somebody else."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]
    except OSError:
        boot = ""
    return f"{socket.gethostname()} {boot}".strip()


def _engine_host(house: House, id: EngineId) -> EngineHost:
    state = _made(house.holder.loaded.paths.state_dir / "engines" / id)
    return EngineHost(
        StoreBlobs(house.store, house.clock), _environment(), str(state), _marker(house), house.log, _judge
    )


def _judge(ask: Ask, mode: ApprovalMode) -> Ruling:
    """Until there are rules: reading in the workspace needs nobody, all else asks."""
    return DefaultPolicy(mode).judge(ask)


def _environment() -> dict[str, str]:
    """What engines may choose from. Our own settings may hold secrets, and are nobody's business."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PILOTHOUSE")}


def _channel_host(house: House, id: ChannelId) -> ChannelHost:
    state = _made(house.holder.loaded.paths.state_dir / "channels" / id)
    return ChannelHost(StoreBlobs(house.store, house.clock), str(state), house.log)


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"The folder {folder} cannot be made: {error.strerror}. Make it writable."
        ) from error
    return folder


def _marker(house: House) -> str:
    return str(house.holder.loaded.paths.store_file)


def _say_ready(house: House, ports: Ports) -> None:
    names = ", ".join(ports.channels) or "no channels yet: pilothouse init adds one"
    engine, folder = default_engine(house), _tilde(Path(ports.settings().default_workspace))
    told = f"{engine} {house.status_of(house.plugins.engine(engine)).version}".strip()
    sys.stderr.write(f"pilothouse {__version__} is ready · {told} in {folder} · {names}\n")


async def _reload_on_change(house: House) -> None:
    paths = house.holder.loaded.paths

    def reload() -> None:
        result = house.holder.reload()
        house.redactor.add(*house.holder.loaded.secrets)
        house.log.level = house.config.log.level
        house.log("config.reloaded", level="warning" if result.problem else "info", text=result.text)

    await watch([paths.config_file, paths.env_file], reload)


async def _stop_on_signal(
    stop: Callable[[], None],
    signals: tuple[signal.Signals, ...] = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP),
) -> None:
    """The first one asks nicely; a second one leaves at once, as people expect of Ctrl-C."""
    with anyio.open_signal_receiver(*signals) as received:
        heard = 0
        async for _ in received:
            heard += 1
            if heard > 1:
                raise KeyboardInterrupt
            stop()


def _run(main: Callable[[], Any]) -> int:
    with _foreseen():
        return anyio.run(main)
    raise AssertionError("unreachable")


@contextmanager
def _foreseen() -> Iterator[None]:
    """A group of errors becomes the one that says most: ours, if there is one."""
    try:
        yield
    except BaseExceptionGroup as group:
        raise _main_error(group) from group


def _main_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    flat = list(_flatten(group))
    return next((error for error in flat if isinstance(error, PilothouseError)), flat[0])


def _flatten(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _flatten(error)
        else:
            yield error


def _tilde(path: Path) -> str:
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path != home and path.is_relative_to(home) else str(path)
