"""`bench/native`: what the native agent costs beside the model, against its bounds.

The model is a process of its own on loopback that answers at once. A bare exchange sends the same request with the same HTTP
client and reads the answer; our share of a call is what a call of a turn takes beyond that.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

import anyio
from bench.measuring.house import Person, open_house, open_store
from bench.measuring.machine import describe, rss_kb
from bench.measuring.model_process import open_model_process
from bench.measuring.table import Row, render

from pilothouse.core.ask import Ask
from pilothouse.core.engine import Brief, EngineHost
from pilothouse.core.event import ResumeToken, UsageChanged
from pilothouse.core.ids import EngineId, SessionId, TurnId
from pilothouse.core.policy import Ruling, Site
from pilothouse.core.turn import Prompt
from pilothouse.engines.native.config import NativeConfig
from pilothouse.engines.native.engine import NativeEngine
from pilothouse.engines.native.history import Begun, Ended, History
from pilothouse.engines.native.messages import Replied, Said, Text
from pilothouse.engines.native.outputs import Outputs
from pilothouse.engines.native.run_log import read_calls
from pilothouse.engines.native.tools import grep, read
from pilothouse.engines.native.tools.tool import Workbench
from pilothouse.processes import Launcher
from pilothouse.testing.hosts import engine_host

CALLS, MESSAGES, SESSIONS, ROUNDS = 30, 50, 10, 5
FILES, BIG_BYTES = 100_000, 1 << 30
SHARE_MS, MEMORY_MB, GREP_TIMES, READ_MB = 10.0, 130.0, 1.3, 20.0
NATIVE = EngineId("native")


async def allow(ask: Ask, site: Site) -> Ruling:
    return Ruling("allow")


def engine(url: str, host: EngineHost) -> NativeEngine:
    config = NativeConfig(
        provider="compatible", base_url=f"{url}/v1", model="scripted", context_window=1_000_000
    )
    return NativeEngine(config, host)


def with_history(host: EngineHost, workspace: str) -> Brief:
    """Return the brief of a session with a history of `MESSAGES`."""
    name = "11111111-2222-4333-8444-555555555555"
    history = History(Path(host.state_dir, "sessions", name))
    history.add(Begun(workspace, time.time()))
    for number in range(MESSAGES // 2):
        history.add(Said(f"Message {number}. " + "Some words of a person. " * 20))
        history.add(Replied((Text("Some words of a model. " * 40),)))
        history.add(Ended("completed", time.time()))
    return Brief(
        SessionId("bench"),
        workspace,
        resume=ResumeToken(NATIVE, name, workspace),
        turn_id=TurnId("turn-bench"),
    )


class Timed(NamedTuple):
    call_ms: float
    bare_ms: float
    cpu_ms: float
    prefix: float

    @property
    def share_ms(self) -> float:
        return self.call_ms - self.bare_ms


async def measure_calls(url: str) -> list[Row]:
    """Time the calls of a turn, and look at the bytes of its requests. Of some rounds the quietest counts."""
    rounds = [await time_turn(url) for _ in range(ROUNDS)]
    best = min(rounds, key=lambda one: one.share_ms)
    detail = (
        f"{best.call_ms:.1f} ms a call, {best.bare_ms:.1f} ms a bare exchange, {best.cpu_ms:.1f} ms of CPU"
    )
    prefix = min(one.prefix for one in rounds) * 100
    return [
        Row(f"our share of a model call, {MESSAGES} messages, p50", best.share_ms, SHARE_MS, "ms", detail),
        Row(f"prefix kept over {CALLS} calls", prefix, 100, "%", least=True),
    ]


async def time_turn(url: str) -> Timed:
    with TemporaryDirectory() as folder:
        host, at = engine_host(Path(folder, "state"), judge=allow), list[float]()
        async with engine(url, host) as native, native.open(with_history(host, folder)) as session:
            cpu = time.process_time()
            async for event in session.run(Prompt("work")):
                if isinstance(event, UsageChanged):
                    at.append(time.perf_counter())
            cpu = (time.process_time() - cpu) * 1000 / len(at)
        calls = read_calls(Path(host.state_dir, "sessions"), "turn-bench", time.time())
    between = [(later - sooner) * 1000 for sooner, later in pairwise(at)]
    prefix = min(call.shared_prefix or 0.0 for call in calls[1:])
    assert len(calls) == CALLS
    return Timed(median(between), await bare_exchange(url, calls[-1].bytes), cpu, prefix)


async def bare_exchange(url: str, size: int) -> float:
    """Return the milliseconds of a request of this size and its answer, without us."""
    from pilothouse.http.client import open_http

    content = b'{"messages":[{"role":"user","content":"' + b"x" * size + b'"}]}'
    taken: list[float] = []
    async with open_http(direct=True) as http:
        for _ in range(CALLS):
            began = time.perf_counter()
            await http.ask(
                "POST", f"{url}/v1/chat/completions", content, limit=1 << 20, wait_s=30, whole_s=30
            )
            taken.append((time.perf_counter() - began) * 1000)
    return median(taken)


async def use_gateway(url: str, folder: Path) -> int:
    """Return the memory of a gateway with its sessions, in kB."""
    person, host = Person(), engine_host(folder / "native")
    engines = {NATIVE: engine(url, host)}
    async with open_store(folder) as store, open_house(store, folder, person, engines):
        for session in range(SESSIONS):
            for number in range(MESSAGES // 2):
                await person.turn(f"message {number} of {session}", f"place-{session}")
        return rss_kb()


def measure_memory(url: str) -> Row:
    with TemporaryDirectory() as folder:
        argv = [sys.executable, "-m", "bench.native_agent", "memory", url, folder]
        used = int(subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout) / 1024
    return Row(f"memory: gateway, {SESSIONS} sessions of {MESSAGES} messages", used, MEMORY_MB, "MB")


def measure_imports() -> Row:
    """Count the libraries for models that are loaded before the first prompt."""
    code = (
        "import sys, pilothouse.engines.native.engine\n"
        "print(sum(name in sys.modules for name in ('httpx2', 'mcp', 'anthropic', 'openai')))"
    )
    found = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout
    return Row("libraries for models and MCP before the first prompt", float(found), 0, "of 4")


def bench_of(folder: Path) -> Workbench:
    history = History(folder / "session")
    environment = {"PATH": os.environ["PATH"]}
    return Workbench(str(folder), environment, Launcher(), False, history, Outputs(folder / "outputs"))


async def measure_grep() -> Row:
    """Search many files, against the bare program."""
    with TemporaryDirectory() as made:
        folder = Path(made)
        for number in range(FILES):
            place = folder / f"{number % 100:02d}"
            place.mkdir(exist_ok=True)
            (place / f"{number}.txt").write_text(f"file {number}\nnothing much\n")
        program = grep.find_ripgrep(os.environ["PATH"])
        assert program, "ripgrep is installed with the environment"
        bare = [program, "--no-config", "--hidden", "-n", "file 99999$", made]
        bench, ours, theirs = bench_of(folder), list[float](), list[float]()
        for _ in range(ROUNDS):
            theirs.append(_timed(bare))
            began = time.perf_counter()
            output = await grep.run(grep.Input("file 99999$", made), bench)
            ours.append(time.perf_counter() - began)
            assert "99999.txt" in output.text
    detail = f"{median(ours):.2f} s against {median(theirs):.2f} s of bare ripgrep"
    return Row(f"grep over {FILES:,} files", median(ours) / median(theirs), GREP_TIMES, "×", detail)


def _timed(argv: Sequence[str]) -> float:
    began = time.perf_counter()
    subprocess.run(argv, stdout=subprocess.DEVNULL, check=False)
    return time.perf_counter() - began


def fill(path: Path, line: bytes) -> None:
    with path.open("wb") as file:
        for _ in range(BIG_BYTES // (len(line) * 10_000)):
            file.write(line * 10_000)


async def measure_read() -> Row:
    """Read lines in the middle of a large file."""
    line = b"one line of a file that is much larger than the memory of an agent should be\n"
    with TemporaryDirectory() as made:
        path = Path(made, "big.txt")
        fill(path, line)
        middle = BIG_BYTES // len(line) // 2
        before, began = rss_kb(), time.perf_counter()
        output = await read.run(read.Input(str(path), middle, 20), bench_of(Path(made)))
        took, grown = time.perf_counter() - began, max(0, rss_kb() - before) / 1024
        assert output.text.splitlines()[0].strip().startswith(str(middle + 1))
    return Row("read of the middle of 1 GB: further memory", grown, READ_MB, "MB", f"in {took:.2f} s")


async def measure(url: str) -> list[Row]:
    return [*await measure_calls(url), await measure_grep(), await measure_read()]


def main() -> int:
    with open_model_process("bench.native_model", str(CALLS)) as url:
        rows = [*anyio.run(measure, url), measure_memory(url), measure_imports()]
    print(render(rows, describe(), "bench/native"))
    return 0 if all(row.holds for row in rows) else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["memory"]:
        print(anyio.run(use_gateway, sys.argv[2], Path(sys.argv[3])))
        sys.exit(0)
    sys.exit(main())
