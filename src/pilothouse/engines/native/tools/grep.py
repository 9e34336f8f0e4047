"""`grep`: ripgrep over a file or a folder; where there is none, the system's grep.

No pattern of a model runs inside this process: Python's own expressions can take for ever.
"""

from __future__ import annotations

import shutil
import sysconfig
from typing import Annotated

import anyio
from msgspec import Meta, Struct

from pilothouse.core.engine import ProcessStart
from pilothouse.engines.native.tools.tool import Output, Tool, ToolError, Workbench
from pilothouse.processes import Process, SpawnFailed

DEFAULT_MATCHES = 100
MAX_MATCHES = 1000
LINE_CHARS = 500
WITHIN_S = 30.0
NOTHING = "No matches."


class Input(Struct, frozen=True, forbid_unknown_fields=True):
    pattern: Annotated[str, Meta(min_length=1, description="A regular expression.")]
    path: Annotated[str, Meta(description="A file or a folder. Default the workspace.")] = "."
    include: Annotated[str, Meta(description="Only files that match this glob, such as *.py.")] = ""
    ignore_case: bool = False
    limit: Annotated[int, Meta(ge=1, description="Matching lines. Default 100, max 1000.")] = DEFAULT_MATCHES


async def run(given: Input, bench: Workbench) -> Output:
    return Output(await search(given, bench))


async def search(given: Input, bench: Workbench) -> str:
    """Return the matching lines. Raises `ToolError`."""
    limit = min(given.limit, MAX_MATCHES)
    try:
        with anyio.fail_after(WITHIN_S):
            found, problem = await _run(_command(given, bench.environment.get("PATH")), limit, bench)
    except TimeoutError:
        raise ToolError(
            f"The search took longer than {WITHIN_S:g} seconds. Search a smaller folder."
        ) from None
    except SpawnFailed as error:
        raise ToolError(f"The search failed: {error}") from error
    if problem and not found:
        raise ToolError(problem)
    more = ["[more matches follow]"] * (len(found) > limit)
    return "\n".join([*found[:limit], *more]) or NOTHING


def _command(given: Input, path: str | None) -> list[str]:
    """Return the command for ripgrep, or for the system's grep where there is none."""
    if program := find_ripgrep(path):
        argv = [program, "--no-config", "--line-number", "--with-filename", "--no-heading", "--color=never"]
        argv += [f"--max-columns={LINE_CHARS}", "--max-columns-preview", "--hidden", "--glob=!.git"]
        argv += [f"--glob={given.include}"] * bool(given.include)
    else:
        argv = ["grep", "-rnHIE", "--color=never", "--exclude-dir=.git", "--exclude-dir=node_modules"]
        argv += [f"--include={given.include}"] * bool(given.include)
    return [*argv, *["-i"] * given.ignore_case, "-e", given.pattern, "--", given.path]


def find_ripgrep(path: str | None) -> str | None:
    """Return the machine's own ripgrep, or the one that was installed with us; None if there is neither."""
    return shutil.which("rg", path=path) or shutil.which("rg", path=sysconfig.get_path("scripts"))


async def _run(argv: list[str], limit: int, bench: Workbench) -> tuple[list[str], str]:
    start = ProcessStart(
        "native search", argv, bench.workspace, bench.environment, bench.workspace, bench.trusted
    )
    async with bench.launcher.open(start) as process:
        process.close_input()
        found = await _first_lines(process, limit + 1)
        problem = process.stderr_tail() if not found and await process.wait() > 1 else ""
    return found, problem.strip()[:1000]


async def _first_lines(process: Process, limit: int) -> list[str]:
    found: list[str] = []
    async for line in process.lines():
        found.append(line.data[: LINE_CHARS * 4].decode("utf-8", "replace"))
        if len(found) >= limit:
            break
    return found


TOOL = Tool(
    "grep",
    "Search files for lines that match a regular expression.",
    "search",
    Input,
    run,
    title=("grep: ", "pattern"),
    path_key="path",
    only_reads=True,
)
