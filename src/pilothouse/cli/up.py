"""`pilothouse up`: the gateway, until somebody stops it."""

from __future__ import annotations

import click


@click.command("up")
@click.option("--safe", is_flag=True, help="Start without resuming turns that were lost.")
def command(safe: bool) -> int:
    """Run the gateway: every channel, every engine."""
    from pilothouse.bootstrap.up import run_up

    return run_up(safe=safe)
