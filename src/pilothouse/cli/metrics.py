"""`pilothouse metrics`: figures from the store in Prometheus' text format, printed once or served on loopback."""

from __future__ import annotations

import ipaddress
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from pilothouse import __version__
from pilothouse.cli.status import Status, gateway_of, look, serves_configured
from pilothouse.cli.store import load_plain, read_store, store_file
from pilothouse.config import ALWAYS_ON
from pilothouse.core.budget import Spent
from pilothouse.core.errors import ConfigError, PilothouseError
from pilothouse.core.store import Tx

if TYPE_CHECKING:
    from typing_extensions import override
else:

    def override(method):
        return method


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
LIVE = ("running", "waiting", "parked", "queued", "lost")


class Figures(Struct, frozen=True):
    """Everything that is measured, read in one transaction."""

    status: Status
    spent: list[Spent]
    audit_rows: int


@click.command("metrics")
@click.option(
    "--listen", metavar="HOST:PORT", help="Serve them at /metrics until Ctrl-C, such as 127.0.0.1:9464."
)
def command(listen: str | None) -> None:
    """Print metrics for Prometheus: what runs, what waits, what it cost."""
    if listen is None:
        sys.stdout.write(collect())
        return
    host, port = parse_address(listen)
    with make_server(host, port, collect) as server:
        print(f"http://{host}:{server.server_port}/metrics", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:  # the way to end it
            return


def parse_address(text: str) -> tuple[str, int]:
    """Parses `HOST:PORT`. Raises `ConfigError` unless the host is a loopback address: the figures are not for others."""
    host, _, port = text.rpartition(":")
    try:
        is_loopback = ipaddress.ip_address(
            "127.0.0.1" if host == "localhost" else host.strip("[]")
        ).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"{text!r} is not an address of this machine alone: write 127.0.0.1:9464.")
    return ("127.0.0.1" if host == "localhost" else host), int(port)


def make_server(host: str, port: int, collect: Callable[[], str]) -> ThreadingHTTPServer:
    try:
        return ThreadingHTTPServer((host, port), partial(_Handler, collect))
    except OSError as error:
        raise ConfigError(f"{host}:{port} cannot be used: {error.strerror}. Name another port.") from error


class _Handler(BaseHTTPRequestHandler):
    timeout = 10.0

    def __init__(self, collect: Callable[[], str], *rest: object) -> None:
        self._collect = collect
        super().__init__(*rest)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != "/metrics":
            self.send_error(404)
            return
        try:
            code, text = 200, self._collect()
        except PilothouseError as error:
            code, text = 503, f"# {error}\n"
        data = text.encode()
        self.send_response(code)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    @override
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the standard library
        """Print nothing: a scrape every 15 seconds is no news."""


def collect() -> str:
    config, now = load_plain().config, time.time()
    enabled = [id for id, row in config.channels.items() if row.enabled and id != ALWAYS_ON]

    def unit(tx: Tx) -> Figures:
        return Figures(look(tx, now, enabled), tx.spending.of(), tx.audit.head().seq)

    figures = read_store(unit) or Figures(Status([], [], [], [], []), [], 0)
    file = store_file(config.store)
    size = file.stat().st_size if file and file.exists() else 0
    return render(figures, enabled, now, size)


def render(figures: Figures, enabled: list[str], now: float, store_bytes: int) -> str:
    status, gateway = figures.status, gateway_of(figures.status, now)
    waiting = {"inbox": sum(q.inbox for q in status.queues), "outbox": sum(q.outbox for q in status.queues)}
    turns = {name: sum(turn.status == name for turn in status.turns) for name in LIVE}
    notes = {id: status.channels.get(id) for id in enabled}
    is_served = gateway is not None and serves_configured(gateway)
    well = {id: bool(is_served and note and note.heard_at and not note.trouble) for id, note in notes.items()}
    heard = {id: note.heard_at for id, note in notes.items() if note and note.heard_at}
    parts = [
        _metric("build_info", "The version that measured.", "gauge", "version", {__version__: 1}),
        _single("up", "1 while a gateway runs.", "gauge", 1 if gateway else 0),
        _metric("channel_connected", "1 while the channel is connected and well.", "gauge", "channel", well),
        _metric(
            "channel_heard_timestamp_seconds", "When the platform was last heard.", "gauge", "channel", heard
        ),
        _metric("turns", "Turns that are not over, at most 50.", "gauge", "status", turns),
        _metric("messages_unfinished", "Messages in the queues.", "gauge", "queue", waiting),
        _single("asks_open", "Asks that wait for a person.", "gauge", len(status.asks)),
        _spending("turns_total", "Turns that ended.", figures.spent, lambda row: row.turns),
        _spending(
            "cost_dollars_total", "Cost as the engines report it.", figures.spent, lambda row: row.cost_usd
        ),
        _single("audit_rows_total", "Rows of the audit log.", "counter", figures.audit_rows),
        _single("store_bytes", "Size of the store's main file.", "gauge", store_bytes),
    ]
    return "".join(line for part in parts for line in part)


def _spending(name: str, text: str, rows: list[Spent], value: Callable[[Spent], float]) -> Iterator[str]:
    sums: dict[str, float] = {}
    for row in rows:
        sums[row.engine] = sums.get(row.engine, 0) + value(row)
    return _metric(name, text, "counter", "engine", sums)


def _single(name: str, text: str, kind: str, value: float) -> Iterator[str]:
    yield f"# HELP pilothouse_{name} {text}\n# TYPE pilothouse_{name} {kind}\npilothouse_{name} {_number(value)}\n"


def _metric(name: str, text: str, kind: str, label: str, values: Mapping[str, float]) -> Iterator[str]:
    yield f"# HELP pilothouse_{name} {text}\n# TYPE pilothouse_{name} {kind}\n"
    for key, value in values.items():
        escaped = key.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        yield f'pilothouse_{name}{{{label}="{escaped}"}} {_number(value)}\n'


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
