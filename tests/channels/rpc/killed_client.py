"""Kill `pilothouse rpc` after any frame of a run, come back with `session.history`, and check that nothing is missing and
nothing comes twice.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.channels.rpc.client_rig import Client, write_home
from tests.channels.stdio_rig import Frame

CONFIRM = "ui.confirm.request"
SCRIPT = """\
[[turn]]
match = "approve"
steps = [
  { say = "Narration." },
  { tool = "read", title = "README.md", output = "# hi" },
  { ask = "Push it?", payload = { tool = "Bash", input = { command = "git push" } }, on_allow = [
    { tool = "command", title = "git push", output = "pushed" }, { say = "Done." } ] },
]
[[turn]]
steps = [ { say = "heard" } ]
"""
ENDED = ("completed", "error", "cancelled")


def count_frames(home: Path) -> int:
    """Return how many frames a run has that nobody kills."""
    write_home(home, SCRIPT)
    with Client(home) as client:
        client.initialize()
        client.answers[CONFIRM] = {"ok": True}
        began = len(client.frames)
        client.end_of(client.start("approve this")["run_id"])
        return len(client.frames) - began


def kill_after(home: Path, frames: int) -> list[str]:
    """Run until so many frames came, and kill the server. Return what is wrong after that; empty if nothing is."""
    write_home(home, SCRIPT)
    with Client(home) as client:
        client.initialize()
        client.answers[CONFIRM] = {"ok": True}
        run = client.start("approve this")
        began = len(client.frames) - 1
        client.until(lambda _frame: len(client.frames) - began >= frames)
        client.kill()
        seen = events_of(client.frames, run["run_id"])
    with Client(home) as again:
        again.initialize()
        again.answers[CONFIRM] = {"ok": True}
        return list(_check(again, run, seen))


def _check(client: Client, run: Frame, seen: list[str]) -> list[str]:
    told = client.call("session.history", session_id=run["session_id"])["result"]
    states = {state["run_id"]: state["status"] for state in told["run_states"]}
    if states.get(run["run_id"]) not in ENDED:  # it may begin only now: then it is announced
        client.end_of(run["run_id"])
    found = events_of(client.frames, run["run_id"])
    numbers = [seq for seq, _ in client.events(run["run_id"])]
    faults = [] if found[1 : len(seen) + 1] == seen else [f"{seen} became {found}"]
    if numbers != list(range(-1, len(numbers) - 1)):
        faults.append(f"the numbers are {numbers}")
    return faults + _check_next(client, run["session_id"])


def _check_next(client: Client, session: str) -> list[str]:
    """A turn that goes on after the answer ends before the next run is taken."""
    while "error" in (
        answer := client.call("run.start", input={"type": "text", "text": "hi"}, session_id=session)
    ):
        client.until(lambda frame: frame.get("method") == "run.status")
    end = client.end_of(answer["result"]["run_id"])
    return [] if end == "completed" else [f"the next run ended with {end}"]


def events_of(frames: list[Frame], run_id: str) -> list[str]:
    """Return the events of a run with their numbers, as texts to compare. Steps have durations, which may differ."""
    return [
        json.dumps([frame["params"]["seq"], frame["params"]["event"]], sort_keys=True)
        for frame in frames
        if frame.get("method") == "agent.event" and frame["params"]["run_id"] == run_id
    ]
