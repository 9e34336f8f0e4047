"""How long plain commands and the gateway take to start, against a bare interpreter in the same run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.measuring.machine import cpu_s, rss_kb
from bench.measuring.statistics import median
from bench.measuring.table import Row

ROOT = Path(__file__).parents[2]
ROUNDS = 25
UPS = 7
SETTLE_S = 3.0
CONFIG = """
[gateway]
default_engine = "script"

[channels.memory]
enabled = true
"""
PLAIN = (["--version"], ["--help"], ["engines"], ["channels"], ["status"], ["sessions"], ["config", "path"])
IMPORTED = re.compile(r"^import time:\s+\d+ \|\s+(\d+) \| ( *)(\S+)$", re.MULTILINE)


def program() -> list[str]:
    """`pilothouse` of the environment that runs this, as a person would start it."""
    beside = Path(sys.executable).with_name("pilothouse")
    return [str(beside)] if beside.exists() else [sys.executable, "-m", "pilothouse"]


def environment(**extra: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PILOTHOUSE")}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    return kept | extra


def seconds(argv: Sequence[str], env: Mapping[str, str]) -> float:
    began = time.perf_counter()
    subprocess.run(argv, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - began


def measure_version() -> list[Row]:
    env, bare = environment(), [sys.executable, "-c", "pass"]
    ours = [*program(), "--version"]
    pairs = [(seconds(bare, env), seconds(ours, env)) for _ in range(ROUNDS)][2:]
    least = median([pair[0] for pair in pairs])
    version = median([pair[1] for pair in pairs])
    detail = f"{version * 1e3:.0f} ms against {least * 1e3:.0f} ms"
    return [Row("`pilothouse --version` against `python -c pass`", version / least, 4, "×", detail)]


def measure_run() -> list[Row]:
    """The first `./run` installs, if nobody did before; later ones only compare a stamp."""
    env, run = environment(), str(ROOT / "run")
    seconds([run, "--version"], env)
    folder = ROOT / ".venv"
    plain = str(folder / (folder / "run.key").read_text().strip() / "bin" / "pilothouse")
    pairs = [(seconds([plain, "--version"], env), seconds([run, "--version"], env)) for _ in range(ROUNDS)]
    added = median([pair[1] for pair in pairs]) - median([pair[0] for pair in pairs])
    return [Row("`./run` again, above plain `pilothouse`", added * 1e3, 50, "ms")]


def measure_imports() -> list[Row]:
    """The largest thing that a plain command imports, with all that it imports itself, in CPU time."""
    with TemporaryDirectory(prefix="pilothouse-imports-") as folder:
        wanted = {name: " ".join(words) for words in PLAIN for name in _imports(words, folder)}
    took = {name: _cpu_ms(name) for name in wanted}
    first, *others = sorted(took, key=took.__getitem__, reverse=True)
    detail = f"{first}, by `pilothouse {wanted[first]}`; then "
    detail += ", ".join(f"{name} {took[name]:.0f}" for name in others[:4])
    return [Row("largest import of a plain command", took[first], 60, "ms", detail)]


def _imports(words: Sequence[str], home: str) -> list[str]:
    """The modules that cost most, among those that are not ours."""
    argv = [sys.executable, "-X", "importtime", "-m", "pilothouse", *words]
    env = environment(PILOTHOUSE_HOME=home)
    told = subprocess.run(argv, env=env, check=False, capture_output=True, text=True).stderr
    rows = [(float(match[1]), match[3]) for match in IMPORTED.finditer(told)]
    foreign = [row for row in rows if row[1].partition(".")[0] not in ("pilothouse", "site", "runpy")]
    return [name for _, name in sorted(foreign, reverse=True)[:5]]


def _cpu_ms(module: str) -> float:
    """The least of several fresh interpreters: whatever else the machine does can only add."""
    code = f"import time; began = time.process_time(); import {module}; print(time.process_time() - began)"
    argv = [sys.executable, "-c", code]
    runs = [
        subprocess.run(argv, env=environment(), check=True, capture_output=True, text=True).stdout
        for _ in range(7)
    ]
    return min(float(told) for told in runs) * 1e3


def measure_up() -> list[Row]:
    ready: list[float] = []
    busy: list[float] = []
    resident: list[int] = []
    for _ in range(UPS):
        with TemporaryDirectory(prefix="pilothouse-up-") as home:
            (Path(home) / "config.toml").write_text(CONFIG)
            took, cpu, idle_kb = up_once(home)
            ready.append(took)
            busy.append(cpu)
            resident.append(idle_kb)
    detail = f"fastest {min(ready):.2f} s, slowest {max(ready):.2f} s of {UPS}, each with a new store"
    detail += f"; {median(busy):.2f} s of CPU"
    return [
        Row("`up`: start → ready", median(ready), 0.8, "s", detail),
        Row("idle memory of `up`", median(resident) / 1024, 60, "MB"),
    ]


def up_once(home: str, settle_s: float = SETTLE_S) -> tuple[float, float, int]:
    """Start a gateway; return the seconds until it is ready, what it computed until then, and its memory after a while."""
    began = time.perf_counter()
    argv = [*program(), "up"]
    with subprocess.Popen(
        argv,
        env=environment(PILOTHOUSE_HOME=home),
        cwd=home,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as up:
        try:
            assert up.stderr is not None
            said = ""
            for line in up.stderr:
                said += line
                if "is ready" in line:
                    break
            else:
                raise SystemExit(f"`pilothouse up` did not start:\n{said}")
            took, cpu = time.perf_counter() - began, cpu_s(up.pid)
            time.sleep(settle_s)
            return took, cpu, rss_kb(up.pid)
        finally:
            up.terminate()
            up.communicate(timeout=30)
