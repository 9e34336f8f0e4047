"""`pilothouse chat`: talks to an engine in this terminal."""

from __future__ import annotations

import sys

import click

from pilothouse.cli.options import approval_mode_option, trust_option


@click.command("chat")
@click.argument("text", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print events, one JSON object per line.")
@click.option("--engine", help="Which engine answers.")
@click.option("--model", help="Which of the engine's models.")
@click.option("--workspace", type=click.Path(), help="The folder to work in.")
@approval_mode_option
@click.option("--new", is_flag=True, help="Begin a new session.")
@click.option("--message", default="", help="Send this first, and stay. TEXT sends and leaves.")
@click.option("--verbose", is_flag=True, help="Show every step.")
@trust_option
def command(
    text: str | None,
    as_json: bool,
    engine: str | None,
    model: str | None,
    workspace: str | None,
    approval_mode: str | None,
    new: bool,
    message: str,
    verbose: bool,
    trusts: bool | None,
) -> int:
    """Talk to an engine here. With TEXT: one turn, and the answer alone on standard output."""
    from pilothouse.bootstrap.chat import run_chat
    from pilothouse.cli.trust import settle_trust

    if message and (text is not None or not sys.stdin.isatty()):
        raise click.UsageError("--message needs a terminal, and no TEXT beside it.")
    settle_trust([workspace or "."], trusts, ask=not as_json)

    return run_chat(
        text=text,
        as_json=as_json,
        engine=engine,
        model=model,
        workspace=workspace,
        approval_mode=approval_mode,
        new=new,
        verbose=verbose,
        first=message,
    )
