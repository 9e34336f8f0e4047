"""`pilothouse rpc`: a program of this machine as a channel, in its own gateway or beside one that runs."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import anyio
import anyio.to_thread

from pilothouse import __version__
from pilothouse.bootstrap.app import (
    DEMO,
    App,
    channel_host,
    engine_environment,
    engine_names,
    engine_problem,
    engine_specs,
    engine_state,
)
from pilothouse.bootstrap.binding import Bound, ChatOptions, bind, usable_engine
from pilothouse.bootstrap.mcp_servers import find_servers
from pilothouse.bootstrap.people import terminal_user
from pilothouse.bootstrap.stdio import Pipes, id_maker, serve_client, this_person
from pilothouse.config import AUTO, mode_in
from pilothouse.core.channel import Channel
from pilothouse.core.engine import NODE_MARKER, EngineSpec, ProcessStart
from pilothouse.core.errors import ConfigError
from pilothouse.core.ids import EngineId
from pilothouse.core.mcp import McpServer
from pilothouse.core.message import Address
from pilothouse.core.outcome import ModelCallRecord
from pilothouse.core.policy import ApprovalMode, parse_mode
from pilothouse.core.turn import Turn
from pilothouse.runtime.conversations.binding import pick_mode, picked_mode
from pilothouse.runtime.ports import new_id
from pilothouse.runtime.trust import look_at_trust

NATIVE = EngineId("native")
SHELL_BYTES = 10 * 1024 * 1024


class ClientOptions:
    """Flags of the command line."""

    def __init__(
        self,
        *,
        engine: str | None = None,
        model: str | None = None,
        workspace: str | None = None,
        approval_mode: str | None = None,
        on_disconnect: Literal["finish", "cancel"] = "finish",
    ) -> None:
        self.folder = Path(workspace or os.getcwd()).expanduser().resolve()
        if not self.folder.is_dir():
            raise ConfigError(
                f"The workspace {self.folder} does not exist. Create the folder, or name another."
            )
        mode = None if approval_mode is None else parse_mode(approval_mode)
        self.chat = ChatOptions(engine, model, mode)
        self.on_disconnect: Literal["finish", "cancel"] = on_disconnect


def run_rpc(options: ClientOptions) -> int:
    """Serves the client on standard input and output until it leaves."""
    return serve_client("pilothouse rpc", partial(_make_channel, options))


async def _make_channel(options: ClientOptions, app: App, pipes: Pipes) -> Channel:
    from pilothouse.channels.rpc.connection import RPC, Defaults, RpcSetup, ShellEnd
    from pilothouse.channels.rpc.server import RpcServer
    from pilothouse.channels.stdio_channel import StdioChannel

    async def bind_here(address: Address) -> Bound:
        """Bind a new session, with the flags, or the folder's own conversation, whose choices are stored, without them."""
        flags = defaults if address.thread else Defaults()
        chosen = ChatOptions(flags.engine or None, flags.model or None, options.chat.mode)
        return await bind(app, address, options.folder, chosen, private=True)

    async def shell(command: str, folder: Path, within_s: float) -> ShellEnd:
        return ShellEnd(*await run_command(app, command, folder, within_s))

    token = new_id("rpc")
    diagnostics = "1" in (os.environ.get("PILOTHOUSE_DIAGNOSTICS"), os.environ.get("CODELIA_DIAGNOSTICS"))
    defaults = Defaults()
    bound = await bind_here(Address(RPC, str(options.folder)))
    engine = await choose_engine(app, options.chat.engine, bound)
    defaults = Defaults(engine if engine != bound.engine else "", options.chat.model or "")
    setup = RpcSetup(
        folder=options.folder,
        author=this_person(),
        defaults=defaults,
        version=__version__,
        bind=bind_here,
        run_shell=shell,
        new_id=id_maker(token),
        list_mcp=partial(list_mcp, app, options.folder),
        compact_lines={spec.id: spec.compact_line for spec in engine_specs(app)},
        providers={spec.id: spec.providers for spec in engine_specs(app)},
        tool_lines={spec.id: spec.tool_line for spec in engine_specs(app)},
        log_outs={spec.id: partial(log_out, app, spec) for spec in engine_specs(app) if spec.log_out},
        read_calls=partial(read_calls, app) if diagnostics else None,
        pick_mode=await mode_picker(app, options, engine),
        on_disconnect=options.on_disconnect,
        home=Path.home(),
    )
    serve = partial(RpcServer, setup, channel_host(app, RPC))
    return StdioChannel(RPC, serve, stdin=pipes.stdin, stdout=pipes.stdout, token=token)


