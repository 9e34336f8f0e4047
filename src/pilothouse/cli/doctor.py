"""`pilothouse doctor`: one line per check, with the exact fix. Exit code 1 if something is broken.

Rule: what it reports, it has just tried. It repeats nothing that an earlier run noted.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from pilothouse.bootstrap.configuration import load_checked
from pilothouse.bootstrap.policy import HOME_WARNING, is_home
from pilothouse.bootstrap.terminal_text import as_typed, columns_of, fit
from pilothouse.cli.doctor_adapters import check_channels, check_engines, check_service
from pilothouse.cli.doctor_isolation import check_isolation
from pilothouse.cli.doctor_store import Check, Disk, check_store, existing_parent, make_writable
from pilothouse.cli.options import json_option
from pilothouse.cli.store import read_store
from pilothouse.cli.table import NARROWEST, plain, print_json, width
from pilothouse.config import Config, InvalidConfig, Loaded, Paths, find_paths
from pilothouse.core.errors import ConfigError, PilothouseError
from pilothouse.plugins import Broken, Plugins
from pilothouse.runtime.trust import check_trust, stored_trusts

OLDEST_PYTHON = (3, 11)
MARKS = {"ok": "✓", "off": "–", "warn": "!", "broken": "✗"}
COLOURS = {"ok": "32", "off": "2", "warn": "33", "broken": "31"}


@click.command("doctor")
@click.option(
    "--model", is_flag=True, help="Also send each engine's model one short message; it may cost a little."
)
@json_option
def command(model: bool, as_json: bool) -> int:
    """Try everything that the gateway needs, and name the exact fix."""
    checks = list(examine(model=model))
    broken = any(check.state == "broken" for check in checks)
    if as_json:
        print_json({"ok": not broken, "checks": msgspec.to_builtins(checks)})
    else:
        room, columns = max(width(check.name) for check in checks), columns_of(sys.stdout)
        colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        for check in checks:
            print(render(check, room, columns, colour=colour))
    return 1 if broken else 0


def render(check: Check, room: int, columns: int | None, *, colour: bool) -> str:
    """Renders one line, wrapped at spaces only and never cut: a fix must stay whole."""
    mark = f"\x1b[{COLOURS[check.state]}m{MARKS[check.state]}\x1b[0m" if colour else MARKS[check.state]
    fix = f" → {plain(check.fix)}" if check.fix and check.state != "ok" else ""
    indent = " " * (room + 4)
    rows = fit(as_typed(f"{indent}{plain(check.text)}{fix}"), columns and max(NARROWEST, columns)).split("\n")
    return "\n".join([f"{mark} {check.name:<{room}}  {rows[0].lstrip()}".rstrip(), *rows[1:]])


def examine(*, model: bool = False) -> Iterator[Check]:
    """Yields every check, in order of dependence; stops if the configuration cannot be read."""
    yield check_python()
    plugins = Plugins()
    yield from check_plugins(plugins)
    try:
        paths = find_paths(os.environ)
    except ConfigError as error:
        yield Check("home", "broken", str(error), "set PILOTHOUSE_HOME to a folder, or move the file away")
        return
    yield from check_files(paths)
    try:
        loaded = load_checked(plugins)
    except InvalidConfig as error:
        yield from (Check("config", "broken", str(p), f"edit {paths.config_file}") for p in error.problems)
        return
    yield from check_config(loaded)
    yield from check_workspaces(loaded.config)
    yield from check_isolation(loaded, _trusted(plugins))
    yield from check_store(plugins, loaded.config)
    yield from check_engines(plugins, loaded.config, model=model)
    yield from check_channels(plugins, loaded.config)
    yield from check_service()


def check_python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    if tuple(sys.version_info[:2]) < OLDEST_PYTHON:
        return Check("python", "broken", f"{version} is too old", "install Python 3.11 or newer")
    return Check("python", "ok", version)


def check_plugins(plugins: Plugins) -> Iterator[Check]:
    rows = [row for listing in (plugins.engines(), plugins.channels(), plugins.stores()) for row in listing]
    broken = [row for row in rows if isinstance(row, Broken)]
    for row in broken:
        yield Check(
            f"plugin {row.name}", "broken", row.error, f"reinstall or remove {row.dist or 'its package'}"
        )
    if not plugins.names("stores"):
        yield Check(
            "plugins",
            "broken",
            "the built-in plugins are not registered",
            "install Pilothouse again, with ./run, pipx or uv",
        )
    elif not broken:
        yield Check("plugins", "ok", f"{len(rows)} loaded")


def check_files(paths: Paths, disk: Disk | None = None) -> Iterator[Check]:
    disk = disk or Disk()
    if not paths.config_file.exists():
        yield Check(
            "config", "warn", f"there is no {paths.config_file}; the defaults are in force", "pilothouse init"
        )
    for file, forbidden, state in ((paths.config_file, 0o022, "broken"), (paths.env_file, 0o077, "warn")):
        if file.exists() and file.stat().st_mode & forbidden:
            mode = f"{file.stat().st_mode & 0o777:o}"
            what = "write" if forbidden == 0o022 else "read"
            yield Check(
                "permissions",
                state,
                f"others may {what} {file} (mode {mode})",
                f"chmod 600 {shlex.quote(str(file))}",
            )
    folder = existing_parent(paths.log_dir)
    if not disk.can_create_in(folder):
        yield Check("log", "broken", f"{folder} cannot be written", make_writable(folder, disk))


def check_config(loaded: Loaded) -> Iterator[Check]:
    file = loaded.paths.config_file
    for warning in loaded.warnings:
        yield Check("config", "warn", str(warning), f"edit {file}")
    if file.exists() and not loaded.warnings:
        yield Check("config", "ok", str(file))
    people = loaded.config.people
    remote = [
        name for name, channel in loaded.config.channels.items() if channel.enabled and name != "terminal"
    ]
    configured = (*people.owners, *people.admins, *people.members)
    if remote and not configured and not _let_in():
        text = f"nobody was let in yet, so nobody can use {', '.join(remote)}"
        yield Check("people", "warn", text, "pilothouse pair")


def _let_in() -> bool:
    """Returns true if anyone was granted a role. Another check reports a broken store."""
    try:
        return bool(read_store(lambda tx: tx.people.everybody()))
    except PilothouseError:
        return False


def _trusted(plugins: Plugins) -> list[tuple[str, bool]]:
    """Returns the folders whose trust holds, each with whether a jail was chosen for it. Another check reports a broken store."""
    try:
        found, files = read_store(stored_trusts) or [], plugins.trusted_files()
    except PilothouseError:
        return []
    return [(folder, one.jail) for folder, one in found if check_trust(one, folder, files).holds]


def check_workspaces(config: Config) -> Iterator[Check]:
    places = {"workspace": config.gateway.default_workspace}
    places |= {f"workspace {name}": section.path for name, section in config.workspaces.items()}
    for name, place in places.items():
        if place and not Path(place).is_dir():
            yield Check(name, "broken", f"{place} is not a folder", f"mkdir -p {shlex.quote(place)}")
        elif place and not os.access(place, os.W_OK):
            yield Check(name, "warn", f"{place} cannot be written, so engines can only read there")
        elif place and is_home(place):
            yield Check(name, "warn", HOME_WARNING.format(folder=place), "name a folder of its own")
        elif place:
            yield Check(name, "ok", place)
