"""`pilothouse doctor`: one line per check, with the exact fix. Exit code 1 when something is broken."""

from __future__ import annotations

import os
import sys

import click
import msgspec

from pilothouse.bootstrap.terminal_text import columns_of, fit
from pilothouse.cli.checks import Check, examine
from pilothouse.cli.options import json_option
from pilothouse.cli.table import NARROWEST, plain, print_json, width

MARKS = {"ok": "✓", "warn": "!", "broken": "✗"}
COLOURS = {"ok": "32", "warn": "33", "broken": "31"}


@click.command("doctor")
@json_option
def command(as_json: bool) -> int:
    """Check everything, and name the exact fix."""
    checks = list(examine())
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
    """Never cut: a fix that is not whole is none. What is too long goes on below, broken at spaces alone."""
    mark = f"\x1b[{COLOURS[check.state]}m{MARKS[check.state]}\x1b[0m" if colour else MARKS[check.state]
    fix = f" → {plain(check.fix)}" if check.fix and check.state != "ok" else ""
    indent = " " * (room + 4)
    rows = fit(f"{indent}{plain(check.text)}{fix}", columns and max(NARROWEST, columns)).split("\n")
    return "\n".join([f"{mark} {check.name:<{room}}  {rows[0].lstrip()}".rstrip(), *rows[1:]])
