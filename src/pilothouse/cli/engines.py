"""`pilothouse engines`: lists the engines, and whether they work here."""

from __future__ import annotations

import click
import msgspec
from msgspec import Struct

from pilothouse.bootstrap.configuration import load_checked
from pilothouse.bootstrap.machine import probe
from pilothouse.cli.options import json_option
from pilothouse.cli.table import print_json, print_table
from pilothouse.config import Adapter
from pilothouse.core.engine import EngineSpec
from pilothouse.plugins import Broken, Loaded, Plugins


class Row(Struct, frozen=True):
    id: str
    title: str
    available: bool
    version: str = ""
    problem: str = ""
    fix: str = ""
    package: str = ""


@click.command("engines")
@json_option
def command(as_json: bool) -> None:
    """List the engines, and whether they work here."""
    plugins = Plugins()
    config = load_checked(plugins).config
    rows: list[Row] = []
    for plugin in plugins.engines():
        engine = config.engines.get(plugin.name)
        rows.append(_broken(plugin) if isinstance(plugin, Broken) else look(plugin, engine))
    if as_json:
        print_json(msgspec.to_builtins(rows))
        return
    cells = [(row.id, "yes" if row.available else "no", row.version or "-", _what(row)) for row in rows]
    print_table(("ENGINE", "WORKS", "VERSION", "WHAT"), cells, "no engine is installed", wrap=True)


def look(plugin: Loaded[EngineSpec], engine: Adapter | None) -> Row:
    status = probe(plugin.spec, engine)
    return Row(
        id=plugin.name,
        title=plugin.spec.title,
        available=status.available,
        version=status.version,
        problem=status.problem,
        fix=status.fix,
        package=plugin.dist,
    )


def engine_problem(spec: EngineSpec, engine: Adapter) -> str:
    """Returns what the engine's longer check finds wrong; empty if nothing."""
    try:
        return spec.examine(engine.settings) if spec.examine else ""
    except Exception as error:  # noqa: BLE001 - a plugin's fault is data here
        return f"its check failed: {type(error).__name__}: {error}"


def _broken(plugin: Broken) -> Row:
    return Row(plugin.name, "", False, problem=f"did not load: {plugin.error}", package=plugin.dist)


def _what(row: Row) -> str:
    if row.available:
        return row.title
    return f"{row.problem} → {row.fix}" if row.fix else row.problem
