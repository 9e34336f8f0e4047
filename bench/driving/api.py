"""The scripted API in a process of its own, so that what it computes slows neither side: prints its address."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.engines.claude.api import ScriptedApi, in_order, say

ANSWER = "The same few words, whatever you say."


@contextmanager
def serving() -> Iterator[str]:
    with subprocess.Popen(
        [sys.executable, "-m", "bench.driving.api"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()


def main() -> None:
    """Until its input ends."""
    api = ScriptedApi(in_order(say(ANSWER)))
    api.keeps = False
    with api.serving():
        print(api.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
