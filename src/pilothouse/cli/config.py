"""`pilothouse config`: shows every setting with its source, finds the files, checks them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from msgspec import Struct

from pilothouse.bootstrap.configuration import load_checked
from pilothouse.cli.options import json_option
from pilothouse.cli.store import existing_folder, load_plain
from pilothouse.cli.table import print_json, print_table
from pilothouse.config import (
    WORKSPACE_FILE_NAME,
    Adapter,
    InvalidConfig,
    Loaded,
    Models,
    Problem,
    Secret,
    find_paths,
    leaves_in,
    load,
)
from pilothouse.config.sources import Key, dotted
from pilothouse.core.secret import without_login
from pilothouse.logs.redaction import MARK, Redactor, names_secret

if TYPE_CHECKING:
    from pilothouse.plugins import Plugins

ADAPTERS = ("engines", "channels", "store")


class Setting(Struct, frozen=True):
    key: str
    value: Any
    source: str


@click.group("config", invoke_without_command=True)
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Show, find or check the configuration."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(show, workspace=".", as_json=as_json)


@command.command("show")
@click.option("--workspace", type=click.Path(), default=".", help="Include what this folder changes.")
@json_option
def show(workspace: str, as_json: bool) -> None:
    """Show every setting in force and where it came from; last, what the current folder changes."""
    folder = Path(existing_folder(workspace))
    loaded = load_for_show(folder)
    here, warnings = settings_in(loaded, folder)
    found = [*settings_of(loaded), *here]
    warn((*loaded.warnings, *warnings))
    if as_json:
        print_json(msgspec.to_builtins(found))
        return
    print_table(("KEY", "FROM", "VALUE"), [(s.key, s.source, _written(s.value)) for s in found], wrap=True)


@command.command("path")
@json_option
def path(as_json: bool) -> None:
    """Show where the files are."""
    paths = find_paths(os.environ)
    rows = {
        "config": paths.config_file,
        "secrets": paths.env_file,
        "data": paths.data_dir,
        "state": paths.state_dir,
        "log": paths.log_file,
    }
    if as_json:
        print_json({name: {"path": str(file), "exists": file.exists()} for name, file in rows.items()})
        return
    for name, file in rows.items():
        print(f"{name:<8} {file}{'' if file.exists() else '  (missing)'}")


@command.command("check")
@json_option
def check(as_json: bool) -> int:
    """Check every section, those of plugins too, and the files of workspaces. Exit code 1 if something is wrong."""
    problems, warnings = _find_problems()
    if as_json:
        print_json({"problems": msgspec.to_builtins(problems), "warnings": msgspec.to_builtins(warnings)})
        return 1 if problems else 0
    warn(warnings)
    if problems:
        raise InvalidConfig(problems)
    file = find_paths(os.environ).config_file
    found = f"{len(warnings)} warning{'' if len(warnings) == 1 else 's'}" if warnings else "no problem"
    print(f"{file}: {found}" if file.exists() else f"there is no {file}; the defaults are in force")
    return 0


def _find_problems() -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
    from pilothouse.bootstrap.configuration import check_folders, missing_folders
    from pilothouse.plugins import Plugins

    plugins = Plugins()
    try:
        loaded = load_checked(plugins)
    except InvalidConfig as error:
        return error.problems, error.warnings
    problems, warnings = check_folders(loaded, Path.cwd())
    problems = [*problems, *_channel_problems(loaded, plugins)]
    return tuple(problems), (*loaded.warnings, *missing_folders(loaded), *warnings)


def _channel_problems(loaded: Loaded, plugins: Plugins) -> Iterator[Problem]:
    """Lists why `up` would refuse to start."""
    from pilothouse.cli.channels import channel_problem

    file = str(loaded.paths.config_file)
    for id, channel in loaded.config.channels.items():
        is_on = channel.enabled and not isinstance(channel.settings, dict)
        if is_on and (text := channel_problem(plugins.channel(id), channel)):
            yield Problem(file, f"channels.{id}", text)


def warn(warnings: tuple[Problem, ...]) -> None:
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)


def load_for_show(folder: Path) -> Loaded:
    """Loads only the plugins that have a section in the file: they know which of their settings are secret.

    If the folder has its own file, the names of all plugins are looked up: it may name an engine.
    """
    plain = load_plain()
    written = {
        group: {key[1] for key in plain.leaves if key[0] == group and len(key) > 1} for group in ADAPTERS
    }
    if not any(written.values()) and not (folder / WORKSPACE_FILE_NAME).exists():
        return plain
    from pilothouse.core.errors import PluginError
    from pilothouse.plugins import Group, Plugins

    plugins = Plugins()

    def types(group: Group, names: set[str]) -> dict[str, type[Struct] | None]:
        def type_of(name: str) -> type[Struct] | None:
            try:
                return plugins.spec(group, name).config if name in names else None
            except PluginError:
                return None

        return {name: type_of(name) for name in plugins.names(group)}

    models = Models(
        engines=types("engines", written["engines"]),
        channels=types("channels", written["channels"]),
        stores=types("stores", {plain.config.store.id}),
        engine_aliases=plugins.aliases(),
    )
    return load(plain.paths, os.environ, models)


def settings_of(loaded: Loaded) -> Iterator[Setting]:
    config, redactor = loaded.config, Redactor(loaded.secrets)
    sections: list[tuple[Key, Any]] = [
        (("gateway",), config.gateway),
        (("people",), config.people),
        (("approvals", "ordinary"), config.approvals.ordinary),
        (("approvals", "destructive"), config.approvals.destructive),
        (("policy",), config.policy),
        (("budget",), config.budget),
        (("limits",), config.limits),
        (("isolation",), config.isolation),
        (("log",), config.log),
        *((("workspaces", name), section) for name, section in config.workspaces.items()),
        *_adapter_sections(loaded),
    ]
    for at, section in sections:
        for key, value in _settings_below(at, section):
            leaf = loaded.leaves.get(key)
            shown = value if leaf is None or leaf.reference is None else leaf.reference
            yield Setting(dotted(key), _plain(key[-1], shown, redactor), leaf.source if leaf else "default")


def _settings_below(at: Key, section: Any) -> Iterator[tuple[Key, Any]]:
    """Yields each key of a nested table by itself: its keys may come from several sources."""
    for name, value in _items(section):
        if isinstance(value, Struct) or (isinstance(value, dict) and value):
            yield from _settings_below((*at, name), value)
        else:
            yield (*at, name), value


def settings_in(loaded: Loaded, folder: Path) -> tuple[list[Setting], tuple[Problem, ...]]:
    """Returns what the folder's own file, or its section under [workspaces], changes there."""
    leaves, warnings = leaves_in(loaded, folder)
    gateway = loaded.config.gateway
    elsewhere = {"engine": gateway.default_engine, "busy": gateway.busy, "show_cost": gateway.show_cost}
    own = {name: leaf for name, leaf in sorted(leaves.items()) if leaf.value != elsewhere.get(name)}
    return [Setting(f"here.{name}", leaf.value, leaf.source) for name, leaf in own.items()], warnings


