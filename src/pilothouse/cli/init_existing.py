"""What `init` finds in the configuration that it replaces: that is offered, and what nobody is asked about stays."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from pilothouse.config import Config, Paths, load
from pilothouse.config.sources import read_env_file, read_toml, unset_names


class Standing(Struct, frozen=True):
    """`tree` is the file as it was written; `config` is what it means, and None where nothing stands. What names a `${NAME}`
    that stands for nothing here is in the tree alone: it may stand for something where the gateway runs."""

    tree: Mapping[str, Any] = {}
    config: Config | None = None
    names: Mapping[str, str] = {}
    """What a `${NAME}` in it may stand for."""

    def table(self, *path: str) -> dict[str, Any]:
        """As it was written; empty where there is none."""
        found: Any = self.tree
        for name in path:
            found = found.get(name, {})
        return dict(found)

    @property
    def unset(self) -> list[str]:
        """The names in it that stand for nothing here."""
        return list(dict.fromkeys(unset_names(self.tree, self.names)))

    def meant(self, section: str, key: str, default: Any) -> Any:
        """What it says; in its own words, where nobody here knows what they stand for."""
        if self._is_unset(section, key):
            words = self.table(section)[key]
            return tuple(words) if isinstance(words, list) else words
        return default if self.config is None else getattr(getattr(self.config, section), key)

    def leaves_unset(self, section: str, key: str, said: Any) -> bool:
        """Whether an answer is to leave there what nobody here can judge."""
        return self._is_unset(section, key) and self.meant(section, key, None) == said

    def _is_unset(self, section: str, key: str) -> bool:
        return bool(unset_names(self.table(section).get(key), self.names))

    def written(self, section: str, key: str, said: Any) -> Any:
        """An answer; where it is what the file means already, in the words of the file: a `${NAME}` stays one."""
        found = self.table(section)
        return found[key] if key in found and self.meant(section, key, None) == said else said

    def has_channel(self, name: str) -> bool:
        return name in self.table("channels")

    def channel(self, name: str) -> Struct | None:
        """Its settings as they count; None where there are none, or where they are switched off."""
        adapter = self.config.channels.get(name) if self.config and self.has_channel(name) else None
        return adapter.settings if adapter and isinstance(adapter.settings, Struct) else None


def read_standing(paths: Paths) -> Standing:
    """Raises `InvalidConfig` where the file cannot be used as it is. What flags and variables say is not in it."""
    from pilothouse.bootstrap.configuration import models_of
    from pilothouse.plugins import Plugins

    environ = {name: text for name, text in os.environ.items() if not name.startswith("PILOTHOUSE_")}
    loaded = load(paths, environ, models_of(Plugins()), without_unset=True)
    names = {**read_env_file(paths.env_file), **environ}
    return Standing(read_toml(paths.config_file), loaded.config, names)
