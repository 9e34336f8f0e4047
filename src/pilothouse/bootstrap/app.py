"""`App`: configuration, log and store of a command that runs a gateway; the adapters built from it, and live reload."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import msgspec

from pilothouse.bootstrap.agent_processes import engine_environment, make_jails
from pilothouse.bootstrap.configuration import load_checked
from pilothouse.bootstrap.lanes import LaneHost
from pilothouse.bootstrap.machine import probe, probe_settings
from pilothouse.bootstrap.mcp_servers import McpHost
from pilothouse.bootstrap.policy import make_policy
from pilothouse.config import AUTO, Config, ConfigHolder, Reloaded, watch
from pilothouse.core.ask import Ask
from pilothouse.core.channel import Channel, ChannelHost
from pilothouse.core.engine import Engine, EngineHost, EngineSpec, EngineStatus, ResumeLines
from pilothouse.core.errors import ConfigError
from pilothouse.core.ids import ChannelId, EngineId
from pilothouse.core.policy import Ruling, Site
from pilothouse.core.store import Store, Tx
from pilothouse.isolation.canaries import find_proof
from pilothouse.logs import Log, Redactor, open_log
from pilothouse.logs.redaction import looks_secret, names_secret
from pilothouse.logs.sinks import Entry
from pilothouse.plugins import Loaded as LoadedPlugin
from pilothouse.plugins import Plugins
from pilothouse.runtime.audit import Trail
from pilothouse.runtime.commands.table import menu
from pilothouse.runtime.facts import STORE_NAME
from pilothouse.runtime.ports import StoreBlobs, SystemClock, new_id
from pilothouse.runtime.trust import check_trust, stored_trusts

if TYPE_CHECKING:
    from typing_extensions import override
else:

    def override(method):
        return method


TERMINAL = ChannelId("terminal")
DEMO = EngineId("script")

ISOLATION_S = 3.0
EDITED = "The configuration was edited."


class App:
    """`marker` names the store; every process that an engine starts carries it."""

    def __init__(
        self, plugins: Plugins, holder: ConfigHolder, log: Log, redactor: Redactor, store: Store, marker: str
    ) -> None:
        self.plugins = plugins
        self.holder = holder
        self.log = log
        self.redactor = redactor
        self.outgoing = Redactor()
        self.learn_secrets()
        self.store = store
        self.marker = marker
        self.clock = SystemClock()
        self.trail = Trail()
        self.policy = make_policy(store, holder)
        self.jails = make_jails(holder, log)
        self.jails.tools_here = partial(_tools_here, plugins)
        self.jails.version_of = self.version_of
        self.lanes = LaneHost(holder.loaded.paths.data_dir, store.read, store.write)
        self.mcp = McpHost(lambda: holder.loaded, marker, log, jails=self.jails)
        self.statuses: dict[EngineId, EngineStatus] = {}
        self._probing = Lock()

    def learn_secrets(self) -> None:
        """Take the secrets of the configuration, and those that the environment names as such."""
        known = self.holder.loaded.secrets
        self.redactor.add(*known)
        named = (value for name, value in os.environ.items() if names_secret(name))
        self.outgoing.add(*filter(looks_secret, (*known, *named)))

    def learn(self, *secrets: str) -> None:
        """Take secrets that are in no configuration."""
        self.redactor.add(*secrets)
        self.outgoing.add(*filter(looks_secret, secrets))

    def status_of(self, spec: EngineSpec) -> EngineStatus:
        """Probes an engine once: a probe may start a program."""
        if spec.id not in self.statuses:
            self.statuses[spec.id] = probe_settings(spec, self.config.engines[spec.id])
        return self.statuses[spec.id]

    def probe_again(self) -> None:
        """Probes all engines anew, for a thread; `statuses` is another object once a real engine works."""
        if self._probing.acquire(blocking=False):
            try:
                fresh = {
                    spec.id: probe(spec, self.config.engines.get(spec.id)) for spec in engine_specs(self)
                }
                if any(status.available for id, status in fresh.items() if id != DEMO):
                    self.statuses = fresh
            finally:
                self._probing.release()

    def version_of(self, engine: str) -> str:
        """Return the version that an engine's program had when it was asked; empty if it was not, or did not say."""
        status = self.statuses.get(EngineId(engine))
        return status.version if status else ""

    @property
    def config(self) -> Config:
        return self.holder.current


