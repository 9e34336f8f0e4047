"""A scripted model in a process of its own, so that its computing slows neither side of a comparison."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

ANSWER = "The same few words, whatever you say."


@contextmanager
def open_model_process(module: str, *words: str) -> Iterator[str]:
    """Run a module that ends in `serve`, and give the address that it prints."""
    argv = [sys.executable, "-m", module, *words]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()


def serve(url: str) -> None:
    """Print the address, and return when the input ends."""
    print(url, flush=True)
    sys.stdin.read()
