"""The bare CLI: the same program, called the same way, with nobody between it and us."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from bench.measuring.line_program import LineProgram, open_program

from pilothouse.engines.claude.control import initialize, request_line, user_line


class Bare:
    def __init__(self, program: LineProgram) -> None:
        self._program = program
        program.write(request_line("begin", initialize()))
        program.read_to(b'"control_response"')

    def turn(self, text: str) -> float:
        """Seconds from the message to the first piece of the answer; read to the turn's end."""
        began = time.perf_counter()
        self._program.write(user_line(text, str(uuid.uuid4())))
        self._program.read_to(b'"text_delta"')
        took = time.perf_counter() - began
        self._program.read_to(b'"type":"result"')
        return took


@contextmanager
def running(argv: Sequence[str], environment: Mapping[str, str], cwd: str) -> Iterator[Bare]:
    with open_program(argv, environment, cwd) as program:
        yield Bare(program)
