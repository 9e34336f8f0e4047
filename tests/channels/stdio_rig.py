"""A real command of ours in a process of its own, and a client that reads every frame that it writes."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from tests.dists import SRC
from tests.forked import Forked

WITHIN_S = 150
"""Less than the time after which a test counts as hanging, so that what the server says is shown."""
Frame = dict[str, Any]


class StdioClient:
    """`frames` holds everything that was read. `answers` maps a method of ours to the result that the client gives."""

    def __init__(self, home: Path, *words: str, **environ: str) -> None:
        read, self.stdin = os.pipe()
        self.stdout, write = os.pipe()
        env = {"PYTHONPATH": str(SRC), "HOME": str(home), "PILOTHOUSE_HOME": str(home), "PATH": os.defpath}
        self._errors = home / "stderr.txt"
        with open(self._errors, "ab") as errors:
            self.program = Forked(
                "pilothouse",
                *words,
                env=env | environ,
                cwd=home,
                streams=(read, write, errors.fileno()),
                session="new",
            )
        os.close(read)
        os.close(write)
        self.frames: list[Frame] = []
        self.answers: dict[str, Mapping[str, Any] | Callable[[Frame], Mapping[str, Any] | None]] = {}
        self._rest = b""
        self._ids = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
        if self.program.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.program.pid, signal.SIGKILL)
            self.program.wait()
        with suppress(OSError):
            os.close(self.stdout)

    def close(self) -> None:
        if self.stdin >= 0:
            os.close(self.stdin)
            self.stdin = -1

    def kill(self) -> None:
        os.kill(self.program.pid, signal.SIGKILL)
        self.program.wait()

    def write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self.stdin, data) :]

    def send(self, method: str, params: Any = None, id: Any = None) -> None:
        frame: Frame = {"jsonrpc": "2.0", "method": method, "params": {} if params is None else params}
        self.write(json.dumps(frame if id is None else {**frame, "id": id}).encode() + b"\n")

    def call(self, method: str, **params: Any) -> Frame:
        """Make a request and return its answer."""
        return self.until_answer(self.ask(method, **params))

    def ask(self, method: str, **params: Any) -> str:
        """Make a request and return its id."""
        self._ids += 1
        id = f"r{self._ids}"
        self.send(method, params, id)
        return id

    def until_answer(self, id: str) -> Frame:
        return self.until(lambda frame: frame.get("id") == id and "method" not in frame)

    def until(self, found: Callable[[Frame], object]) -> Frame:
        deadline = time.monotonic() + WITHIN_S
        while True:
            frame = self.read(deadline)
            if found(frame):
                return frame

    def read(self, deadline: float) -> Frame:
        while b"\n" not in self._rest:
            heard = select.select([self.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]
            assert heard, f"the server is silent after {self.frames[-3:]}: {self._explain_silence()}"
            portion = os.read(self.stdout, 1 << 20)
            assert portion, f"the server ended after {self.frames[-3:]}: {self._explain_end()}"
            self._rest += portion
        line, _, self._rest = self._rest.partition(b"\n")
        frame = json.loads(line)
        self.frames.append(frame)
        self._reply(frame)
        return frame

    def _explain_end(self) -> str:
        return f"exit code {self.program.wait(10)}\n{self._errors.read_text()[-3000:]}"

    def _explain_silence(self) -> str:
        """Make the server write where each of its threads is; see `tests/fork_server.py`."""
        self.program.send_signal(signal.SIGUSR2)
        time.sleep(1)
        return self._errors.read_text()[-6000:]

    def _reply(self, frame: Frame) -> None:
        answer = self.answers.get(frame.get("method", "")) if "id" in frame else None
        result = answer(frame) if callable(answer) else answer
        if result is not None:
            self.reply(frame, result)

    def reply(self, frame: Frame, result: Mapping[str, Any]) -> None:
        """Answer a request of the server."""
        self.write(json.dumps({"jsonrpc": "2.0", "id": frame["id"], "result": result}).encode() + b"\n")
