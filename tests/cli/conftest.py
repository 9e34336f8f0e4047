"""The real program in a process of its own, in a home of its own."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.dists import ROOT, SRC, write_dist
from tests.forked import Forked, run
from tests.shelf import MODULES, POINTS


class House:
    """`run` runs `pilothouse`; what it may not do anywhere is asserted once, in `calm`.

    Its own package hides an installed Pilothouse, so that every test sees the same plugins.
    """

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.packages = write_dist(folder / "packages", "puppets", POINTS, MODULES)
        write_dist(self.packages, "pilothouse", {"stores": {"sqlite": "pilothouse.stores.sqlite:STORE"}})
        self.home.mkdir()

    @property
    def config(self) -> Path:
        return self.home / "config.toml"

    @property
    def log(self) -> Path:
        return self.home / "logs" / "pilothouse.log"

    def environ(self, **more: str) -> dict[str, str]:
        path = os.pathsep.join(map(str, (SRC, self.packages, ROOT)))
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        return {**kept, "PYTHONPATH": path, "PILOTHOUSE_HOME": str(self.home), "COLUMNS": "100", **more}

    def run(self, *words: str, said: str = "", **more: str) -> subprocess.CompletedProcess[str]:
        return calm(run("pilothouse", *words, env=self.environ(**more), cwd=self.home, said=said))

    def run_in_new_python(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Where it matters what the command imports."""
        return calm(run("pilothouse", *words, env=self.environ(), cwd=self.home, new_python=True))

    def on_a_terminal(
        self, *words: str, said: str = "", answers: Sequence[tuple[str, str]] = (), **more: str
    ) -> tuple[int, str]:
        """Exit code and screen of a run whose three streams are one real terminal.

        `said` is typed at once; of `answers`, each once its question stands there. A hidden question throws away what
        was typed before, and writes its last character, a space, after that.
        """
        ours, theirs = pty.openpty()
        streams = (theirs, theirs, theirs)
        env = self.environ(**more)
        with Forked("pilothouse", *words, env=env, cwd=self.home, streams=streams, session="new") as process:
            os.close(theirs)
            os.write(ours, said.encode())
            screen, seen, left = b"", 0, list(answers)
            with contextlib.suppress(OSError):  # Linux says so when the last one closes its end
                while chunk := os.read(ours, 65536):
                    screen += chunk
                    while left and (at := screen.find(left[0][0].encode(), seen)) >= 0:
                        question, answer = left.pop(0)
                        seen = at + len(question.encode())
                        os.write(ours, answer.encode())
            os.close(ours)
            return process.wait(), screen.decode()

    def json(self, *words: str, **more: str) -> Any:
        return json.loads(self.run(*words, "--json", **more).stdout)


def calm(done: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    assert "Traceback" not in done.stdout + done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    return done


def with_bots(house: House) -> None:
    """Our own two, which a house has not by itself."""
    names = ("telegram", "discord")
    points = {"channels": {name: f"pilothouse.channels.{name}:CHANNEL" for name in names}}
    write_dist(house.packages, "bots", points)


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


@pytest.fixture
def lived_in(house: House) -> House:
    """A house in which something has happened."""
    house.config.write_text('[store]\nkind = "shelf"\n')
    house.config.chmod(0o600)
    return house
