"""`pilothouse rpc`: JSON-RPC on standard input and output, for a program with its own interface."""

from __future__ import annotations

import click

from pilothouse.cli.options import approval_mode_option, trust_option


@click.command("rpc")
@click.option("--engine", help="Which engine answers.")
@click.option("--model", help="Which of the engine's models.")
@click.option("--workspace", type=click.Path(), help="The folder to work in.")
@approval_mode_option
@click.option(
    "--on-disconnect",
    type=click.Choice(["finish", "cancel"]),
    default="finish",
    show_default=True,
    help="What its runs do when the client leaves.",
)
@click.option("--schema", is_flag=True, help="Print the JSON schemas of the protocol and leave.")
@trust_option
def command(
    engine: str | None,
    model: str | None,
    workspace: str | None,
    approval_mode: str | None,
    on_disconnect: str,
    schema: bool,
    trusts: bool | None,
) -> int:
    """Serve one client on standard input and output: one JSON-RPC message per line. See docs/rpc.md."""
    if schema:
        from pilothouse.channels.rpc.schema import schema_text

        click.echo(schema_text())
        return 0
    from pilothouse.bootstrap.rpc import ClientOptions, run_rpc
    from pilothouse.cli.trust import settle_trust

    settle_trust([workspace or "."], trusts, ask=False)
    return run_rpc(
        ClientOptions(
            engine=engine,
            model=model,
            workspace=workspace,
            approval_mode=approval_mode,
            on_disconnect="cancel" if on_disconnect == "cancel" else "finish",
        )
    )
