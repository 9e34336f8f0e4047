"""Start of `pilothouse up` with every engine configured, against one. Programs start when they are first needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.measuring.starts import CONFIG, up_once
from bench.measuring.statistics import median
from bench.measuring.table import Row
from tests.docs.engine_table import built_in
from tests.engines.claude.binary import claude_binary
from tests.engines.codex.binary import codex_binary
from tests.engines.opencode.binary import opencode_binary

ROUNDS = 7
BOUND = 1.2
ALONE = "script"
PROGRAMS: Mapping[str, Callable[[], Path]] = {
    "claude": claude_binary,
    "codex": codex_binary,
    "opencode": opencode_binary,
}


def measure() -> list[Row]:
    ids = [str(spec.id) for spec in built_in() if spec.id != ALONE]
    sides = {False: "\n".join(_off(id) for id in ids), True: "\n".join(_on(id) for id in ids)}
    took: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for _ in range(ROUNDS):
        for every, sections in sides.items():
            with TemporaryDirectory(prefix="pilothouse-up-") as home:
                (Path(home) / "config.toml").write_text(CONFIG + sections)
                seconds, computed, _ = up_once(home, settle_s=0.0)
                took[every].append((seconds, computed))
    (one, one_cpu), (all_s, all_cpu) = _medians(took[False]), _medians(took[True])
    detail = f"{all_s:.2f} s with {', '.join([*ids, ALONE])}, {one:.2f} s with {ALONE} alone; {ROUNDS} starts each; "
    detail += f"{all_cpu:.2f} s against {one_cpu:.2f} s of CPU"
    return [Row("`up`: start with all engines against one", all_s / one, BOUND, "×", detail)]


def _medians(pairs: list[tuple[float, float]]) -> tuple[float, float]:
    return median([seconds for seconds, _ in pairs]), median([computed for _, computed in pairs])


def _off(id: str) -> str:
    return f"[engines.{id}]\nenabled = false\n"


def _on(id: str) -> str:
    program = f'command = "{PROGRAMS[id]()}"\n' if id in PROGRAMS else ""
    return f"[engines.{id}]\nenabled = true\n{program}"
