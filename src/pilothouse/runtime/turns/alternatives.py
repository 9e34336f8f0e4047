"""Other engines for a turn that its own could not begin: the login is dead, the quota used up, or the program missing."""

from __future__ import annotations

import anyio

from pilothouse.core.ids import EngineId
from pilothouse.core.outcome import Failure, FailureKind
from pilothouse.runtime.ports import Ports

UNAVAILABLE: frozenset[FailureKind] = frozenset({"auth", "quota"})
CHECKED_WITHIN_S = 5.0
MOST = 2


async def find_alternatives(ports: Ports, engine: EngineId, failure: Failure | None) -> tuple[EngineId, ...]:
    """Return engines that work, if the failure says that this one is not available. The checks may start programs, and
    the end of the turn waits for them, so their time is limited."""
    settings = ports.settings()
    known = set(settings.engine_names.values()) & set(ports.engines)
    others = known - {engine, settings.demo_engine}
    with anyio.move_on_after(CHECKED_WITHIN_S):
        if not others or failure is None or not await _is_unavailable(ports, engine, failure):
            return ()
        reports = await ports.engine_reports()
        return tuple(EngineId(one.id) for one in reports if one.works and one.id in others)[:MOST]
    return ()


async def _is_unavailable(ports: Ports, engine: EngineId, failure: Failure) -> bool:
    if failure.kind in UNAVAILABLE:
        return True
    return failure.kind == "bad_request" and (
        engine not in ports.engines or bool(await ports.engine_problem(engine))
    )
