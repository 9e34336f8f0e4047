"""`pilothouse up`: runs the gateway until it is stopped."""

from __future__ import annotations

import click

from pilothouse.cli.options import approval_mode_option


@click.command("up")
@approval_mode_option
@click.option("--safe", is_flag=True, help="Start without resuming turns that were lost.")
@click.option("--verbose", is_flag=True, help="Print every entry of the log, not only warnings and errors.")
def command(safe: bool, verbose: bool, approval_mode: str | None) -> int:
    """Run the gateway: every channel, every engine."""
    from pilothouse.bootstrap.up import run_up
    from pilothouse.cli.store import load_plain
    from pilothouse.cli.trust import settle_trust

    config = load_plain().config
    settle_trust([config.gateway.default_workspace, *(row.path for row in config.workspaces.values())])

    return run_up(safe=safe, verbose=verbose, approval_mode=approval_mode)
