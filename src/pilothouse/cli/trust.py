"""`pilothouse trust PATH` and `pilothouse untrust PATH`: whether a folder's own settings count."""

from __future__ import annotations

import os
import time

import click

from pilothouse.bootstrap.people import terminal_user
from pilothouse.cli.house import existing_folder, write_store
from pilothouse.runtime.trusting import trust, untrust

MEANING = """\
Trusted: {path}
Engines now obey what this folder brings along: its settings and hooks, its MCP servers, its CLAUDE.md.
All of that can run programs as you. `pilothouse untrust {path}` takes it back."""


@click.command("trust")
@click.argument("path", default=".")
def command(path: str) -> None:
    """Let engines obey the settings, hooks and servers that a folder brings along."""
    folder = existing_folder(path)
    write_store(lambda tx: trust(tx, folder, terminal_user(), time.time()))
    print(MEANING.format(path=folder))


@click.command("untrust")
@click.argument("path", default=".")
def untrust_command(path: str) -> None:
    """Take trust back: engines ignore what a folder brings along."""
    folder = os.path.realpath(os.path.expanduser(path))
    was = write_store(lambda tx: untrust(tx, folder, terminal_user(), time.time()))
    print(f"No longer trusted: {folder}" if was else f"It was not trusted: {folder}")
