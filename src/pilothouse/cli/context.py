"""What commands need of the house: paths, configuration, plugins, and the store to read from."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pilothouse.config import Adapter, Loaded, Models, find_paths, load
from pilothouse.core.engine import EngineSpec
from pilothouse.core.errors import ConfigError, PilothouseError

if TYPE_CHECKING:
    from pilothouse.core.channel import ChannelSpec, Finding
    from pilothouse.core.ids import ChannelId
    from pilothouse.core.store import Tx

T = TypeVar("T")
NOTHING_YET = "nothing has happened yet"


def load_plain() -> Loaded:
    """The configuration without a look at any plugin: adapters' sections stay as they are written."""
    return load(find_paths(os.environ), os.environ)


def store_file(store: Adapter) -> Path | None:
    """The file that the store keeps, if it keeps one."""
    settings = store.settings
    path = settings.get("path") if isinstance(settings, dict) else getattr(settings, "path", None)
    return Path(path).expanduser() if store.id == "sqlite" and path else None


def read_store(unit: Callable[[Tx], T]) -> T | None:
    """What `unit` reads; None if there is no store yet. Looking never makes one, nor changes its schema."""
    plain = load_plain()
    if (file := store_file(plain.config.store)) and not file.exists():
        return None
    import asyncio

    from pilothouse.plugins import Plugins

    spec = Plugins().store(plain.config.store.id)
    config = load(plain.paths, os.environ, Models(stores={spec.id: spec.config})).config

    if spec.look is not None:
        with spec.look(config.store.settings) as look:
            return look.read(unit)

    async def read() -> T:
        async with spec.open(config.store.settings) as store:
            return await store.read(unit)

    return asyncio.run(read())


def write_store(unit: Callable[[Tx], T]) -> T:
    """What `unit` writes, in one transaction."""
    import asyncio

    from pilothouse.plugins import Plugins

    plain = load_plain()
    spec = Plugins().store(plain.config.store.id)
    config = load(plain.paths, os.environ, Models(stores={spec.id: spec.config})).config

    async def write() -> T:
        async with spec.open(config.store.settings) as store:
            return await store.write(unit)

    return asyncio.run(write())


def existing_folder(path: str) -> str:
    """The real path of a folder that is there."""
    folder = os.path.realpath(os.path.expanduser(path))
    if not os.path.isdir(folder):
        raise ConfigError(f"There is no folder {folder}. Name one that is there.")
    return folder


def examined(spec: EngineSpec, engine: Adapter) -> str:
    """What a longer look finds wrong; empty if nothing, or if the engine has no such look."""
    try:
        return spec.examine(engine.settings) if spec.examine else ""
    except Exception as error:  # noqa: BLE001 - a plugin's fault is data here
        return f"its examination broke: {type(error).__name__}: {error}"


def channel_trouble(id: ChannelId) -> str:
    """What is wrong with it, as the gateway that serves it said last."""
    from pilothouse.core.channel_status import health_now

    try:
        noted = read_store(lambda tx: health_now(tx, id, time.time()))
    except PilothouseError:
        return ""  # that the store does not work is said elsewhere
    return noted.trouble if noted else ""


def channel_findings(spec: ChannelSpec, channel: Adapter) -> Sequence[Finding]:
    """What a longer look finds, at the platform itself."""
    from pilothouse.core.channel import Finding

    try:
        return spec.examine(channel.settings) if spec.examine else ()
    except Exception as error:  # noqa: BLE001 - a plugin's fault is data here
        return (Finding(f"its examination broke: {type(error).__name__}: {error}"),)


def channel_problem(spec: ChannelSpec, channel: Adapter) -> str:
    """Why the channel cannot start, empty if it can."""
    try:
        return spec.problem(channel.settings)
    except Exception as error:  # noqa: BLE001 - a plugin's fault is data here
        return f"its check broke: {type(error).__name__}: {error}"
