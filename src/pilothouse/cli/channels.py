"""`pilothouse channels`: lists the channels, whether they can start, and trouble of those that run.

A plugin's check that raises is reported as a problem too.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import click
import msgspec
from msgspec import Struct

from pilothouse.bootstrap.configuration import load_checked
from pilothouse.cli.options import json_option
from pilothouse.cli.status import ONLY_CHAT, find_gateway, serves_configured
from pilothouse.cli.store import read_store
from pilothouse.cli.table import print_json, print_table
from pilothouse.config import ALWAYS_ON, Adapter
from pilothouse.core.channel import BotIdentity, ChannelSpec, Finding
from pilothouse.core.errors import PilothouseError
from pilothouse.core.ids import ChannelId
from pilothouse.core.store import Tx
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
    """List the channels, and whether they can start."""
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
    trouble = ""
    if enabled and not problem:
        trouble = ONLY_CHAT if is_left_to_chat(plugin.name) else channel_trouble(plugin.spec.id)
    return Row(plugin.name, plugin.spec.title, enabled, problem, trouble, plugin.dist)


def channel_trouble(id: ChannelId) -> str:
    """Returns the trouble that a running gateway reports; nothing of a gateway that has ended."""
    from pilothouse.runtime.channel_status import health_now, serves_channels

    now = time.time()

    def unit(tx: Tx) -> str:
        noted = health_now(tx, id, now) if serves_channels(tx, now) else None
        return noted.trouble if noted else ""

    try:
        return read_store(unit) or ""
    except PilothouseError:
        return ""  # another check reports a broken store


def is_left_to_chat(name: str) -> bool:
    """Returns true if only a chat runs, which does not serve this channel."""
    if name == ALWAYS_ON:
        return False
    try:
        gateway = find_gateway(read_store(lambda tx: tx.nodes.list()) or (), time.time())
    except PilothouseError:
        return False  # another check reports a broken store
    return gateway is not None and not serves_configured(gateway)


def is_served() -> bool:
    """Returns true if a gateway runs that serves channels."""
    from pilothouse.runtime.channel_status import serves_channels

    try:
        return bool(read_store(lambda tx: serves_channels(tx, time.time())))
    except PilothouseError:
        return False  # another check reports a broken store


def channel_identity(spec: ChannelSpec, channel: Adapter) -> BotIdentity:
    """Asks the platform who we are; a channel that cannot be asked has no name and no problem."""
    try:
        return spec.identify(channel.settings) if spec.identify else BotIdentity()
    except Exception as error:  # noqa: BLE001 - a plugin's fault is data here
        return BotIdentity(problem=f"its check failed: {type(error).__name__}: {error}")


def channel_findings(spec: ChannelSpec, channel: Adapter) -> Sequence[Finding]:
    """Returns what the channel finds when it asks the platform itself."""
    try:
        return spec.examine(channel.settings) if spec.examine else ()
    except Exception as error:  # noqa: BLE001 - a plugin's fault is data here
        return (Finding(f"its check failed: {type(error).__name__}: {error}"),)


def channel_problem(spec: ChannelSpec, channel: Adapter) -> str:
    """Says why the channel cannot start; empty if it can."""
    try:
        return spec.problem(channel.settings)
    except Exception as error:  # noqa: BLE001 - a plugin's fault is data here
        return f"its check failed: {type(error).__name__}: {error}"


def _broken(plugin: Broken, channel: Adapter | None) -> Row:
    enabled = channel is not None and channel.enabled
    return Row(plugin.name, "", enabled, f"did not load: {plugin.error}", package=plugin.dist)


def _state(row: Row) -> str:
    if row.problem:
        return "broken"
    if row.trouble:
        return "in trouble"
    return "on" if row.enabled else "off"