@asynccontextmanager
async def open_app(
    *,
    on_terminal: bool,
    shown: Callable[[Entry], bool] | None = None,
    flags: Mapping[str, Any] | None = None,
) -> AsyncIterator[App]:
    """Opens them. With `on_terminal`, log entries are printed too: all, or those that `shown` accepts."""
    plugins = Plugins()
    read = partial(load_checked, plugins, flags)
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
        shown=shown,
    ) as log:
        for problem in loaded.warnings:
            log.warning("config.warned", text=str(problem))
            if not on_terminal:
                sys.stderr.write(f"warning: {problem}\n")
        async with spec.open(loaded.config.store.settings) as store:
            marker = await store.write(_store_name)
            app = App(plugins, ConfigHolder(loaded, read), log, redactor, store, marker)
            with anyio.move_on_after(ISOLATION_S):
                await _learn_isolation(app)
            async with app.mcp.run():
                yield app


async def _learn_isolation(app: App) -> None:
    """Find out which jails can be made, and which trust holds. What is not known in time is a jail, which may fail."""
    for folder, stored in await app.store.read(stored_trusts):
        check = partial(check_trust, stored, folder, app.plugins.trusted_files())
        state = await anyio.to_thread.run_sync(check, abandon_on_cancel=True)
        app.jails.note_trust(folder, state.holds, stored.jail)
    await anyio.to_thread.run_sync(_look_at_workspaces, app, abandon_on_cancel=True)


def _look_at_workspaces(app: App) -> None:
    config = app.config
    for place in (config.gateway.default_workspace or "/", *(one.path for one in config.workspaces.values())):
        app.jails.look(os.path.expanduser(place))


def _tools_here(plugins: Plugins, engine: str) -> bool:
    found = (row.spec for row in plugins.engines() if isinstance(row, LoadedPlugin))
    return any(spec.id == engine and spec.tools_here for spec in found)


def _store_name(tx: Tx) -> str:
    """Names the store once, so that two stores never mistake each other's processes for their own."""
    name = tx.get_fact(STORE_NAME)
    if name is None:
        name = new_id("store")
        tx.set_fact(STORE_NAME, name)
    return name


class LazyEngines(Mapping[EngineId, Engine]):
    """Engines that are built when they are first used. Importing them all takes longer than answering a client, and a
    node beside a running gateway never uses them."""

    def __init__(self, builders: Mapping[EngineId, Callable[[], Engine]]) -> None:
        self._builders = builders
        self._built: dict[EngineId, Engine] = {}

    @override
    def __getitem__(self, id: EngineId) -> Engine:
        if id not in self._built:
            self._built[id] = self._builders[id]()
        return self._built[id]

    @override
    def __iter__(self) -> Iterator[EngineId]:
        return iter(self._builders)

    @override
    def __len__(self) -> int:
        return len(self._builders)


def build_engines(app: App) -> dict[EngineId, Engine]:
    return dict(lazy_engines(app))


def lazy_engines(app: App) -> LazyEngines:
    builders: dict[EngineId, Callable[[], Engine]] = {}
    listed = {row.name for row in app.plugins.engines()}
    for id, row in app.config.engines.items():
        if id in listed and row.enabled and not isinstance(row.settings, dict):
            spec = app.plugins.engine(id)
            builders[spec.id] = partial(_build_engine, app, spec, row.settings)
    return LazyEngines(builders)


def _build_engine(app: App, spec: EngineSpec, settings: Any) -> Engine:
    return spec.build(settings, _engine_host(app, spec.id))


def build_channels(app: App) -> dict[ChannelId, Channel]:
    """Builds every enabled channel but the terminal, which the chat command builds."""
    channels: dict[ChannelId, Channel] = {}
    for id, row in app.config.channels.items():
        if not row.enabled or id == TERMINAL or isinstance(row.settings, dict):
            continue
        spec = app.plugins.channel(id)
        if problem := spec.problem(row.settings):
            raise ConfigError(f"The channel {id} cannot start: {problem}")
        channels[spec.id] = spec.build(row.settings, channel_host(app, spec.id))
    return channels


def engine_names(app: App) -> dict[str, EngineId]:
    names: dict[str, EngineId] = {}
    for row in app.plugins.engines():
        if isinstance(row, LoadedPlugin) and app.config.engines[row.name].enabled:
            names |= {name.lower(): row.spec.id for name in (row.name, *row.spec.aliases)}
    return names


def engine_titles(app: App) -> dict[EngineId, str]:
    """Lists the name of each engine in sentences."""
    found = [row.spec for row in app.plugins.engines() if isinstance(row, LoadedPlugin)]
    return {spec.id: spec.short_name or spec.title for spec in found}


def engine_specs(app: App) -> list[EngineSpec]:
    return [row.spec for row in app.plugins.engines() if isinstance(row, LoadedPlugin)]


def resume_lines(app: App) -> dict[EngineId, ResumeLines]:
    """Lists the enabled engines whose sessions people can continue by hand."""
    lines: dict[EngineId, ResumeLines] = {}
    for row in app.plugins.engines():
        adapter = app.config.engines.get(row.name)
        if not isinstance(row, LoadedPlugin) or adapter is None or not adapter.enabled:
            continue
        if row.spec.resume_lines is not None:
            found = row.spec.resume_lines(adapter.settings)
            state = shlex.quote(str(engine_state(app, row.spec.id)))
            lines[row.spec.id] = msgspec.structs.replace(found, beside=found.beside.replace("{state}", state))
    return lines


