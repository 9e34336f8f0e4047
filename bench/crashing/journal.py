"""A file of JSON lines that survives whoever writes it: each line is synced before anything else happens.

Standard library only: the engine's player writes one too, and must start fast.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Journal:
    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, line: dict[str, Any]) -> None:
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, json.dumps(line).encode() + b"\n")
            os.fsync(file)
        finally:
            os.close(file)

    def read(self) -> Iterator[dict[str, Any]]:
        if self._path.exists():
            for line in self._path.read_text().splitlines():
                yield json.loads(line)
