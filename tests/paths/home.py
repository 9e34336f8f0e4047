"""A person's machine: an empty home, a project's folder, and the real program, as `./run` starts it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread
from tests.channels.terminal_rig import Pty
from tests.dists import ROOT, SRC, write_dist
from tests.engines.gateway_terminal import declared_plugins

PLAY = """
[[turn]]
match = "tidy up"
steps = [
  { tool = "command", title = "ls build", output = "a.o" },
  { ask = "May I?", payload = { tool = "Bash", input = { command = "rm -rf build" } }, on_allow = [{ say = "The folder build is gone." }] },
]
[[turn]]
steps = [{ say = "You wrote: {prompt}" }]
"""
WITHIN_S = 100.0


class Home:
    def __init__(self, folder: Path, **environ: str) -> None:
        self.project = folder / "home" / "project"
        self.project.mkdir(parents=True)
        play = folder / "play.toml"
        play.write_text(PLAY)
        packages = write_dist(folder / "packages", "pilothouse", declared_plugins())
        self._screen = folder / "screen.txt"
        self.env = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join(map(str, (SRC, packages, ROOT))),
            "HOME": str(folder / "home"),
            "LANG": "C.UTF-8",
            "COLUMNS": "200",
            "PILOTHOUSE__ENGINES__SCRIPT__SCRIPT": str(play),
            **environ,
        }

    async def run(self, *words: str, **environ: str) -> str:
        """Run a command to its end, and return what it prints."""
        done = await anyio.run_process(
            [sys.executable, "-m", "pilothouse", *words],
            env=self.env | environ,
            cwd=self.project,
            stderr=subprocess.STDOUT,
            check=False,
        )
        told = done.stdout.decode()
        assert done.returncode == 0, told
        return told

    @asynccontextmanager
    async def up(self) -> AsyncIterator[None]:
        """Leave `pilothouse up` running; at the end it stops by itself, without an error."""
        command = [sys.executable, "-m", "pilothouse", "up"]
        with self._screen.open("wb") as out:
            async with await anyio.open_process(
                command, env=self.env, cwd=self.project, stdout=out, stderr=subprocess.STDOUT
            ) as process:
                try:
                    while "is ready" not in self._screen.read_text():
                        assert process.returncode is None, self._screen.read_text()
                        await anyio.sleep(0.01)
                    yield
                finally:
                    if process.returncode is None:
                        process.terminate()
                    with anyio.fail_after(30, shield=True):
                        await process.wait()
        said = self._screen.read_text()
        assert (process.returncode, said.count("\n")) == (0, 2), f"ready, stopping, and no log: {said}"

    @asynccontextmanager
    async def chat(self) -> AsyncIterator[Seat]:
        """Sit down at a terminal in the project's folder."""
        environ = {name: "" for name in os.environ if name.startswith("PILOTHOUSE")} | self.env
        with Pty("chat", program=("pilothouse",), folder=self.project, environ=environ) as pty:
            yield Seat(pty)


class Seat:
    def __init__(self, pty: Pty) -> None:
        self._pty = pty

    def type(self, text: str) -> None:
        self._pty.type(text)

    async def see(self, words: str, *, times: int = 1) -> str:
        """Wait for the words, in a thread: the chat platform of the test runs in this one."""
        await self._in_thread(lambda: self._pty.wait_for(words, times=times))
        return self._pty.text

    async def leave(self) -> None:
        self._pty.type("\x04")
        assert await self._in_thread(self._pty.wait) == 0

    async def _in_thread(self, wait: Callable[[], int | None]) -> int | None:
        return await anyio.to_thread.run_sync(wait)
