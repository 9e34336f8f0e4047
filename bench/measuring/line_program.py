"""A program driven by hand: lines to its standard input, lines from its standard output."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO

ENDS_WITHIN_S = 20


class LineProgram:
    def __init__(self, into: IO[bytes], out: IO[bytes]) -> None:
        self._into = into
        self._out = out

    def write(self, line: bytes) -> None:
        self._into.write(line.rstrip(b"\n") + b"\n")
        self._into.flush()

    def read_to(self, mark: bytes) -> bytes:
        """Return the next line that contains `mark`."""
        while line := self._out.readline():
            if mark in line:
                return line
        raise RuntimeError("the bare program ended")


@contextmanager
def open_program(argv: Sequence[str], environment: Mapping[str, str], cwd: str) -> Iterator[LineProgram]:
    """Start the program; close its input and wait for its end afterwards."""
    with subprocess.Popen(
        argv,
        env=environment,
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            yield LineProgram(process.stdin, process.stdout)
        finally:
            process.stdin.close()
            try:
                process.wait(ENDS_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
