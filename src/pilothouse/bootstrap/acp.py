"""`pilothouse acp`: an editor as a channel, in its own gateway or beside one that runs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from pilothouse import __version__
from pilothouse.bootstrap.app import App, channel_host
from pilothouse.bootstrap.binding import ChatOptions, bind
from pilothouse.bootstrap.client_servers import open_client_servers
from pilothouse.bootstrap.people import terminal_user
from pilothouse.bootstrap.stdio import Pipes, id_maker, serve_client, this_person
from pilothouse.config import mode_in
from pilothouse.core.channel import Channel
from pilothouse.core.errors import PilothouseError
from pilothouse.core.ids import ConversationId
from pilothouse.core.mcp import McpServer
from pilothouse.core.message import Address
from pilothouse.core.policy import ApprovalMode, parse_mode
from pilothouse.runtime.conversations.binding import pick_mode
from pilothouse.runtime.ports import new_id

BY_CONFIG = "The configuration sets {mode} for {folder}. `pilothouse config show` says where."
BY_FLAG = "The approval mode was set to {mode} when Pilothouse was started. Start it without --approval-mode."


def run_acp(*, engine: str | None = None, model: str | None = None, approval_mode: str | None = None) -> int:
    """Serves the editor on standard input and output until it leaves."""
    mode = None if approval_mode is None else parse_mode(approval_mode)
    with ExitStack() as stack:
        make = partial(_make_channel, ChatOptions(engine, model, mode), stack)
        return serve_client("pilothouse acp", make)


async def _make_channel(chosen: ChatOptions, stack: ExitStack, app: App, pipes: Pipes) -> Channel:
    from pilothouse.channels.acp.connection import ACP, AcpSetup
    from pilothouse.channels.acp.server import AcpServer
    from pilothouse.channels.stdio_channel import StdioChannel

    async def bind_session(address: Address, folder: Path) -> None:
        await bind(app, address, folder, chosen, private=True)

    token = new_id("acp")
    kept = stack.enter_context(open_client_servers(app.holder.loaded.paths.state_dir, token))

    async def keep_servers(conversation: ConversationId, servers: Mapping[str, McpServer]) -> None:
        try:
            kept.keep(conversation, servers)
        except OSError as error:
            raise PilothouseError(f"The MCP servers cannot be kept: {error.strerror}.") from error

    pick = partial(_pick, app, chosen.mode)
    setup = AcpSetup(this_person(), __version__, bind_session, pick, keep_servers, id_maker(token))
    serve = partial(AcpServer, setup, channel_host(app, ACP))
    return StdioChannel(ACP, serve, stdin=pipes.stdin, stdout=pipes.stdout, token=token)


async def _pick(app: App, fixed: ApprovalMode | None, folder: Path, word: str) -> str:
    """Store the mode that a person picked for a folder. Return why it cannot be picked; empty if it was."""
    if fixed is not None:
        return "" if word == fixed else BY_FLAG.format(mode=fixed)
    if configured := mode_in(app.holder.loaded, folder):
        return "" if word == configured else BY_CONFIG.format(mode=configured, folder=folder)
    mode, at, by = parse_mode(word), app.clock.now(), terminal_user()
    await app.store.write(lambda tx: pick_mode(tx, str(folder), mode, at, by))
    return ""
