"""Whether turns may start: only while the program is the one with which the gate was proven.

Claude Code replaces itself while a gateway runs, so its file is looked at before each turn. A version manager that
puts another program behind the same file is noticed at the next start.
"""

from __future__ import annotations

import os
import shutil

import anyio

from pilothouse.core.engine import EngineHost
from pilothouse.core.errors import EngineError
from pilothouse.core.outcome import Failure
from pilothouse.engines.claude.gate_proof import prove_gate
from pilothouse.processes import Marker

UNPROVEN = (
    "Pilothouse cannot hold back what Claude Code does: {problem}. So no turn starts, unless in full access. "
    "Update Claude Code; `pilothouse doctor` looks again."
)
REPLACED = "it was replaced by another whenever it was tried"
TRIES = 3

_File = tuple[str, int, int, int]


class ProvenGate:
    def __init__(self, command: str, host: EngineHost, node: Marker) -> None:
        self._command = command
        self._host = host
        self._node = node
        self._proven: _File | None = None
        self._one_proof = anyio.Lock()

    async def prove(self) -> str:
        """Empty if the gate holds. What was not proven is tried again: the program may have been updated meanwhile."""
        async with self._one_proof:
            problem = await self._prove()
        if problem:
            self._host.log("gate.unproven", level="error", engine="claude", problem=problem)
        return problem

    async def _prove(self) -> str:
        """Once more where another program stands by the end: of that one nothing is known."""
        extra = {self._node.name: self._node.value}
        for _ in range(TRIES):
            program = self._program()
            if program is None or program == self._proven:
                return ""  # to start one that is not there will fail with better words
            self._proven = None
            problem = await prove_gate(self._command, self._host.environment, self._host.state_dir, extra)
            if program == self._program():
                self._proven = None if problem else program
                return problem
        return REPLACED

    async def need(self) -> None:
        if problem := await self.prove():
            raise EngineError(Failure("permission", UNPROVEN.format(problem=problem)))

    def _program(self) -> _File | None:
        found = shutil.which(self._command, path=self._host.environment.get("PATH"))
        if found is None:
            return None
        try:
            file = os.stat(found)
        except OSError:
            return None
        return os.path.realpath(found), file.st_ino, file.st_size, file.st_mtime_ns