async def choose_engine(app: App, flag: str | None, bound: Bound) -> EngineId:
    """Return the engine of new sessions. Where nobody chose one and no other works, it is our own, not the demo: its first
    run asks the client for a provider and a key."""
    if flag:
        return await usable_engine(app, flag)
    is_open = not bound.is_named and app.config.gateway.default_engine == AUTO
    works = NATIVE in engine_names(app).values() and not await engine_problem(app, NATIVE)
    return NATIVE if bound.engine == DEMO and is_open and works else bound.engine


async def mode_picker(
    app: App, options: ClientOptions, engine: EngineId
) -> Callable[[str], Awaitable[None]] | None:
    """Return what stores the approval mode that a person picks; None where there is nothing to pick."""
    folder = options.folder
    if options.chat.mode or engine == DEMO or mode_in(app.holder.loaded, folder):
        return None
    if await app.store.read(lambda tx: picked_mode(tx, os.path.realpath(folder))):
        return None

    async def pick(word: str) -> None:
        mode: ApprovalMode = parse_mode(word)
        at, by = app.clock.now(), terminal_user()
        await app.store.write(lambda tx: pick_mode(tx, str(folder), mode, at, by))

    return pick


async def log_out(app: App, spec: EngineSpec) -> tuple[Sequence[str], str]:
    """Remove the keys that people gave the engine: their names, and the model that a key elsewhere still serves."""
    assert spec.log_out is not None
    removed = await anyio.to_thread.run_sync(spec.log_out, str(engine_state(app, spec.id)))
    status = spec.probe(app.config.engines[spec.id].settings)
    app.log("engine.logged_out", engine=spec.id, removed=list(removed))
    return removed, status.version if status.available else ""


def read_calls(app: App, turn: Turn) -> Sequence[ModelCallRecord]:
    """Read the requests of a turn from the engine's own log; none if its program makes them itself."""
    read = app.plugins.engine(turn.engine).read_calls
    if read is None:
        return ()
    return read(str(engine_state(app, turn.engine)), turn.id, turn.started_at or turn.created_at)


async def list_mcp(app: App, folder: Path) -> list[tuple[Any, ...]]:
    """List the configured MCP servers, and those of the folder that would count if it were trusted."""
    real, files = os.path.realpath(folder), app.plugins.trusted_files()  # noqa: ASYNC240 - one folder
    trust = await app.store.read(lambda tx: look_at_trust(tx, real, files))
    trusted = trust is not None and trust.holds
    counted = find_servers(app.holder.loaded, app.log, str(folder), trusted)
    known = counted if trusted else find_servers(app.holder.loaded, app.log, str(folder), True)
    return [
        (id, server.transport, source, server.enabled, _state(server, id in counted), server.target)
        for id, (server, source) in known.items()
    ]


def _state(server: McpServer, counts: bool) -> str:
    if not counts:
        return "untrusted"
    return "configured" if server.enabled else "disabled"


async def run_command(
    app: App, command: str, folder: Path, within_s: float
) -> tuple[bytes, bytes, int | None, float, str]:
    """Run a shell command to its end, or stop it with all that it started: output, exit code, seconds, problem."""
    from pilothouse.processes import Launcher, ProcessLimits, SpawnFailed, allowed_environment

    own = allowed_environment(
        engine_environment(os.environ, app.holder.loaded), extra={NODE_MARKER: app.marker}
    )
    start = ProcessStart("shell command", ("bash", "-c", command), str(folder), own, workspace=str(folder))
    began, output, problem, exit_code = time.monotonic(), bytearray(), "", None
    try:
        async with Launcher().open(start, ProcessLimits(stderr_tail_bytes=SHELL_BYTES + 1)) as process:
            process.close_input()
            with anyio.move_on_after(within_s) as limit:
                while portion := await process.read_output():
                    output += portion
                    if len(output) > SHELL_BYTES:
                        problem = f"It wrote more than {SHELL_BYTES // 1_048_576} MB and was stopped."
                        break
                else:
                    exit_code = await process.wait()
            if limit.cancelled_caught:
                problem = f"It took longer than {within_s:.0f} seconds and was stopped."
            stderr = process.stderr_tail().encode()
            if len(stderr) > SHELL_BYTES and not problem:
                problem = (
                    f"It wrote more than {SHELL_BYTES // 1_048_576} MB of errors. The end of them is kept."
                )
    except SpawnFailed as error:
        return b"", b"", None, time.monotonic() - began, f"It did not start: {error}"
    return bytes(output), stderr, exit_code, time.monotonic() - began, problem