def _adapter_sections(loaded: Loaded) -> Iterator[tuple[Key, Any]]:
    """Yields the store, and the adapters that have a section."""
    config = loaded.config
    yield ("store",), {"kind": config.store.id, **dict(_items(config.store.settings))}
    for group, adapters in (("engines", config.engines), ("channels", config.channels)):
        for name, adapter in adapters.items():
            if any(key[:2] == (group, name) for key in loaded.leaves):
                yield (group, name), _with_enabled(adapter)


def _with_enabled(adapter: Adapter) -> dict[str, Any]:
    return {"enabled": adapter.enabled, **dict(_items(adapter.settings))}


def _items(section: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(section, dict):
        yield from section.items()
    else:
        for info in msgspec.structs.fields(section):
            yield info.encode_name, getattr(section, info.name)


def _plain(name: str, value: Any, redactor: Redactor) -> Any:
    if isinstance(value, Secret) or (
        isinstance(value, str) and value and names_secret(name) and "${" not in value
    ):
        return MARK if value else ""
    if isinstance(value, str):
        return redactor.redact(without_login(value) if "proxy" in name else value)
    if isinstance(value, Struct):
        return {key: _plain(key, item, redactor) for key, item in _items(value)}
    if isinstance(value, dict):
        return {key: _plain(key, item, redactor) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [_plain(name, item, redactor) for item in value]
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def _written(value: Any) -> str:
    import json

    return "-" if value is None else json.dumps(value, ensure_ascii=False)
