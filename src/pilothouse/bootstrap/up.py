"""`pilothouse up`: runs the gateway until it is stopped."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from pilothouse import __version__
from pilothouse.bootstrap.app import (
    DEMO,
    App,
    build_channels,
    build_engines,
    default_engine,
    name_engine,
    open_app,
    reload_on_change,
)
from pilothouse.bootstrap.assembly import make_ports
from pilothouse.bootstrap.configuration import missing_folders
from pilothouse.bootstrap.connections import Connections
from pilothouse.bootstrap.dedicated import report_edit
from pilothouse.bootstrap.engine_reports import check_login
from pilothouse.bootstrap.machine import this_node, tilde
from pilothouse.bootstrap.process import (
    adopt_orphans,
    freeze_collector,
    relax_collector,
    run,
    say_leaving,
    stop_on_signal,
)
from pilothouse.bootstrap.terminal_text import say
from pilothouse.config import AUTO
from pilothouse.logs.sinks import Entry
from pilothouse.runtime.gateway import Gateway

NO_ENGINE = "no coding agent works here yet, so the demo answers. To get one: {fix}, and log in. It takes over without a restart."


def run_up(*, safe: bool = False, verbose: bool = False, approval_mode: str | None = None) -> int:
    return run(partial(_up, safe=safe, verbose=verbose, approval_mode=approval_mode))


async def _up(*, safe: bool, verbose: bool, approval_mode: str | None) -> int:
    relax_collector()
    flags = {"policy.approval_mode": approval_mode} if approval_mode else None
    shown = None if verbose else is_for_operators
    async with open_app(on_terminal=True, shown=shown, flags=flags) as app:
        engines, channels = build_engines(app), build_channels(app)
        ports = make_ports(app, engines, channels, safe=safe)
        started = anyio.Event()
        gateway = Gateway(
            ports,
            this_node("pilothouse up"),
            on_ready=started.set,
            on_stopping=partial(_say_stopping, app),
        )
        freeze_collector()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stop_on_signal, gateway.stop)
            tasks.start_soon(_report, app, Connections(channels, gateway.health, app.clock, say), started)
            tasks.start_soon(reload_on_change, app, report_edit)
            tasks.start_soon(adopt_orphans)
            await gateway.run()
            tasks.cancel_scope.cancel()
    return 0


def is_for_operators(entry: Entry) -> bool:
    """Selects log entries for the terminal: warnings and errors. The state of channels is reported in sentences."""
    event = str(entry["event"])
    is_told = event in ("channel.in_trouble", "channel.well_again") or event.endswith(".trouble")
    return entry["level"] in ("warning", "error") and not is_told


async def _report(app: App, connections: Connections, started: anyio.Event) -> None:
    """Says that the gateway is ready once its channels are connected, and from then on what changes."""
    await started.wait()
    connected = await connections.settle()
    say(ready_line(app, connected, has_channels=connections.has_channels))
    for text in [*_warnings(app), *await _login_warning(app)]:
        say(f"warning: {text}")
    await connections.report()


def ready_line(app: App, connected: Sequence[str], *, has_channels: bool) -> str:
    folder = app.config.gateway.default_workspace
    where = tilde(Path(folder).expanduser()) if folder else "no folder chosen"
    names = ", ".join(connected) or "no channels: pilothouse chat talks to it"
    state = "is ready" if connected or not has_channels else "is running, but no channel is connected"
    parts = [f"pilothouse {__version__} {state}", name_engine(app, default_engine(app)), where]
    return " · ".join([*parts, names] if connected or not has_channels else parts)


def _warnings(app: App) -> Iterator[str]:
    """Names what will make turns fail. No reason to stop: it can be fixed while the gateway runs."""
    id = default_engine(app)
    status = app.status_of(app.plugins.engine(id))
    if id == DEMO and app.config.gateway.default_engine == AUTO:
        fix = next((status.fix for status in app.statuses.values() if status.fix), "pilothouse engines")
        yield NO_ENGINE.format(fix=fix)
    if not status.available:
        fix = f" → {status.fix}" if status.fix else ""
        yield f"engine {id}: {status.problem}{fix}"
    yield from map(str, missing_folders(app.holder.loaded))


async def _login_warning(app: App) -> list[str]:
    """Names a missing login of the engine that answers, to a person at the terminal. It starts the engine's program."""
    id = default_engine(app)
    spec, adapter = app.plugins.engine(id), app.config.engines.get(id)
    if not sys.stderr.isatty() or adapter is None or not app.status_of(spec).available:
        return []
    login = await anyio.to_thread.run_sync(check_login, spec, adapter, abandon_on_cancel=True)
    return [] if login is None or login.available else [f"engine {id}: {login.problem} → {login.fix}"]


def _say_stopping(app: App, running: int) -> None:
    """Speaks even when no turn runs: answers may still have to be delivered."""
    say_leaving(app.config.gateway.grace_s, running, idle="Stopping. Ctrl-C again leaves at once.")
