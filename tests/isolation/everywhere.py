"""Runs the tests with real engines inside jails: `PILOTHOUSE_TEST_JAIL=open ./check tests tests/engines/claude`, or `model`."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from pilothouse.core.engine import EngineHost
from pilothouse.core.isolation import Isolation
from pilothouse.isolation.jail import Jails, Places

NETWORK = os.environ.get("PILOTHOUSE_TEST_JAIL", "")


def maybe_jailed(host: EngineHost, home: Path) -> EngineHost:
    """Return the host as it is, or with jails if the environment says so."""
    if not NETWORK:
        return host
    isolation = msgspec.convert({"kind": "jail", "network": NETWORK}, Isolation)
    made = Jails(lambda workspace: isolation, Places(str(home.parent / "jails"), (), str(home)), host.log)
    return msgspec.structs.replace(host, jail=made.open, isolation=made.isolation)
