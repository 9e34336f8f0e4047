"""The tables of a workspace's file that an engine obeys, where a person trusts the folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread

from pilothouse.config import engine_tables
from pilothouse.core.errors import ConfigError


async def preferences_for_engines(
    log: Callable[..., None], workspace: str, trusted: bool
) -> Mapping[str, Any]:
    """Return `search` and `model` as tables of `Brief.preferences`; nothing for a folder that is not trusted."""
    if not trusted:
        return {}
    find = partial(_find, log, workspace)
    return await anyio.to_thread.run_sync(find, abandon_on_cancel=True)


def _find(log: Callable[..., None], workspace: str) -> Mapping[str, Any]:
    try:
        return engine_tables(Path(workspace))
    except ConfigError as error:
        log("config.project_ignored", level="warning", workspace=workspace, problem=str(error))
        return {}
