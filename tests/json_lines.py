"""Files of one JSON value per line, read while somebody else writes them, or takes them away."""

import json
from pathlib import Path
from typing import Any


def read_whole_lines(path: Path) -> list[Any]:
    """What is only half written is not there yet; nor is a file that was taken away a moment ago."""
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in lines if line.endswith(b"\n")]
