"""Pilothouse as people have it: the real program in a process of its own, a home, a project's folder, and a Discord."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import secrets
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from tests.channels.discord.server.running import Server
from tests.dists import ROOT, SRC, write_dist
from tests.forked import Forked, run
from typing_extensions import override

POINTS = {
    "stores": {"sqlite": "pilothouse.stores.sqlite:STORE"},
    "engines": {"script": "pilothouse.engines.script:ENGINE"},
    "channels": {
        "discord": "pilothouse.channels.discord:CHANNEL",
        "terminal": "pilothouse.channels.terminal:CHANNEL",
    },
}
PLAY = """
[[turn]]
steps = [{ say = "First: {prompt}" }]
[[turn]]
steps = [{ say = "Second: {prompt}" }]
[[turn]]
steps = [{ say = "Third: {prompt}" }]
[[turn]]
match = "take a nap"
steps = [{ spawn = "a child" }, { tool = "command", title = "nap", for_s = 600.0 }]
"""
"""Which turn of its session it is can be read in the answer."""
MARK = "HOUSE_UNDER_TEST"
PACKAGES = ("channels.discord",)
WITHIN_S = 100.0


class Installed:
    """No configuration is written: where Discord is stands in the environment."""

    def __init__(
        self, folder: Path, server: Server, points: Mapping[str, Mapping[str, str]] = POINTS
    ) -> None:
        self.server = server
        self.home, self.project = folder / "house", folder / "project"
        for made in (self.home, self.project):
            made.mkdir()
        packages = write_dist(folder / "packages", "pilothouse", points)
        self.mark = secrets.token_hex(8)
        play = folder / "play.toml"
        play.write_text(PLAY)
        self.env = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join(map(str, (SRC, packages, ROOT))),
            "PILOTHOUSE_HOME": str(self.home),
            "PILOTHOUSE__CHANNELS__DISCORD__API_BASE": server.api_base,
            "PILOTHOUSE__CHANNELS__DISCORD__GATEWAY_URL": server.gateway_url,
            "PILOTHOUSE__CHANNELS__DISCORD__CDN_BASE": server.cdn_base,
            "PILOTHOUSE__ENGINES__SCRIPT__SCRIPT": str(play),
            "COLUMNS": "200",
            "HOME": str(folder),
            MARK: self.mark,
            "PILOTHOUSE__ENGINES__SCRIPT__ENVIRONMENT": f'["{MARK}"]',
        }

    @property
    def log(self) -> str:
        return "".join(file.read_text() for file in (self.home / "logs").glob("*"))

    async def run(self, *words: str, said: str = "", **more: str) -> tuple[int, str]:
        """Exit code, and what both streams say."""
        with anyio.fail_after(WITHIN_S):
            command = partial(run, "pilothouse", *words, env=self.env | more, cwd=self.project, said=said)
            done = await anyio.to_thread.run_sync(partial(command, packages=PACKAGES))
        told = done.stdout + done.stderr
        assert "Traceback" not in told
        return done.returncode, told

    def pids(self) -> list[int]:
        """Every process that our programs started; of the programs themselves, whoever started one awaits its end."""
        wanted = f"{MARK}={self.mark}".encode()
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _carries(pid, wanted)]


def _carries(pid: int, wanted: bytes) -> bool:
    try:
        return wanted in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


class Running:
    """A program that runs: what it says, and its end."""

    def __init__(self, process: Forked, screen: Path, server: Server) -> None:
        self.process = process
        self.server = server
        self._screen = screen

    @property
    def screen(self) -> str:
        return self._screen.read_text()

    async def until(self, seen: Callable[[], Any], deadline_s: float = WITHIN_S) -> Any:
        with anyio.move_on_after(deadline_s):
            while not (found := seen()):
                assert self.process.poll() is None, f"it ended: {self.screen}"
                await anyio.sleep(0.01)
            return found
        shown = [post.text for post in self.server.world.posts.values() if not post.deleted]
        raise AssertionError(f"never seen; the terminal says {self.screen!r}, Discord shows {shown[-10:]}")

    async def until_said(self, pattern: str) -> re.Match[str]:
        return await self.until(lambda: re.search(pattern, self.screen))

    async def until_ready(self) -> None:
        await self.until_said("is ready")

    async def leave(self, sign: signal.Signals = signal.SIGINT) -> int:
        """As Ctrl-C does."""
        self.process.send_signal(sign)
        with anyio.fail_after(WITHIN_S):
            return await self.process.ended()


@asynccontextmanager
async def start(installed: Installed, *words: str, **more: str) -> AsyncIterator[Running]:
    screen = installed.home / f"screen-{secrets.token_hex(4)}.txt"
    with screen.open("wb") as out, open(os.devnull, "rb") as nothing:
        streams = (nothing.fileno(), out.fileno(), out.fileno())
        env = installed.env | more
        process = Forked(
            "pilothouse", *words, env=env, cwd=installed.project, streams=streams, packages=PACKAGES
        )
    async with _ended(process):
        yield Running(process, screen, installed.server)


@asynccontextmanager
async def _ended(process: Forked) -> AsyncIterator[None]:
    try:
        yield
    finally:
        process.kill()
        with anyio.fail_after(30, shield=True):
            await process.ended()


class Seated(Running):
    """A program on a real terminal, with a person before it: Ctrl-C reaches all that the terminal is of."""

    def __init__(self, process: Forked, ours: int, server: Server) -> None:
        super().__init__(process, Path(os.devnull), server)
        self._ours = ours
        self._seen = b""

    @property
    @override
    def screen(self) -> str:
        with contextlib.suppress(OSError):  # nothing new, or nobody there any more
            while chunk := os.read(self._ours, 65536):
                self._seen += chunk
        return self._seen.decode("utf-8", "replace").replace("\r\n", "\n")

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())


@asynccontextmanager
async def sit_at(installed: Installed, *words: str, **more: str) -> AsyncIterator[Seated]:
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    env = installed.env | {"TERM": "xterm"} | more
    try:
        process = Forked(
            "pilothouse",
            *words,
            env=env,
            cwd=installed.project,
            streams=(theirs,) * 3,
            session="terminal",
            packages=PACKAGES,
        )
        os.close(theirs)
        async with _ended(process):
            yield Seated(process, ours, installed.server)
    finally:
        os.close(ours)
