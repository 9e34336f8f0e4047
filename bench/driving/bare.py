"""The bare CLI: the same program, called the same way, with nobody between it and us."""

from __future__ import annotations

import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO

from pilothouse.engines.claude.control import initialize, request_line, user_line


class Bare:
    def __init__(self, into: IO[bytes], out: IO[bytes]) -> None:
        self._into = into
        self._out = out

    def begin(self) -> None:
        self._write(request_line("begin", initialize()))
        self._read_to(b'"control_response"')

    def turn(self, text: str) -> float:
        """Seconds from the message to the first piece of the answer; read to the turn's end."""
        began = time.perf_counter()
        self._write(user_line(text, str(uuid.uuid4())))
        self._read_to(b'"text_delta"')
        took = time.perf_counter() - began
        self._read_to(b'"type":"result"')
        return took

    def _write(self, line: bytes) -> None:
        self._into.write(line + b"\n")
        self._into.flush()

    def _read_to(self, mark: bytes) -> None:
        while line := self._out.readline():
            if mark in line:
                return
        raise RuntimeError("the bare CLI ended")


@contextmanager
def running(argv: Sequence[str], environment: Mapping[str, str], cwd: str) -> Iterator[Bare]:
    with subprocess.Popen(
        argv,
        env=environment,
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        bare = Bare(process.stdin, process.stdout)
        try:
            bare.begin()
            yield bare
        finally:
            process.stdin.close()
            process.wait(20)
