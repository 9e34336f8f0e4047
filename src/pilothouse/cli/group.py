"""The table of commands. A command's module is imported when it runs, not for `--help`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import click

from pilothouse import __version__

if TYPE_CHECKING:
    from typing_extensions import override
else:

    def override(method):
        return method


COMMANDS: dict[str, tuple[str, str]] = {
    "chat": ("pilothouse.cli.chat:command", "Talk to an engine here, in this terminal."),
    "rpc": ("pilothouse.cli.rpc:command", "Serve a program with its own interface: JSON-RPC on pipes."),
    "acp": ("pilothouse.cli.acp:command", "Be the agent of an editor: the Agent Client Protocol."),
    "up": ("pilothouse.cli.up:command", "Run the gateway: every channel, every engine."),
    "service": ("pilothouse.cli.service:command", "Keep the gateway running in the background."),
    "discord": ("pilothouse.cli.discord:command", "Connect this folder to one Discord channel."),
    "init": ("pilothouse.cli.init:command", "Set up, in at most four questions."),
    "doctor": ("pilothouse.cli.doctor:command", "Try everything that is needed, and name the fix."),
    "status": ("pilothouse.cli.status:command", "Show what runs, what is connected, what waits for you."),
    "sessions": ("pilothouse.cli.sessions:command", "List past sessions; `sessions export` prints one."),
    "search": ("pilothouse.cli.search:command", "Find words in all conversations."),
    "turns": ("pilothouse.cli.turns:command", "List the turns, newest first."),
    "trace": ("pilothouse.cli.trace:command", "Show what happened to a message, step by step."),
    "replay": ("pilothouse.cli.replay:command", "Turn an engine's recorded output into events."),
    "tasks": ("pilothouse.cli.tasks:command", "List, add, run and change tasks at set times."),
    "lanes": ("pilothouse.cli.lanes:command", "Let an agent work in a git worktree of its own."),
    "asks": ("pilothouse.cli.asks:command", "List open asks, and answer them."),
    "users": ("pilothouse.cli.users:command", "List, grant and revoke roles of people."),
    "pair": ("pilothouse.cli.pair:command", "Show a code that lets somebody in."),
    "watch": ("pilothouse.cli.watch:command", "Watch a running Claude Code session, read-only."),
    "rules": ("pilothouse.cli.rules:command", "List, add and remove rules."),
    "trust": ("pilothouse.cli.trust:command", "Let engines use a folder's own settings and hooks."),
    "untrust": ("pilothouse.cli.trust:untrust_command", "Ignore a folder's own settings and hooks again."),
    "mcp": ("pilothouse.cli.mcp:command", "List, add, switch and test MCP servers."),
    "cost": ("pilothouse.cli.cost:command", "Sum what turns cost, by cause, place, engine or day."),
    "audit": ("pilothouse.cli.audit:command", "List who did what; `audit verify` detects changes."),
    "metrics": ("pilothouse.cli.metrics:command", "Print metrics for Prometheus."),
    "backup": ("pilothouse.cli.backup:command", "Save everything in one verified file."),
    "restore": ("pilothouse.cli.backup:restore_command", "Put a backup in place."),
    "engines": ("pilothouse.cli.engines:command", "List the engines, and whether they work here."),
    "channels": ("pilothouse.cli.channels:command", "List the channels, and whether they can start."),
    "config": ("pilothouse.cli.config:command", "Show, find or check the configuration."),
}


class LazyGroup(click.Group):
    """Commands from the table and from plugins; a plugin cannot take a built-in's name."""

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *_plugin_commands()]

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS:
            module, _, name = COMMANDS[cmd_name][0].partition(":")
            return getattr(import_module(module), name)
        if cmd_name in _plugin_commands():
            from pilothouse.plugins import Plugins

            return Plugins().command(cmd_name)
        return None

    @override
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] == "help":  # people try it first
            args = [*args[1:2], "--help"] if len(args) > 1 else ["--help"]
        if args == ["--help"]:
            print(ctx.get_help())
            ctx.exit()
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            ctx.fail(f"there is no command {args[0]!r}{self._nearest(ctx, args[0])}")
        name, command, rest = super().resolve_command(ctx, args)
        if name is not None and command is not None:
            from pilothouse.cli.engine_guard import refuse_engines

            refuse_engines(name, command, rest)
        return name, command, rest

    def _nearest(self, ctx: click.Context, word: str) -> str:
        import difflib

        found = difflib.get_close_matches(word, self.list_commands(ctx), n=1)
        return f"; did you mean {found[0]}?" if found else ""

    @override
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])
        if added := _plugin_commands():
            with formatter.section("Commands of plugins"):
                formatter.write_dl([(name, f"from {dist}") for name, dist in added.items()])


def _plugin_commands() -> dict[str, str]:
    """Returns names and packages without importing any of them."""
    from pilothouse.plugins import Plugins

    return {row.name: row.dist for row in Plugins().found("commands") if row.name not in COMMANDS}


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, "-V", "--version", message="pilothouse %(version)s")
def pilothouse() -> None:
    """Steer your coding agent from your phone, your team's chat and your terminal."""
