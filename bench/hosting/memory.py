"""Memory of the gateway per further engine in use, without the engine's own processes.

Each measurement is a fresh process with one gateway. It has some turns with the script engine, then, on one of the two
sides, as many with the engine in question; its resident memory is compared.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import anyio
from bench.measuring.house import Person, open_house, open_store
from bench.measuring.machine import rss_kb
from bench.measuring.script import open_script_engine
from bench.measuring.statistics import median
from bench.measuring.table import Row
from bench.measuring.turn import SCRIPT

from pilothouse.core.ids import EngineId

if TYPE_CHECKING:
    from bench.hosting.contestants import Contestant

ROUNDS = 5
TURNS = 20
BOUND_MB = 10


def measure() -> list[Row]:
    from bench.hosting.contestants import MODULES, contestant

    return [_measure(name, contestant(name)) for name in MODULES]


def _measure(name: str, one: Contestant) -> Row:
    program = one.program()
    with one.serving() as url:
        pairs = [(_run(one, "", url, ""), _run(one, name, url, program)) for _ in range(ROUNDS)]
    grown = median([used - alone for alone, used in pairs]) / 1024
    detail = f"{median([used for _, used in pairs]) / 1024:.1f} MB against {median([alone for alone, _ in pairs]) / 1024:.1f} MB"
    return Row(f"{name}: memory of the gateway, in use against not", grown, BOUND_MB, "MB", detail)


def _run(one: Contestant, name: str, url: str, program: str) -> int:
    with TemporaryDirectory(prefix="pilothouse-memory-") as folder:
        one.prepare(Path(folder), url)
        argv = [sys.executable, "-m", "bench.hosting.memory", folder, name, url, program]
        return int(subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout)


async def _use(folder: Path, name: str, url: str, program: str) -> int:
    person, engines = Person(), open_script_engine(folder, SCRIPT)
    if name:
        from bench.hosting.contestants import contestant  # its code counts, so only where it is used

        engines[EngineId(name)] = contestant(name).engine(folder, url, program)
    names = {str(id): id for id in engines}
    async with open_store(folder) as store, open_house(store, folder, person, engines, engine_names=names):
        for number in range(TURNS):
            await person.turn(f"message {number}")
        if name:
            await person.channel.say(f"/engine {name} fresh")
            for number in range(TURNS):
                await person.turn(f"further {number}")
        return rss_kb()


if __name__ == "__main__":
    _, made, named, at, found = sys.argv
    print(anyio.run(_use, Path(made), named, at, found))
