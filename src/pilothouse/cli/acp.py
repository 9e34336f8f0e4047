"""`pilothouse acp`: the Agent Client Protocol on standard input and output, for editors."""

from __future__ import annotations

import click

from pilothouse.cli.options import approval_mode_option


@click.command("acp")
@click.option("--engine", help="Which engine answers.")
@click.option("--model", help="Which of the engine's models.")
@approval_mode_option
def command(engine: str | None, model: str | None, approval_mode: str | None) -> int:
    """Be the agent of an editor that speaks the Agent Client Protocol. See docs/channels/acp.md."""
    from pilothouse.bootstrap.acp import run_acp

    return run_acp(engine=engine, model=model, approval_mode=approval_mode)
