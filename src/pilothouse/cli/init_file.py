"""The configuration file of `pilothouse init`: the existing one, and the new one that replaces it.

What the existing file says is offered as an answer; what `init` does not ask about is kept.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from pilothouse.cli.files import literal, settings, tables
from pilothouse.config import Config, Paths, load
from pilothouse.config.sources import read_env_file, read_toml, unset_names

TEMPLATE = """\
# `pilothouse config show` lists every setting and where it came from; `pilothouse config check` finds mistakes.
# Secrets belong in the file .env beside this one: NAME=value there, "${{NAME}}" here.

[gateway]
# The engine that answers where nobody chose another; "auto" takes the first that works here.
default_engine = {default_engine}
# The folder that engines work in where nobody chose another.
default_workspace = {default_workspace}
# What happens to a message that arrives during a turn: collect, queue, steer or interrupt.
busy = {busy}
{gateway}
[people]
# Owners may change everything, members may talk: "channel:id", such as "telegram:12345". Others get in with a code
# of `pilothouse pair`, or when an owner says yes to their first message.
owners = {owners}
members = {members}
{people}"""

OURS = ("gateway", "people", "channels")


class ExistingConfig(Struct, frozen=True):
    """The file that `init` replaces: `tree` as written, `config` as parsed; None if there is no file.

    A value with a `${NAME}` that is not set here is in the tree only: it may be set where the gateway runs.
    """

    tree: Mapping[str, Any] = {}
    config: Config | None = None
    names: Mapping[str, str] = {}
    """The environment and `.env`, where `${NAME}` is looked up."""

    def table(self, *path: str) -> dict[str, Any]:
        """Returns a table as written; empty if there is none."""
        found: Any = self.tree
        for name in path:
            found = found.get(name, {})
        return dict(found)

    @property
    def unset(self) -> list[str]:
        """The names in `${NAME}` that are not set here."""
        return list(dict.fromkeys(unset_names(self.tree, self.names)))

    def value(self, section: str, key: str, default: Any) -> Any:
        """Returns the value in force, or the text as written if it has a name that is not set here."""
        if self._is_unset(section, key):
            words = self.table(section)[key]
            return tuple(words) if isinstance(words, list) else words
        return default if self.config is None else getattr(getattr(self.config, section), key)

    def keeps_unset(self, section: str, key: str, answer: Any) -> bool:
        """Returns true if the answer keeps a text with a name that is not set here, so it cannot be checked."""
        return self._is_unset(section, key) and self.value(section, key, None) == answer

    def _is_unset(self, section: str, key: str) -> bool:
        return bool(unset_names(self.table(section).get(key), self.names))

    def written(self, section: str, key: str, answer: Any) -> Any:
        """Returns the answer, or the text of the file if it means the same: a `${NAME}` stays one."""
        found = self.table(section)
        return found[key] if key in found and self.value(section, key, None) == answer else answer

    def has_channel(self, name: str) -> bool:
        return name in self.table("channels")

    def channel(self, name: str) -> Struct | None:
        """Returns a channel's settings in force; None if it has none or is switched off."""
        adapter = self.config.channels.get(name) if self.config and self.has_channel(name) else None
        return adapter.settings if adapter and isinstance(adapter.settings, Struct) else None


def read_existing(paths: Paths) -> ExistingConfig:
    """Reads the file without flags and variables. Raises `InvalidConfig` if it cannot be used as it is."""
    from pilothouse.bootstrap.configuration import models_of
    from pilothouse.plugins import Plugins

    environ = {name: text for name, text in os.environ.items() if not name.startswith("PILOTHOUSE_")}
    loaded = load(paths, environ, models_of(Plugins()), without_unset=True)
    names = {**read_env_file(paths.env_file), **environ}
    return ExistingConfig(read_toml(paths.config_file), loaded.config, names)


class Answers(Struct, frozen=True):
    workspace: str
    engine: str
    owners: tuple[str, ...]
    approval_mode: str | None = None
    """None leaves the file as it is."""


def render(
    answers: Answers, existing: ExistingConfig, bots: Mapping[str, dict[str, Any]], dropped: Sequence[str]
) -> str:
    """Renders the answers, the sections of new `bots`, and what else the existing file has, less `dropped` channels."""
    given = {"default_engine": answers.engine, "default_workspace": answers.workspace}
    gateway = {"busy": "collect"} | existing.table("gateway")
    gateway |= {key: existing.written("gateway", key, value) for key, value in given.items()}
    people = {"members": ()} | existing.table("people")
    people["owners"] = existing.written("people", "owners", answers.owners)
    text = TEMPLATE.format(
        **{key: literal(gateway.pop(key)) for key in (*given, "busy")},
        **{key: literal(people.pop(key)) for key in ("owners", "members")},
        gateway=settings(gateway),
        people=settings(people),
    )
    channels = {**existing.table("channels"), **bots}
    kept = {name: table for name, table in channels.items() if name not in dropped}
    text += "".join(_render_channel(name, table, is_bot=name in bots) for name, table in kept.items())
    others = {name: table for name, table in existing.tree.items() if name not in OURS}
    if answers.approval_mode is not None:
        others["policy"] = {**existing.table("policy"), "approval_mode": answers.approval_mode}
    return text + "".join(tables(table, name) for name, table in others.items() if isinstance(table, dict))


def _render_channel(channel: str, table: Mapping[str, Any], *, is_bot: bool) -> str:
    note = f"\n# The token is {token_variable(channel)} in .env." if is_bot else ""
    return note + tables(table, "channels", channel)


def token_variable(channel: str) -> str:
    return f"{channel.upper()}_TOKEN"
