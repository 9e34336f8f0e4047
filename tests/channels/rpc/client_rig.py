"""The real `pilothouse rpc` in a process of its own, with a scripted engine behind it, and a client that reads every frame."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.channels.stdio_rig import Frame, StdioClient
from tests.dists import SRC
from tests.forked import Forked

ABLE = {"supports_confirm": True, "supports_prompt": True, "supports_pick": True}
SCRIPT = """\
[[turn]]
match = "approve"
steps = [
  { say = "Narration." },
  { tool = "read", title = "README.md", output = "# hi" },
  { ask = "Push it?", payload = { tool = "Bash", input = { command = "git push" } }, on_allow = [
    { tool = "command", title = "git push", output = "pushed" }, { say = "Done." } ], on_deny = [ { say = "No: {answer}" } ] },
]
[[turn]]
match = "colour"
steps = [ { ask = "Which colour?", kind = "question", options = ["Red", "Blue"] }, { say = "{answer} it is" } ]
[[turn]]
match = "name"
steps = [ { ask = "Which name?", kind = "question", free_text = true }, { say = "{answer} it is" } ]
[[turn]]
match = "wait"
steps = [ { tool = "command", title = "sleep", for_s = 600 }, { say = "slept" } ]
[[turn]]
steps = [ { think = "hm" }, { say = "heard: {prompt}" } ]
"""
_MANY = ", ".join(f'{{ tool = "read", title = "{n}", output = "{"x" * 1000}" }}' for n in range(400))
LONG_SCRIPT = f"""\
[[turn]]
match = "many, then ask"
steps = [ {_MANY}, {{ ask = "Push it?", on_allow = [ {{ say = "Done." }} ] }} ]
[[turn]]
match = "many"
steps = [ {_MANY}, {{ say = "Done." }} ]
[[turn]]
steps = [ {{ say = "hi" }} ]
"""
"""Turns with far more events than a pipe holds: a client that does not read stops the server within them."""


def write_home(folder: Path, script: str = SCRIPT, gateway: str = "") -> None:
    (folder / "script.toml").write_text(script)
    (folder / "config.toml").write_text(
        f'[engines.script]\nscript = "{folder}/script.toml"\n[gateway]\ndefault_engine = "script"\n{gateway}\n'
    )
    (folder / "work").mkdir(exist_ok=True)


def wait_for_row(home: Path, rows: str) -> None:
    """Wait until the store has one of these rows, which need not have been told to any client."""
    with closing(sqlite3.connect(home / "pilothouse.db")) as store:
        while not store.execute(f"SELECT count(*) FROM {rows}").fetchone()[0]:
            time.sleep(0.02)


def pilothouse(home: Path, *words: str) -> None:
    """Run another command of this home, in the folder of its sessions."""
    with open(os.devnull, "r+b") as nothing:
        streams = (nothing.fileno(),) * 3
        environ = {
            "PYTHONPATH": str(SRC),
            "HOME": str(home),
            "PILOTHOUSE_HOME": str(home),
            "PATH": os.defpath,
        }
        assert Forked("pilothouse", *words, env=environ, cwd=home / "work", streams=streams).wait() == 0


class Client(StdioClient):
    def __init__(self, home: Path, *words: str, **environ: str) -> None:
        super().__init__(home, "rpc", "--workspace", str(home / "work"), *words, **environ)

    def initialize(self, **able: bool) -> Frame:
        return self.call("initialize", protocol_version="0", ui_capabilities=able or ABLE)

    def start(self, text: str, **params: Any) -> Frame:
        return self.call("run.start", input={"type": "text", "text": text}, **params)["result"]

    def end_of(self, run_id: str) -> str:
        """Return the status with which the run ended; read until it has, if it was not told yet."""

        def is_end(frame: Frame) -> bool:
            told = frame["params"] if frame.get("method") == "run.status" else {}
            return told.get("run_id") == run_id and told["status"] in ("completed", "error", "cancelled")

        found = next(filter(is_end, self.frames), None) or self.until(is_end)
        return found["params"]["status"]

    def events(self, run_id: str) -> list[tuple[int, str]]:
        return [
            (frame["params"]["seq"], frame["params"]["event"]["type"])
            for frame in self.frames
            if frame.get("method") == "agent.event" and frame["params"]["run_id"] == run_id
        ]

    def contents(self, run_id: str, kind: str) -> list[str]:
        return [
            frame["params"]["event"].get("content", "")
            for frame in self.frames
            if frame.get("method") == "agent.event"
            and frame["params"]["run_id"] == run_id
            and frame["params"]["event"]["type"] == kind
        ]
