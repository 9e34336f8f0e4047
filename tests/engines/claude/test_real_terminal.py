"""A session that a person has open in a terminal: it can be watched, and it is not run beside them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.dists import ROOT, SRC, write_dist
from tests.engines.claude.api import Reply, open_api, say, use
from tests.engines.claude.rig import Rig, end_of, read
from tests.engines.claude.terminal import sitting_at, until

from pilothouse.core.errors import EngineError
from pilothouse.core.event import ResumeToken
from pilothouse.core.ids import EngineId

pytestmark = pytest.mark.slow


POINTS = {
    "stores": {"sqlite": "pilothouse.stores.sqlite:STORE"},
    "engines": {"claude": "pilothouse.engines.claude:ENGINE"},
}


class Watcher:
    def __init__(self, process: subprocess.Popen[bytes], output: Path, errors: Path) -> None:
        self.process = process
        self._output = output
        self._errors = errors

    @property
    def text(self) -> str:
        return self._output.read_text()

    @property
    def aside(self) -> str:
        return self._errors.read_text()

    def see(self, words: str) -> None:
        until(lambda: words in self.text, f"{words!r}", lambda: self.text + self.aside)

    def leave(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(20)


@contextmanager
def watching(rig: Rig, folder: Path, *words: str) -> Iterator[Watcher]:
    packages = folder / "packages"
    if not packages.exists():
        write_dist(packages, "pilothouse", POINTS)
    path = os.pathsep.join(map(str, (SRC, packages, ROOT)))
    own = {"PYTHONPATH": path, "PILOTHOUSE_HOME": str(folder / "house"), "COLUMNS": "100"}
    output, errors = folder / f"out-{len(words)}", folder / f"err-{len(words)}"
    with output.open("wb") as out, errors.open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "pilothouse", "watch", *words],
            env={**rig.environment(), **own},
            cwd=rig.workspace,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
        )
    try:
        yield Watcher(process, output, errors)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def log_of(rig: Rig) -> str:
    return "".join(log.read_text() for log in (rig.home / ".claude" / "projects").glob("*/*.jsonl"))


def session_of(rig: Rig) -> str:
    """Of the one log that there is."""
    (log,) = (rig.home / ".claude" / "projects").glob("*/*.jsonl")
    return log.stem


def test_what_happens_in_a_terminal_can_be_watched_and_nothing_is_written(tmp_path: Path) -> None:
    looks = Reply([{"text": "Let me look."}, use("Bash", command="ls", description="list")])
    with open_api(looks, say("All done, friend."), say("Later, then.")) as api:
        rig = Rig(tmp_path, api)
        with sitting_at(rig) as person:
            person.say("do it")
            until(lambda: "friend" in person.look(), "the answer", person.look)
            id = session_of(rig)
            with watching(rig, tmp_path, id[:8]) as plain, watching(rig, tmp_path, "--json", id) as raw:
                plain.see("› do it")
                plain.see("All done, friend.")
                raw.see("All done, friend.")  # whoever comes later is told of the last turn alone
                person.say("and more")
                plain.see("Later, then.")
                raw.see("Later, then.")
                until(lambda: plain.text.count("✓ done") == 2, "the ends", lambda: plain.text)
                until(lambda: raw.text.count("turn_ended") == 2, "the ends", lambda: raw.text)
                assert (plain.leave(), raw.leave()) == (0, 0)
            assert "· Running command…  ls" in plain.text
            assert (
                plain.text.index("Let me look.")
                < plain.text.index("All done")
                < plain.text.index("› and more")
            )
            assert id in plain.aside
            assert "Traceback" not in plain.aside
            types = [json.loads(line)["type"] for line in raw.text.splitlines()]
            assert types[0] == "session_started"
            assert types.count("turn_ended") == 2
            assert not (tmp_path / "house" / "pilothouse.db").exists()


async def test_a_session_that_is_open_in_a_terminal_is_not_run_beside_it(tmp_path: Path) -> None:
    with open_api(say("Hello from here."), say("Hello from there.")) as api:
        rig = Rig(tmp_path, api)
        with sitting_at(rig) as person:
            person.say("hi")
            until(lambda: "Hello from here." in log_of(rig), "the answer", person.look)
            token = ResumeToken(EngineId("claude"), session_of(rig), str(rig.workspace))
            async with rig.engine() as engine:
                with pytest.raises(EngineError, match="open elsewhere on this machine"):
                    async with engine.open(rig.brief(resume=token)):
                        pass
        async with rig.engine() as engine, engine.open(rig.brief(resume=token)) as session:
            assert end_of(await read(session, "go on")).answer == "Hello from there."
    assert "Hello from here." in api.main[-1].text