def fallback_models(app: App) -> dict[EngineId, str]:
    """Lists the fallback models of the engines that do not switch to theirs by themselves."""
    engines, alone = app.config.engines, {spec.id for spec in engine_specs(app) if spec.falls_back}
    found = {EngineId(id): getattr(one.settings, "fallback_model", None) for id, one in engines.items()}
    return {id: model for id, model in found.items() if model and id not in alone}


def default_engine(app: App) -> EngineId:
    """Returns the configured engine; with `auto`, the first real engine that is available, else the demo.

    Ready-made ACP agents come last: many of them run every command without asking."""
    wanted = app.config.gateway.default_engine
    if wanted != AUTO:
        return engine_names(app)[wanted.lower()]
    rows = [row for row in app.plugins.engines() if isinstance(row, LoadedPlugin)]
    for row in sorted(rows, key=lambda row: row.spec.is_found is not None):
        if row.spec.id != DEMO:
            adapter = app.config.engines.get(row.name)
            if adapter is not None and adapter.enabled and app.status_of(row.spec).available:
                return row.spec.id
    return DEMO


async def engine_problem(app: App, id: EngineId) -> str:
    """Says why the engine would not answer here and how to fix it; empty if it would.

    Probes each time: the user may just have applied the fix."""
    import anyio.to_thread

    spec, adapter = app.plugins.engine(id), app.config.engines.get(id)
    status = await anyio.to_thread.run_sync(probe, spec, adapter, abandon_on_cancel=True)
    if status.available or status.asks:
        return ""
    return f"{status.problem} To fix it: {status.fix}." if status.fix else status.problem


def name_engine(app: App, id: EngineId) -> str:
    """Returns the engine's id with the version of its program, if it has one."""
    version = app.status_of(app.plugins.engine(id)).version
    return id if version in ("", id) else f"{id} {version}"


def engine_state(app: App, id: EngineId) -> Path:
    return app.holder.loaded.paths.state_dir / "engines" / id


def _engine_host(app: App, id: EngineId) -> EngineHost:
    state = _make_folder(engine_state(app, id))
    return EngineHost(
        StoreBlobs(app.store, app.clock),
        engine_environment(os.environ, app.holder.loaded),
        str(state),
        app.marker,
        app.log,
        partial(judge_call, app, id),
        jail=partial(app.jails.open, engine=id),
        isolation=partial(app.jails.isolation, engine=id),
        uploads=partial(app.jails.uploads, engine=id),
        open_mcp=app.mcp.open,
        retention_days=app.config.gateway.retention_days,
        lanes=app.lanes,
    )


async def judge_call(app: App, engine: EngineId, ask: Ask, site: Site) -> Ruling:
    """Judges a call, and records in the audit log what was decided without asking a person. Only a jail counts that
    was proved with the version of every process of the engine that runs in one now."""
    network = site.isolation.network if site.isolation else "open"
    proof = find_proof(engine, network)
    versions = app.jails.versions.of(engine)
    if proof is None or not versions or not all(map(proof.fits, versions)):
        site = msgspec.structs.replace(site, isolation=None)
    ruling = await app.policy.judge(ask, site)
    app.trail.note_ruling(app.clock.now(), ask, ruling, cwd=ask.payload.get("cwd"))
    return ruling


def channel_host(app: App, id: ChannelId, *, folder: str = "") -> ChannelHost:
    """Gives the channel its state folder; `folder` names another one for a channel that serves one place only."""
    state = _make_folder(app.holder.loaded.paths.state_dir / "channels" / (folder or id))
    return ChannelHost(StoreBlobs(app.store, app.clock), str(state), app.log, app.clock, menu())


def _make_folder(folder: Path) -> Path:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"The folder {folder} cannot be created: {error.strerror}. Make its parent folder writable."
        ) from error
    return folder


def reload_notice(result: Reloaded) -> str:
    """Says what became of an edit of the configuration; empty if it changed nothing."""
    if result == Reloaded():
        return ""
    text = result.text[:1].upper() + result.text[1:]
    return text if result.problem else f"{EDITED} {text}"


async def reload_on_change(app: App, tell: Callable[[Reloaded], None] = lambda _: None) -> None:
    """Reloads the configuration on each edit until cancelled, logs the result and passes it to `tell`."""
    paths = app.holder.loaded.paths

    def reload() -> None:
        result = app.holder.reload()
        app.learn_secrets()
        app.log.level = app.config.log.level
        app.log("config.reloaded", level="warning" if result.worrying else "info", text=result.text)
        tell(result)

    await watch([paths.config_file, paths.env_file], reload)
