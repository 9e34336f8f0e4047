"""Builds the jails from the configuration: what is ours and must not be seen inside, and the settings of each workspace."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from pilothouse.bootstrap.policy import own_files
from pilothouse.config import ConfigHolder, isolation_in
from pilothouse.core.isolation import Isolation
from pilothouse.isolation.jail import Jails, Places


def make_jails(holder: ConfigHolder, log: Callable[..., None]) -> Jails:
    loaded = holder.loaded
    hidden = (*own_files(loaded.paths, loaded.config), str(loaded.paths.config_file.parent / "workspaces"))
    home = os.path.realpath(os.path.expanduser("~"))
    uploads = str(loaded.paths.data_dir / "uploads")
    places = Places(str(loaded.paths.state_dir / "jails"), hidden, home, uploads)
    return Jails(partial(_settings, holder), places, log)


def _settings(holder: ConfigHolder, workspace: str) -> Isolation:
    return isolation_in(holder.loaded, workspace)
