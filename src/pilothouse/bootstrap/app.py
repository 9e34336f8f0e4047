"""What every command that runs a gateway needs: configuration, log and store, and the adapters built from them.

Configuration that changes under a running gateway: read anew, logged, and told to whoever sits in front of it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from pilothouse.bootstrap.configuration import load_checked
from pilothouse.bootstrap.machine import probe
from pilothouse.bootstrap.policy import make_policy
from pilothouse.config import AUTO, Config, ConfigHolder, Loaded, Reloaded, watch
from pilothouse.core.ask import Ask
from pilothouse.core.channel import Channel, ChannelHost
from pilothouse.core.engine import Engine, EngineHost, EngineSpec, EngineStatus, ResumeLines
from pilothouse.core.errors import ConfigError
from pilothouse.core.ids import ChannelId, EngineId
from pilothouse.core.policy import Ruling, Site
from pilothouse.core.store import STORE_NAME, Store, Tx
from pilothouse.logs import Log, Redactor, open_log
from pilothouse.plugins import Loaded as LoadedPlugin
from pilothouse.plugins import Plugins
from pilothouse.runtime.audit import Trail
from pilothouse.runtime.clock import SystemClock, new_id
from pilothouse.runtime.commands.table import menu
from pilothouse.runtime.ports import StoreBlobs

TERMINAL = ChannelId("terminal")
DEMO = EngineId("script")

EDITED = "The configuration was edited."


class House:
    """`marker` names the store: every process that an engine starts for it carries it."""

    def __init__(
        self, plugins: Plugins, holder: ConfigHolder, log: Log, redactor: Redactor, store: Store, marker: str
    ) -> None:
        self.plugins = plugins
        self.holder = holder
        self.log = log
        self.redactor = redactor
        self.store = store
        self.marker = marker
        self.clock = SystemClock()
        self.trail = Trail()
        self.policy = make_policy(store, holder)
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
    ) as log:
        for problem in loaded.warnings:
            log.warning("config.warned", text=str(problem))
            if not on_terminal:
                sys.stderr.write(f"warning: {problem}\n")
        async with spec.open(loaded.config.store.settings) as store:
            marker = await store.write(_name_of_store)
            yield House(plugins, ConfigHolder(loaded, read), log, redactor, store, marker)


def _name_of_store(tx: Tx) -> str:
    """Given once and kept in it, so that two stores never take each other's processes for their own."""
    name = tx.get_fact(STORE_NAME)
    if name is None:
        name = new_id("store")
        tx.set_fact(STORE_NAME, name)
    return name


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
        channels[spec.id] = spec.build(row.settings, channel_host(house, spec.id))
    return channels


def engine_names(house: House) -> dict[str, EngineId]:
    names: dict[str, EngineId] = {}
    for row in house.plugins.engines():
        if isinstance(row, LoadedPlugin) and house.config.engines[row.name].enabled:
            names |= {name.lower(): row.spec.id for name in (row.name, *row.spec.aliases)}
    return names


def resume_lines(house: House) -> dict[EngineId, ResumeLines]:
    """Of every engine that is switched on and whose sessions people can continue by hand."""
    lines: dict[EngineId, ResumeLines] = {}
    for row in house.plugins.engines():
        adapter = house.config.engines.get(row.name)
        if not isinstance(row, LoadedPlugin) or adapter is None or not adapter.enabled:
            continue
        if row.spec.resume_lines is not None:
            lines[row.spec.id] = row.spec.resume_lines(adapter.settings)
    return lines


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


async def engine_problem(house: House, id: EngineId) -> str:
    """Why it would not answer here, and what to do; empty if it would. A new look each time: somebody may just have
    done what we said."""
    import anyio.to_thread

    spec, adapter = house.plugins.engine(id), house.config.engines.get(id)
    status = await anyio.to_thread.run_sync(probe, spec, adapter)
    if status.available:
        return ""
    return f"{status.problem} To mend it: {status.fix}." if status.fix else status.problem


def name_engine(house: House, id: EngineId) -> str:
    """With the version of its program, where it has one."""
    version = house.status_of(house.plugins.engine(id)).version
    return id if version in ("", id) else f"{id} {version}"


def _engine_host(house: House, id: EngineId) -> EngineHost:
    state = _made(house.holder.loaded.paths.state_dir / "engines" / id)
    return EngineHost(
        StoreBlobs(house.store, house.clock),
        engine_environment(os.environ, house.holder.loaded),
        str(state),
        house.marker,
        house.log,
        partial(_judge, house),
    )


async def _judge(house: House, ask: Ask, site: Site) -> Ruling:
    """What was decided without asking anybody is written down."""
    ruling = await house.policy.judge(ask, site)
    house.trail.note_ruling(house.clock.now(), ask, ruling, cwd=ask.payload.get("cwd"))
    return ruling


def engine_environment(environ: Mapping[str, str], loaded: Loaded) -> dict[str, str]:
    """What engines may choose from. Our own settings may hold secrets, and are nobody's business; so is a variable
    that a channel has its token from, whatever an engine is configured to pass on."""
    leaves = [leaf for key, leaf in loaded.leaves.items() if key[0] == "channels"]
    ours = {"DISCORD_TOKEN"} | {leaf.source for leaf in leaves}
    ours |= {name for leaf in leaves for name in leaf.names if leaf.value in loaded.secrets}
    return {
        name: value
        for name, value in environ.items()
        if not name.startswith("PILOTHOUSE") and name not in ours
    }


def channel_host(house: House, id: ChannelId, *, apart: str = "") -> ChannelHost:
    """`apart` names a folder of its own for what the channel remembers: it serves only a part of its platform."""
    state = _made(house.holder.loaded.paths.state_dir / "channels" / (apart or id))
    return ChannelHost(StoreBlobs(house.store, house.clock), str(state), house.log, house.clock, menu())


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"The folder {folder} cannot be made: {error.strerror}. Make it writable."
        ) from error
    return folder


def words_for(result: Reloaded) -> str:
    """For whoever sits in front of it; empty for an edit that changed nothing, which is nobody's business."""
    if result == Reloaded():
        return ""
    text = result.text[:1].upper() + result.text[1:]
    return text if result.problem else f"{EDITED} {text}"


async def reload_on_change(house: House, tell: Callable[[Reloaded], None] = lambda _: None) -> None:
    """Until it is cancelled. `tell` hears what became of each edit."""
    paths = house.holder.loaded.paths

    def reload() -> None:
        result = house.holder.reload()
        house.redactor.add(*house.holder.loaded.secrets)
        house.log.level = house.config.log.level
        house.log("config.reloaded", level="warning" if result.worrying else "info", text=result.text)
        tell(result)

    await watch([paths.config_file, paths.env_file], reload)
