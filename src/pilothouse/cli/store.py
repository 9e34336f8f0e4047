"""Reads and writes the store for a command, without a gateway."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pilothouse.config import Adapter, Loaded, Models, find_paths, load
from pilothouse.core.errors import ConfigError

if TYPE_CHECKING:
    from pilothouse.core.store import StoreSpec, Tx

T = TypeVar("T")
NOTHING_YET = "nothing has happened yet"


def load_plain() -> Loaded:
    """Loads the configuration without any plugin: the sections of adapters stay unparsed."""
    return load(find_paths(os.environ), os.environ)


def store_file(store: Adapter) -> Path | None:
    """Returns the file of a SQLite store; None for any other store."""
    settings = store.settings
    path = settings.get("path") if isinstance(settings, dict) else getattr(settings, "path", None)
    return Path(path).expanduser() if store.id == "sqlite" and path else None


def read_store(unit: Callable[[Tx], T]) -> T | None:
    """Returns what `unit` reads; None if there is no store yet. Never creates a store or changes its schema."""
    plain = load_plain()
    if (file := store_file(plain.config.store)) and not file.exists():
        return None
    import asyncio

    spec, settings = store_and_settings(plain)
    if spec.open_read_only is not None:
        with spec.open_read_only(settings) as look:
            return look.read(unit)

    async def read() -> T:
        async with spec.open(settings) as store:
            return await store.read(unit)

    return asyncio.run(read())


def write_store(unit: Callable[[Tx], T]) -> T:
    """Runs `unit` in one transaction; creates the store if there is none."""
    import asyncio

    spec, settings = store_and_settings(load_plain())

    async def write() -> T:
        async with spec.open(settings) as store:
            return await store.write(unit)

    return asyncio.run(write())


def store_and_settings(plain: Loaded) -> tuple[StoreSpec, Any]:
    """Loads the configured store's plugin, and its checked settings."""
    from pilothouse.plugins import Plugins

    spec = Plugins().store(plain.config.store.id)
    loaded = load(plain.paths, os.environ, Models(stores={spec.id: spec.config}))
    return spec, loaded.config.store.settings


def existing_folder(path: str) -> str:
    """Returns the real path of a folder. Raises `ConfigError` if there is none."""
    folder = os.path.realpath(os.path.expanduser(path))
    if not os.path.isdir(folder):
        raise ConfigError(f"There is no folder {folder}. Name an existing one.")
    return folder
