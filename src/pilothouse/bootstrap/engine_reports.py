"""Asks every engine about itself: program, login, models, abilities. One source for `engines`, `doctor` and `/engine`.

Each check may start a program, so they run beside each other in threads. A plugin's fault is a status too.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from pilothouse.bootstrap.abilities import abilities_of
from pilothouse.bootstrap.machine import probe
from pilothouse.config import Adapter, Config
from pilothouse.core.engine import EngineHost, EngineSpec, EngineStatus, ListsModels
from pilothouse.core.ids import BlobHash
from pilothouse.core.message import Attachment
from pilothouse.plugins import Broken, Loaded, Plugins
from pilothouse.runtime.engine_report import EngineReport

AT_ONCE = 8
Row = Loaded[EngineSpec] | Broken


def survey(plugins: Plugins, config: Config) -> list[EngineReport]:
    """Reports on every installed engine."""
    return _survey(plugins.engines(), config)


def survey_enabled(plugins: Plugins, config: Config) -> list[EngineReport]:
    """Reports on the engines that loaded and are not switched off."""
    return _survey((row for row in plugins.engines() if _is_enabled(row, config)), config)


def _survey(rows: Iterable[Row], config: Config) -> list[EngineReport]:
    with ThreadPoolExecutor(AT_ONCE) as threads:
        return list(threads.map(partial(report, config=config), rows))


def report(row: Row, config: Config) -> EngineReport:
    """Finds the program, and if there is one, asks about its login."""
    if isinstance(row, Broken):
        status = EngineStatus(False, problem=f"did not load: {row.error}")
        return EngineReport(row.name, "", status, package=row.dist)
    engine = config.engines.get(row.name)
    status = probe(row.spec, engine)
    login = check_login(row.spec, engine) if status.available and engine is not None else None
    return EngineReport(row.name, row.spec.title, status, login, package=row.dist)


def in_full(plugins: Plugins, config: Config, state_dir: Path, one: EngineReport) -> EngineReport:
    """Adds which models the engine knows, and what it can do. Loads the engine's code, and starts no process."""
    row = next((row for row in plugins.engines() if row.name == one.id), None)
    engine = config.engines.get(one.id)
    if not isinstance(row, Loaded) or engine is None or isinstance(engine.settings, dict):
        return one
    try:
        can = abilities_of(row.spec)
    except Exception as error:  # noqa: BLE001 - a plugin's fault is data here
        problem = f"its code does not load: {type(error).__name__}: {error}"
        return replace(one, status=EngineStatus(False, problem=problem))
    return replace(one, can=can, models=_models(row.spec, engine, state_dir))


def _is_enabled(row: Row, config: Config) -> bool:
    engine = config.engines.get(row.name)
    return isinstance(row, Loaded) and not (engine and not engine.enabled)


def check_login(spec: EngineSpec, engine: Adapter) -> EngineStatus | None:
    """Asks the engine's program whether it is logged in; None if the engine has no login."""
    try:
        return spec.login(engine.settings) if spec.login else None
    except Exception as error:  # noqa: BLE001 - a plugin's fault is data here
        return EngineStatus(False, problem=f"its login check failed: {type(error).__name__}: {error}")


def _models(spec: EngineSpec, engine: Adapter, state_dir: Path) -> tuple[str, ...]:
    state = str(state_dir / "engines" / spec.id)
    host = EngineHost(_NoBlobs(), dict(os.environ), state, "", _no_log)
    try:
        built = spec.build(engine.settings, host)
        return tuple(model.name for model in built.models()) if isinstance(built, ListsModels) else ()
    except Exception:  # noqa: BLE001 - a plugin's fault costs the list only
        return ()


def _no_log(_event: str, **_fields: object) -> None:
    """An engine that is only asked for its models has nothing to tell."""


class _NoBlobs:
    """An engine that is only asked for its models stores nothing."""

    async def get(self, blob: BlobHash) -> bytes:
        raise LookupError(blob)

    async def put(self, data: bytes, name: str, media_type: str) -> Attachment:
        raise LookupError(name)
