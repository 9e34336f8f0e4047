"""A warm turn through a whole gateway, against the bare program: from the message to the engine's first delta.

The two sides alternate, each with a session of its own and with a pause between turns, so that both see the same machine.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from bench.driving.warm import Side, TimedEngine
from bench.hosting.contestants import MODULES, Contestant, contestant
from bench.measuring.house import Person, open_house, open_store
from bench.measuring.statistics import median, quantile
from bench.measuring.table import Row

from pilothouse.core.ids import EngineId

WARM = 8
TURNS = 80
PAUSE_S = 0.1
BOUND_MS = 15


def measure() -> list[Row]:
    return [row for name in MODULES for row in _measure(name, contestant(name))]


def _measure(name: str, one: Contestant) -> list[Row]:
    with TemporaryDirectory(prefix=f"pilothouse-{name}-") as folder, one.serving() as url:
        ours, bare, computed = anyio.run(_alternate, name, one, Path(folder), url)
    above = median([mine - theirs for mine, theirs in zip(ours, bare, strict=True)])
    told = f"{_ms(median(ours))} against {_ms(median(bare))}, {len(ours)} turns each; "
    told += f"p90 {_ms(quantile(ours, 0.9))} against {_ms(quantile(bare, 0.9))}"
    return [
        Row(
            f"{name}: warm turn, message → first delta, above the bare program, p50",
            above * 1e3,
            BOUND_MS,
            "ms",
            told,
        ),
        Row(f"{name}: what our process computes until then, p50", median(computed) * 1e3, None, "ms"),
    ]


async def _alternate(
    name: str, one: Contestant, folder: Path, url: str
) -> tuple[list[float], list[float], list[float]]:
    for part in ("ours", "bare"):
        (folder / part).mkdir()
        one.prepare(folder / part, url)
    program, person = one.program(), Person()
    timed = TimedEngine(one.engine(folder / "ours", url, program))
    ours: list[float] = []
    theirs: list[float] = []
    async with (
        open_store(folder / "ours") as store,
        open_house(store, folder / "ours", person, {EngineId(name): timed}),
    ):
        side = Side(person, timed)
        with one.bare(folder / "bare", url, program) as bare:
            for number in range(WARM + TURNS):
                # After a turn a program still works: each side follows itself as often as the other one.
                for which in (ours, theirs) if number % 2 else (theirs, ours):
                    await anyio.sleep(PAUSE_S)
                    text = f"message {number}"
                    which.append(await side.turn(text) if which is ours else bare.turn(text))
    return ours[WARM:], theirs[WARM:], side.computed[WARM:]


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms"
