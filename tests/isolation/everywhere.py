"""Runs tests with real engines inside jails: their rigs ask here for their host."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

import msgspec

from pilothouse.core.engine import EngineHost
from pilothouse.core.isolation import Isolation, Network
from pilothouse.isolation.jail import Jails, Places

_JAILED: ContextVar[Isolation | None] = ContextVar("jailed", default=None)


@contextmanager
def jailed(network: Network) -> Iterator[None]:
    """Jail the engines of all rigs that are made inside of the block."""
    before = _JAILED.set(Isolation("jail", network=network))
    try:
        yield
    finally:
        _JAILED.reset(before)


def maybe_jailed(host: EngineHost, home: Path) -> EngineHost:
    """Return the host as it is, or with jails inside of `jailed`."""
    isolation = _JAILED.get()
    if isolation is None:
        return host
    made = Jails(lambda workspace: isolation, Places(str(home.parent / "jails"), (), str(home)), host.log)
    return msgspec.structs.replace(host, jail=made.open, isolation=made.isolation)
