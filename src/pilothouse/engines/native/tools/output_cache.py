"""`tool_output_cache` and `tool_output_cache_grep`: the rest of an output that was cut."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Annotated

from msgspec import Meta, Struct

from pilothouse.engines.native.outputs import SHOWN_BYTES
from pilothouse.engines.native.tools.grep import Input, search
from pilothouse.engines.native.tools.tool import Output, Tool, ToolError, Workbench

MAX_LINES = 2000
MAX_MATCHES = 50
LINE_CHARS = 1000

Ref = Annotated[str, Meta(description="The ref that stood at the end of the output.")]


class ReadInput(Struct, frozen=True, forbid_unknown_fields=True):
    ref: Ref
    offset: Annotated[int, Meta(ge=0, description="First line, 0-based. Default 0.")] = 0
    limit: Annotated[int, Meta(ge=1, description="Lines. Default and max 2000.")] = MAX_LINES


class GrepInput(Struct, frozen=True, forbid_unknown_fields=True):
    ref: Ref
    pattern: Annotated[str, Meta(min_length=1, description="A regular expression.")]


async def read(given: ReadInput, bench: Workbench) -> Output:
    lines = _lines(given.ref, bench)
    chosen = islice(lines, given.offset, given.offset + min(given.limit, MAX_LINES))
    return Output(_bounded(f"{n + 1:5d}  {line}" for n, line in enumerate(chosen, given.offset)))


async def grep(given: GrepInput, bench: Workbench) -> Output:
    path = bench.outputs.find(given.ref)
    if path is None:
        raise ToolError(_missing(given.ref))
    found = await search(Input(given.pattern, str(path), limit=MAX_MATCHES), bench)
    return Output(_bounded(line.removeprefix(f"{path}:") for line in found.splitlines()))


def _lines(ref: str, bench: Workbench) -> Iterator[str]:
    lines = bench.outputs.lines(ref)
    if lines is None:
        raise ToolError(_missing(ref))
    return lines


def _missing(ref: str) -> str:
    return f"There is no kept output {ref!r} in this session."


def _bounded(lines: Iterator[str]) -> str:
    shown: list[str] = []
    room = SHOWN_BYTES
    for line in lines:
        room -= len(line[:LINE_CHARS].encode("utf-8", "replace")) + 1
        if room < 0:
            return "\n".join([*shown, "[more follows; use offset]"])
        shown.append(line[:LINE_CHARS])
    return "\n".join(shown)


READ = Tool(
    "tool_output_cache",
    "Read more of a tool output that was truncated.",
    "note",
    ReadInput,
    read,
    only_reads=True,
    is_cached=False,
)
GREP = Tool(
    "tool_output_cache_grep",
    "Search a tool output that was truncated.",
    "note",
    GrepInput,
    grep,
    only_reads=True,
    is_cached=False,
)
