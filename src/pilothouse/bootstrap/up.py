"""`pilothouse up`: runs the gateway until it is stopped."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import anyio

from pilothouse import __version__
from pilothouse.bootstrap.app import (
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
from pilothouse.runtime.gateway import Gateway
from pilothouse.runtime.ports import Ports


def run_up(*, safe: bool = False, approval_mode: str | None = None) -> int:
    return run(partial(_up, safe=safe, approval_mode=approval_mode))


async def _up(*, safe: bool, approval_mode: str | None) -> int:
    relax_collector()
    flags = {"policy.approval_mode": approval_mode} if approval_mode else None
    async with open_app(on_terminal=True, flags=flags) as app:
        engines, channels = build_engines(app), build_channels(app)
        ports = make_ports(app, engines, channels, safe=safe)
        gateway = Gateway(
            ports,
            this_node("pilothouse up"),
            on_ready=partial(_say_ready, app, ports),
            on_stopping=partial(_say_stopping, app),
        )
        freeze_collector()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stop_on_signal, gateway.stop)
            tasks.start_soon(reload_on_change, app)
            tasks.start_soon(adopt_orphans)
            await gateway.run()
            tasks.cancel_scope.cancel()
    return 0


def _say_ready(app: App, ports: Ports) -> None:
    names = ", ".join(ports.channels) or "no channels: pilothouse chat talks to it"
    engine = name_engine(app, default_engine(app))
    folder = app.config.gateway.default_workspace
    where = tilde(Path(folder).expanduser()) if folder else "no folder chosen"
    say(f"pilothouse {__version__} is ready · {engine} · {where} · {names}")
    for text in _warnings(app):
        say(f"warning: {text}")


def _warnings(app: App) -> Iterator[str]:
    """Names what will make turns fail. No reason to stop: it can be fixed while the gateway runs."""
    id = default_engine(app)
    status = app.status_of(app.plugins.engine(id))
    if not status.available:
        fix = f" → {status.fix}" if status.fix else ""
        yield f"engine {id}: {status.problem}{fix}"
    yield from map(str, missing_folders(app.holder.loaded))


def _say_stopping(app: App, running: int) -> None:
    """Speaks even when no turn runs: answers may still have to be delivered."""
    say_leaving(app.config.gateway.grace_s, running, idle="Stopping. Ctrl-C again leaves at once.")
