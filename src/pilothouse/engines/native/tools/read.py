"""`read`: lines of a text file, in constant memory."""

from __future__ import annotations

import os
from typing import IO, Annotated

from anyio.to_thread import run_sync
from msgspec import Meta, Struct

from pilothouse.engines.native.files import BadFile, content_hash, open_plain
from pilothouse.engines.native.tools.tool import Output, Tool, ToolError, Workbench

DEFAULT_LINES = 2000
LINE_CHARS = 2000
MAX_BYTES = 50 * 1024
HASHED_BYTES = 16 * 1024 * 1024
_PORTION = 1024 * 1024


class Input(Struct, frozen=True, forbid_unknown_fields=True):
    file_path: Annotated[str, Meta(description="The file.")]
    offset: Annotated[int, Meta(ge=0, description="First line, 0-based. Default 0.")] = 0
    limit: Annotated[int, Meta(ge=1, description="Lines. Default and max 2000.")] = DEFAULT_LINES


async def run(given: Input, bench: Workbench) -> Output:
    try:
        return Output(await run_sync(_read, given))
    except BadFile as error:
        raise ToolError(str(error)) from error


def _read(given: Input) -> str:
    with open_plain(given.file_path) as file:
        if b"\0" in file.read(8192):
            raise BadFile(f"{given.file_path} is no text file. Use view_image for an image.")
        file.seek(0)
        hashed = _hash(file)
        if not _skip(file, given.offset):
            return f"[the file has no line {given.offset}]"
        return "\n".join([*_lines(file, given.offset, min(given.limit, DEFAULT_LINES)), *hashed])


def _hash(file: IO[bytes]) -> list[str]:
    """Return the line with the hash that `edit` and `write` compare; none for a large file."""
    if os.fstat(file.fileno()).st_size > HASHED_BYTES:
        return []
    hashed = content_hash(file.read(HASHED_BYTES))
    file.seek(0)
    return [f"[content_sha256={hashed}]"]


def _skip(file: IO[bytes], lines: int) -> bool:
    """Go to a line; False if there is none."""
    while lines > 0:
        portion = file.read(_PORTION)
        if not portion:
            return False
        found = portion.count(b"\n")
        if found >= lines:
            at = -1
            for _ in range(lines):
                at = portion.index(b"\n", at + 1)
            file.seek(at + 1 - len(portion), 1)
            lines = 0
        else:
            lines -= found
    return True


def _lines(file: IO[bytes], first: int, limit: int) -> list[str]:
    shown: list[str] = []
    room = MAX_BYTES
    for number in range(first, first + limit):
        raw = _next_line(file)
        if raw is None:
            return shown
        line = f"{number + 1:5d}  {raw}"
        room -= len(line.encode("utf-8", "replace")) + 1
        if room < 0:
            break
        shown.append(line)
    if room >= 0 and _next_line(file) is None:
        return shown
    return [*shown, f"[more lines follow; go on with offset={first + len(shown)}]"]


def _next_line(file: IO[bytes]) -> str | None:
    """Read one line, of which at most `LINE_CHARS` are kept; None at the end."""
    raw = file.readline(LINE_CHARS * 4)
    if not raw:
        return None
    rest = raw
    while rest and not rest.endswith(b"\n"):
        rest = file.readline(_PORTION)
    text = raw.rstrip(b"\r\n").decode("utf-8", "replace")
    return text if len(text) <= LINE_CHARS else text[:LINE_CHARS] + "…"


TOOL = Tool(
    "read",
    "Read lines of a text file.",
    "read",
    Input,
    run,
    title=("read: ", "file_path"),
    path_key="file_path",
    only_reads=True,
)
