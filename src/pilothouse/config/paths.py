"""File locations: the platform's folders, or one folder named by `PILOTHOUSE_HOME`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from pilothouse.core.errors import ConfigError

APP = "pilothouse"


class Paths(Struct, frozen=True):
    config_file: Path
    data_dir: Path
    state_dir: Path
    log_dir: Path

    @property
    def env_file(self) -> Path:
        return self.config_file.parent / ".env"

    @property
    def workspace_settings(self) -> Path:
        """The folder with a folder of the owner's own files for each workspace."""
        return self.config_file.parent / "workspaces"

    @property
    def config_folder(self) -> Path | None:
        """The folder of the configuration if it is Pilothouse's alone: a file that somebody named may lie in a project."""
        folder = self.config_file.parent
        return folder if folder in (self.data_dir, _of_the_platform().config_file.parent) else None

    @property
    def store_file(self) -> Path:
        return self.data_dir / "pilothouse.db"

    @property
    def log_file(self) -> Path:
        return self.log_dir / "pilothouse.log"


def find_paths(environ: Mapping[str, str]) -> Paths:
    """Find the paths. `PILOTHOUSE_CONFIG` names only the file and wins over `PILOTHOUSE_HOME`.

    Raises `ConfigError` if `PILOTHOUSE_HOME` cannot be a folder.
    """
    paths = (
        _in_one_folder(environ["PILOTHOUSE_HOME"]) if environ.get("PILOTHOUSE_HOME") else _of_the_platform()
    )
    if file := environ.get("PILOTHOUSE_CONFIG") or environ.get("CODELIA_CONFIG_PATH"):
        return Paths(_absolute(file), paths.data_dir, paths.state_dir, paths.log_dir)
    return paths


def _in_one_folder(home: str) -> Paths:
    folder = _absolute(home)
    there = next(place for place in (folder, *folder.parents) if os.path.exists(place))
    if not os.path.isdir(there):
        why = (
            "is a file and must be a folder" if there == folder else f"cannot be a folder: {there} is a file"
        )
        raise ConfigError(f"PILOTHOUSE_HOME={home} {why}")
    return Paths(folder / "config.toml", folder, folder / "state", folder / "logs")


def _of_the_platform() -> Paths:
    import platformdirs

    dirs = platformdirs.PlatformDirs(APP, appauthor=False)
    return Paths(
        Path(dirs.user_config_dir) / "config.toml",
        Path(dirs.user_data_dir),
        Path(dirs.user_state_dir),
        Path(dirs.user_log_dir),
    )


def _absolute(path: str) -> Path:
    return Path(path).expanduser().absolute()
