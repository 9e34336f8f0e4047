"""`pilothouse mcp`: lists, adds, removes, switches, tests and logs in to MCP servers, which every engine is given."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from pilothouse.bootstrap.mcp_servers import find_logins
from pilothouse.bootstrap.terminal_text import say
from pilothouse.cli.mcp_auth import log_in_here
from pilothouse.cli.mcp_file import add_server, remove_server, switch_server
from pilothouse.cli.options import json_option
from pilothouse.cli.store import load_plain, read_store
from pilothouse.cli.table import print_json, print_table
from pilothouse.config import WORKSPACE_FILE_NAME, Loaded, find_paths, read_preferences, servers_in
from pilothouse.core.errors import ConfigError
from pilothouse.core.mcp import McpServer, McpStatus, id_problem

NONE = (
    "No MCP servers. To add one: pilothouse mcp add ID --url https://… or pilothouse mcp add ID -- COMMAND …"
)
UNTRUSTED = "not used: the folder is not trusted. To trust it: pilothouse trust"
TEST_S = 90.0
project_option = click.option(
    "--project", is_flag=True, help=f"In {WORKSPACE_FILE_NAME} of this folder, not in your configuration."
)


@click.group("mcp", invoke_without_command=True)
@json_option
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """List, add, remove, switch, test and log in to MCP servers. Every engine is given them."""
    if context.invoked_subcommand is None:
        _print(_configured(load_plain()), as_json)


@command.command("list")
@json_option
def list_servers(as_json: bool) -> None:
    """List the servers of your configuration and of this folder. Nothing is started; `test` does that."""
    _print(_configured(load_plain()), as_json)


@command.command("add", context_settings={"ignore_unknown_options": True})
@click.argument("id")
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@click.option("--url", default="", help="The address of a server that speaks streamable HTTP.")
@click.option("--header", "headers", multiple=True, metavar="NAME:VALUE", help="Sent with every request.")
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="A variable of the program.")
@click.option("--cwd", default="", help="The folder that the program starts in.")
@project_option
def add(
    id: str,
    words: tuple[str, ...],
    url: str,
    headers: tuple[str, ...],
    env: tuple[str, ...],
    cwd: str,
    project: bool,
) -> None:
    """Add a server: `mcp add docs --url https://…`, or `mcp add files -- npx -y some-server /srv`.

    A secret belongs into .env: write "${NAME}" here, and NAME=value there."""
    if why := id_problem(id):
        raise ConfigError(f"The name {id!r} {why}.")
    table: dict[str, Any] = {
        **({"command": words[0]} if words else {}),
        **({"args": list(words[1:])} if words[1:] else {}),
        **({"url": url} if url else {}),
        **({"cwd": cwd} if cwd else {}),
        **({"headers": dict(_pair(text, ":") for text in headers)} if headers else {}),
        **({"env": dict(_pair(text, "=") for text in env)} if env else {}),
    }
    server = _checked(id, table)
    file = _file(project)
    add_server(file, id, table)
    say(f"Added {id} ({server.target}) to {file}. To try it: pilothouse mcp test {id}", sys.stdout)
    if any("${" not in value for value in server.secrets):
        say(f"Its secret now stands in {file}. Better: NAME=value in .env beside it, and ${{NAME}} there.")
    if project:
        say("It counts where you trust the folder: pilothouse trust")


@command.command("remove")
@click.argument("id")
@project_option
def remove(id: str, project: bool) -> None:
    """Remove a server."""
    file = _file(project)
    if not remove_server(file, id):
        raise ConfigError(_missing(file, id, project))
    print(f"Removed {id} from {file}.")


@command.command("enable")
@click.argument("id")
@project_option
def enable(id: str, project: bool) -> None:
    """Switch a server on."""
    _switch(id, project, on=True)


@command.command("disable")
@click.argument("id")
@project_option
def disable(id: str, project: bool) -> None:
    """Switch a server off. Its settings stay."""
    _switch(id, project, on=False)


def _switch(id: str, project: bool, *, on: bool) -> None:
    file = _file(project)
    if not switch_server(file, id, on=on):
        raise ConfigError(_missing(file, id, project))
    print(f"{id} is {'on' if on else 'off'}, from the next turn on.")


@command.command("test")
@click.argument("id", default="")
@json_option
def test(id: str, as_json: bool) -> None:
    """Connect to the servers that count in this folder, or to one, and list their tools."""
    from anyio import run

    loaded, folder = load_plain(), Path.cwd()
    if id and id not in servers_in(loaded, folder, trusted=is_trusted(folder)):
        raise ConfigError(f"There is no server {id!r} that counts here. `pilothouse mcp` lists them.")
    rows = [(status, tools) for status, tools in run(_connect, loaded, folder, id) if id in ("", status.id)]
    if as_json:
        print_json([{**msgspec.structs.asdict(status), "tools": tools} for status, tools in rows])
    else:
        cells = [(one.id, one.state, one.problem or ", ".join(tools) or "no tools") for one, tools in rows]
        print_table(("SERVER", "STATE", "TOOLS OR PROBLEM"), cells, NONE, wrap=True)
    if any(status.state not in ("ready", "disabled") for status, _ in rows):
        raise click.exceptions.Exit(1)


@command.command("auth")
@click.argument("id")
@click.option("--forget", is_flag=True, help="Forget the login instead.")
@click.option("--no-browser", is_flag=True, help="Only print the link.")
def auth(id: str, forget: bool, no_browser: bool) -> None:
    """Log in to a server that says `auth_required`, with your browser here or on another machine."""
    from anyio import run

    loaded, folder = load_plain(), Path.cwd()
    found = servers_in(loaded, folder, trusted=is_trusted(folder)).get(id)
    if found is None:
        raise ConfigError(f"There is no server {id!r} that counts here. `pilothouse mcp` lists them.")
    if forget:
        from pilothouse.mcp_client.login_file import LoginFile

        known = LoginFile(find_logins(loaded), id, found[0].url).forget()
        print(f"Forgot the login to {id}." if known else f"There is no login to {id}.")
        return
    wait_s = loaded.config.gateway.mcp_login_s
    run(log_in_here, id, found[0], find_logins(loaded), wait_s, not no_browser)
    print(f"Logged in to {id}. To see its tools: pilothouse mcp test {id}")


def _no_log(event: str, **fields: object) -> None:
    """The state of a server says all."""


async def _connect(loaded: Loaded, folder: Path, id: str) -> list[tuple[McpStatus, list[str]]]:
    from pilothouse.bootstrap.mcp_servers import McpHost

    async with McpHost(lambda: loaded, "", _no_log, id).run() as host, host.open() as connections:
        with connections.lease(str(folder), trusted=is_trusted(folder), own={}) as tools:
            await tools.settle(TEST_S)
            return [
                (status, [tool.tool for tool in tools.tools() if tool.server == status.id])
                for status in tools.statuses()
            ]


def _pair(text: str, mark: str) -> tuple[str, str]:
    name, found, value = text.partition(mark)
    if not found or not name.strip():
        raise ConfigError(f"{text.split(mark, maxsplit=1)[0]!r} must have the form NAME{mark}VALUE.")
    return name.strip(), value.strip() if mark == ":" else value


def _checked(id: str, table: dict[str, Any]) -> McpServer:
    try:
        return msgspec.convert(table, McpServer)
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"The server {id} cannot be added: {error}. See: pilothouse mcp add --help"
        ) from error


def _file(project: bool) -> Path:
    return Path.cwd() / WORKSPACE_FILE_NAME if project else find_paths(os.environ).config_file


def _missing(file: Path, id: str, project: bool) -> str:
    hint = "" if project else f" A server of this folder's {WORKSPACE_FILE_NAME} needs --project."
    return f"There is no server {id!r} in {file}. `pilothouse mcp` lists them.{hint}"


def _configured(loaded: Loaded) -> list[McpStatus]:
    """Return the servers that count here, and those of this folder that would if it were trusted."""
    folder = Path.cwd()
    trusted = is_trusted(folder)
    rows = [
        _status(id, server, source)
        for id, (server, source) in servers_in(loaded, folder, trusted=trusted).items()
    ]
    if not trusted:
        own = read_preferences(folder, None)[0].mcp.servers
        rows += [_status(id, server, WORKSPACE_FILE_NAME, UNTRUSTED) for id, server in own.items()]
    return rows


def is_trusted(folder: Path) -> bool:
    from pilothouse.cli.trust import obeyed_files
    from pilothouse.runtime.trust import look_at_trust

    real, files = os.path.realpath(folder), obeyed_files()
    state = read_store(lambda tx: look_at_trust(tx, real, files))
    return state is not None and state.holds


def _status(id: str, server: McpServer, source: str, problem: str = "") -> McpStatus:
    state = "connecting" if server.enabled and not problem else "disabled"
    return McpStatus(id, server.transport, server.target, source, state, problem=problem)


def _print(rows: Sequence[McpStatus], as_json: bool) -> None:
    if as_json:
        shown = [{**msgspec.structs.asdict(row), "enabled": row.state != "disabled"} for row in rows]
        print_json(
            [
                {key: row[key] for key in ("id", "transport", "target", "source", "enabled", "problem")}
                for row in shown
            ]
        )
        return
    cells = [
        (row.id, row.problem or ("on" if row.state != "disabled" else "off"), row.target, row.source)
        for row in rows
    ]
    print_table(("SERVER", "STATE", "PROGRAM OR ADDRESS", "FROM"), cells, NONE, wrap=True)
