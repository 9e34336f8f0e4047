"""Words for tool calls, cut to what a line or a log may hold. Paths inside a workspace are relative to it."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

TITLE_CHARS = 120
DETAIL_CHARS = 2000
DETAIL_ITEMS = 50
DETAIL_DEPTH = 4
OUTPUT_CHARS = 10_000


def one_line(text: str) -> str:
    line = " ".join(text[: TITLE_CHARS * 4].split())
    return line if len(line) <= TITLE_CHARS else line[: TITLE_CHARS - 1] + "…"


def relative(path: str, workspace: str) -> str:
    """Return a path inside the workspace relative to it, and any other as it is."""
    if not workspace or not path.startswith("/"):
        return path
    try:
        return str(PurePosixPath(path).relative_to(workspace))
    except ValueError:
        return path


def short_output(text: str) -> str:
    """Return a tool's output, cut to what an event may hold."""
    return text if len(text) <= OUTPUT_CHARS else text[: OUTPUT_CHARS - 1] + "…"


def bounded(value: Any, depth: int = DETAIL_DEPTH) -> Any:
    """Return a JSON value with long texts, long lists and deep parts cut."""
    match value:
        case str():
            return value if len(value) <= DETAIL_CHARS else value[: DETAIL_CHARS - 1] + "…"
        case dict() | list() if not depth:
            return "…"
        case dict():
            return {key: bounded(item, depth - 1) for key, item in list(value.items())[:DETAIL_ITEMS]}
        case list():
            return [bounded(item, depth - 1) for item in value[:DETAIL_ITEMS]]
        case _:
            return value
