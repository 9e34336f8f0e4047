"""Count the files of `src` that one Telegram message and one approval run through: `python -m tools.walk`.

The real gateway (`pilothouse up`) runs against the tests' Bot API server with the script engine. A profile function
notes every function that is called, from the moment a person speaks until the answer is shown. Functions that also run
while nothing happens (heartbeat, polls) do not count.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType
from typing import Any

import anyio
from anyio.abc import Process
from tests.channels.telegram.server.running import Server, open_server

ROOT = Path(__file__).resolve().parent.parent
SRC = str(ROOT / "src" / "pilothouse") + os.sep
BELOW = ("stores", "processes", "logs")
"""Rooms that serve every other room. They are counted apart."""
SETTLE_S = 4.0
IDLE_S = 35.0
"""Longer than the longest pause between two looks of an idle gateway."""
SCRIPT = """
[[turn]]
match = "ask"
steps = [{ ask = "Push it?", payload = { tool = "Bash", input = { command = "git push" } }, on_allow = [{ say = "Pushed." }] }]

[[turn]]
steps = [{ say = "You wrote: {prompt}" }]
"""


def trace(note: Path, words: list[str]) -> None:
    """Run a command of pilothouse; write the files that ran since SIGUSR1 into `note` at SIGUSR2."""
    seen: set[tuple[str, str]] = set()

    def profile(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_name != "<module>" and code.co_filename.startswith(SRC):
            seen.add((code.co_filename, code.co_qualname))

    def finish(*_: object) -> None:
        part = note.with_suffix(".part")
        part.write_text("\n".join(sorted(f"{file.removeprefix(SRC)} {name}" for file, name in seen)))
        part.rename(note)

    signal.signal(signal.SIGUSR1, lambda *_: seen.clear())
    signal.signal(signal.SIGUSR2, finish)
    threading.setprofile(profile)
    sys.setprofile(profile)
    sys.argv = ["pilothouse", *words]
    runpy.run_module("pilothouse", run_name="__main__")


class Walk:
    def __init__(self, folder: Path, server: Server) -> None:
        self._server = server
        self._home = folder
        self._note = folder / "ran"
        self.ada = server.person("Ada")
        (folder / "play.toml").write_text(SCRIPT)
        (folder / "config.toml").write_text(
            f'[gateway]\ndefault_engine = "script"\ndefault_workspace = "{folder}"\n'
            f'[people]\nowners = ["telegram:{self.ada.id}"]\n'
            f'[engines.script]\nscript = "{folder / "play.toml"}"\n'
            f'[channels.telegram]\napi_base = "{server.url}"\ntoken = "{server.token}"\n'
        )
        (folder / "config.toml").chmod(0o600)

    async def start(self) -> Process:
        command = [sys.executable, "-m", "tools.walk", "--trace", str(self._note), "up"]
        env = {**os.environ, "PILOTHOUSE_HOME": str(self._home), "HOME": str(self._home)}
        with (self._home / "said").open("wb") as said:
            return await anyio.open_process(command, env=env, cwd=ROOT, stdout=said, stderr=said)

    async def functions(self, process: Process, act: Callable[[], Awaitable[None]]) -> set[str]:
        """Return the functions that ran while `act` was done, each with its file."""
        process.send_signal(signal.SIGUSR1)
        await act()
        process.send_signal(signal.SIGUSR2)
        while not self._note.exists():
            await anyio.sleep(0.01)
        ran = set(self._note.read_text().splitlines())
        self._note.unlink()
        return ran

    async def until_shown(self, text: str) -> Any:
        world = self._server.world
        await world.until(lambda: any(text in shown for shown in world.texts(self.ada.id)))
        return next(post for post in reversed(world.shown(self.ada.id)) if text in post.text)

    async def say(self, text: str) -> None:
        self.ada.say(text)
        await self.until_shown(f"You wrote: {text}")

    async def approve(self) -> None:
        self.ada.say("ask")
        post = await self.until_shown("git push")
        self.ada.press(post, "Allow once")
        await self.until_shown("Pushed.")


async def walk() -> dict[str, list[str]]:
    with tempfile.TemporaryDirectory() as folder:
        async with open_server(None) as server:
            steps = Walk(Path(folder), server)
            process = await steps.start()
            try:
                with anyio.fail_after(120):
                    await server.world.until(lambda: bool(server.called("getUpdates")))
                    await steps.say("hello")  # the first message opens what later ones find open
                    await anyio.sleep(SETTLE_S)  # for its last edits
                    idle = await steps.functions(process, lambda: anyio.sleep(IDLE_S))
                    message = await steps.functions(process, lambda: steps.say("hello again"))
                    approval = await steps.functions(process, steps.approve)
            finally:
                process.terminate()
                with anyio.fail_after(30, shield=True):
                    await process.wait()
    return {
        name: sorted({line.partition(" ")[0] for line in ran - idle})
        for name, ran in (("one Telegram message", message), ("one approval", approval))
    }


def main() -> None:
    if sys.argv[1:2] == ["--trace"]:
        trace(Path(sys.argv[2]), sys.argv[3:])
        return
    walked = anyio.run(walk)
    for name, files in walked.items():
        counted = [file for file in files if not file.startswith(BELOW)]
        print(f"{name:<22}{len(counted):>4} files, and {len(files) - len(counted)} of {', '.join(BELOW)}")
    if "-v" in sys.argv:
        for name, files in walked.items():
            print(f"\n{name}", *files, sep="\n  ")


if __name__ == "__main__":
    main()
