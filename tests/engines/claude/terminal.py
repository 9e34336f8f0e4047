"""The real interactive Claude on a terminal of its own, as a person has it: for what must not get in its way."""

from __future__ import annotations

import codecs
import json
import os
import pty
import select
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.engines.claude.binary import claude_binary
from tests.engines.claude.rig import KEY, Rig

WITHIN_S = 100.0


class Person:
    def __init__(self, descriptor: int, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._descriptor = descriptor
        self._screen = ""
        # A pty may cut anywhere, in the middle of a character too.
        self._characters = codecs.getincrementaldecoder("utf-8")("replace")

    def say(self, text: str) -> None:
        """The Enter comes apart from the words: together they would be a paste."""
        os.write(self._descriptor, text.encode())
        until(lambda: text.rsplit(maxsplit=1)[-1] in self.look(), f"{text!r} on the screen", self.look)
        os.write(self._descriptor, b"\r")

    def look(self) -> str:
        while select.select([self._descriptor], [], [], 0.05)[0]:
            try:
                self._screen += self._characters.decode(os.read(self._descriptor, 65536))
            except OSError:
                break
        return self._screen


@contextmanager
def sitting_at(rig: Rig, *words: str) -> Iterator[Person]:
    """Somebody who has used Claude before, and in this folder."""
    trusted = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    known = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": list[str]()},
        "projects": {str(rig.workspace): trusted},
    }
    (rig.home / ".claude.json").write_text(json.dumps(known))
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [str(claude_binary()), *words],
        env={**rig.environment(), "TERM": "xterm", "COLUMNS": "100", "LINES": "40"},
        cwd=rig.workspace,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        person = Person(ours, process)
        until(lambda: "❯" in person.look(), "a prompt", person.look)
        yield person
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def until(holds: Callable[[], object], what: str, show: Callable[[], str] = str) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < deadline, f"{what} did not come: {show()[-2000:]}"
        time.sleep(0.05)
