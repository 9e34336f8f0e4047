"""What tests of the whole program share: a terminal that it runs in, and the plugins of this checkout."""

from __future__ import annotations

import codecs
import os
import select
import subprocess
import time
import tomllib
from collections.abc import Callable

from tests.dists import ROOT
from tests.forked import Forked

WITHIN_S = 100.0


def declared_plugins() -> dict[str, dict[str, str]]:
    """As this checkout declares them, whatever is installed."""
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    return {group.removeprefix("pilothouse."): names for group, names in points.items()}


class Terminal:
    def __init__(self, descriptor: int, process: subprocess.Popen[bytes] | Forked) -> None:
        self.process = process
        self._descriptor = descriptor
        self.screen = ""
        # A pty may cut anywhere, in the middle of a character too.
        self._characters = codecs.getincrementaldecoder("utf-8")("replace")

    def type(self, text: str) -> None:
        os.write(self._descriptor, text.encode())

    def see(self, words: str) -> None:
        until(lambda: words in self.look(), f"{words!r} on the screen", self.look)

    def look(self) -> str:
        while select.select([self._descriptor], [], [], 0.05)[0]:
            try:
                self.screen += self._characters.decode(os.read(self._descriptor, 65536))
            except OSError:
                break
        return self.screen


def until(holds: Callable[[], object], what: str, show: Callable[[], str] = str) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < deadline, f"{what} did not come: {show()[-2000:]}"
        time.sleep(0.05)
