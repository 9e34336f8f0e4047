"""`bench/rpc [STARTS]`: the figures of a client of `pilothouse rpc`, with the script engine behind it. `bench/rpc crash` kills
the server after every frame of a run, and checks that a client which comes back misses nothing and sees nothing twice.

The start is compared with that of Python itself, one after the other in the same run. Missing a bound is exit code 1.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any

STARTS = 5
TOLD = 200
REPLAYED = 2_500
"""Tools of the long turn; each gives four events."""
BOUNDS = {
    "start, times that of Python": 25.0,
    "log to frame, p50 ms": 3.0,
    "log to frame, p99 ms": 20.0,
    "10,000 events replayed, ms": 400.0,
    "memory before the first run, MB": 60.0,
}
Frame = dict[str, Any]


class Client:
    def __init__(self, home: Path) -> None:
        command = [sys.executable, "-m", "pilothouse", "rpc", "--workspace", str(home / "work")]
        environ = os.environ | {"PILOTHOUSE_HOME": str(home), "HOME": str(home)}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ, bufsize=1 << 20
        )

    def call(self, method: str, **params: Any) -> Frame:
        assert self.process.stdin is not None
        frame = {"jsonrpc": "2.0", "id": method, "method": method, "params": params}
        self.process.stdin.write(json.dumps(frame).encode() + b"\n")
        self.process.stdin.flush()
        return self.until(lambda found: found.get("id") == method)

    def until(self, wanted: Callable[[Frame], object], see: Callable[[Frame], None] | None = None) -> Frame:
        assert self.process.stdout is not None
        while True:
            frame = json.loads(self.process.stdout.readline())
            if see is not None:
                see(frame)
            if wanted(frame):
                return frame

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def write_home(home: Path) -> None:
    told = ", ".join('{ say = "x" }, { tool = "read", title = "t", for_s = 0.005 }' for _ in range(TOLD))
    many = ", ".join('{ tool = "read", title = "t" }' for _ in range(REPLAYED))
    turns = (
        f'[[turn]]\nmatch = "told"\nsteps = [ {told} ]\n[[turn]]\nsteps = [ {many}, {{ say = "done" }} ]\n'
    )
    (home / "script.toml").write_text(turns)
    (home / "config.toml").write_text(
        f'[engines.script]\nscript = "{home}/script.toml"\n[gateway]\ndefault_engine = "script"\n'
    )
    (home / "work").mkdir()


def measure_start(home: Path, starts: int) -> tuple[float, float]:
    """Return the start in multiples of Python's own, and the memory in MB after it."""
    ours: list[float] = []
    pythons: list[float] = []
    memory = 0.0
    for _ in range(starts):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        pythons.append(time.perf_counter() - began)
        began = time.perf_counter()
        client = Client(home)
        client.call("initialize", protocol_version="0")
        ours.append(time.perf_counter() - began)
        status = Path(f"/proc/{client.process.pid}/status").read_text()
        memory = int(status.partition("VmRSS:")[2].split()[0]) / 1024
        client.close()
    return median(ours) / median(pythons), memory


def is_end(frame: Frame) -> bool:
    return frame.get("method") == "run.status" and frame["params"]["status"] == "completed"


def measure_latency(client: Client) -> list[float]:
    """Return the milliseconds from the time of a text in the log to its frame."""
    found: list[float] = []

    def see(frame: Frame) -> None:
        if frame.get("method") == "agent.event" and frame["params"]["event"]["type"] == "text":
            found.append(time.time() * 1000 - frame["params"]["event"]["timestamp"])

    client.call("run.start", input={"type": "text", "text": "told"})
    client.until(is_end, see)
    return found


def measure_replay(client: Client) -> float:
    run = client.call("run.start", input={"type": "text", "text": "many"})["result"]
    client.until(is_end)
    began = time.perf_counter()
    told = client.call("session.history", session_id=run["session_id"], max_events=100_000)["result"]
    assert told["events_sent"] >= 4 * REPLAYED, told
    return (time.perf_counter() - began) * 1000


def sweep() -> int:
    """Kill after every frame of a run, one after the other."""
    from tests.channels.rpc.killed_client import count_frames, kill_after

    wrong = 0
    with TemporaryDirectory() as folder:
        (counted := Path(folder, "counted")).mkdir()
        frames = count_frames(counted)
        for number in range(1, frames + 1):
            (home := Path(folder, str(number))).mkdir()
            faults = kill_after(home, number)
            wrong += bool(faults)
            print(
                f"killed after frame {number:2} of {frames}: {'; '.join(faults) or 'nothing is missing'}",
                flush=True,
            )
    print(f"{frames} kills, {wrong} with a fault")
    return int(wrong > 0)


def main() -> int:
    if sys.argv[1:] == ["crash"]:
        return sweep()
    starts = int(sys.argv[1]) if len(sys.argv) > 1 else STARTS
    with TemporaryDirectory() as folder:
        home = Path(folder)
        write_home(home)
        times, memory = measure_start(home, starts)
        client = Client(home)
        client.call("initialize", protocol_version="0")
        latencies = quantiles(measure_latency(client), n=100)
        replay = measure_replay(client)
        client.close()
    figures = dict(zip(BOUNDS, (times, latencies[49], latencies[98], replay, memory), strict=True))
    for name, value in figures.items():
        print(f"{name:34} {value:10.1f}   at most {BOUNDS[name]:g}")
    return int(any(value > BOUNDS[name] for name, value in figures.items()))


if __name__ == "__main__":
    raise SystemExit(main())
