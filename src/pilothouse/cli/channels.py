"""`pilothouse channels`: which there are, whether they can start, and what is wrong with those that run."""

from __future__ import annotations

import click
import msgspec
from msgspec import Struct

from pilothouse.bootstrap.configuration import load_checked
from pilothouse.cli.context import channel_problem, channel_trouble
from pilothouse.cli.options import json_option
from pilothouse.cli.table import print_json, print_table
from pilothouse.config import Adapter
from pilothouse.core.channel import ChannelSpec
from pilothouse.plugins import Broken, Loaded, Plugins


class Row(Struct, frozen=True):
    id: str
    title: str
    enabled: bool
    problem: str = ""
    trouble: str = ""
    package: str = ""


@click.command("channels")
@json_option
def command(as_json: bool) -> None:
    """The channels, and whether they can start."""
    plugins = Plugins()
    config = load_checked(plugins).config
    rows: list[Row] = []
    for plugin in plugins.channels():
        channel = config.channels.get(plugin.name)
        rows.append(_broken(plugin, channel) if isinstance(plugin, Broken) else look(plugin, channel))
    if as_json:
        print_json(msgspec.to_builtins(rows))
        return
    cells = [(row.id, _state(row), row.problem or row.trouble or row.title) for row in rows]
    print_table(("CHANNEL", "STATE", "WHAT"), cells, "no channel is installed", wrap=True)


def look(plugin: Loaded[ChannelSpec], channel: Adapter | None) -> Row:
    enabled = channel is not None and channel.enabled
    problem = channel_problem(plugin.spec, channel) if channel is not None and channel.enabled else ""
    trouble = channel_trouble(plugin.spec.id) if enabled and not problem else ""
    return Row(plugin.name, plugin.spec.title, enabled, problem, trouble, plugin.dist)


def _broken(plugin: Broken, channel: Adapter | None) -> Row:
    enabled = channel is not None and channel.enabled
    return Row(plugin.name, "", enabled, f"did not load: {plugin.error}", package=plugin.dist)


def _state(row: Row) -> str:
    if row.problem:
        return "broken"
    if row.trouble:
        return "in trouble"
    return "on" if row.enabled else "off"
