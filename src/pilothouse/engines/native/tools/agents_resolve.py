"""`agents_resolve`: the AGENTS.md files that belong to a path below the workspace. Only their names; the model reads them."""

from __future__ import annotations

import os
from typing import Annotated

from anyio.to_thread import run_sync
from msgspec import Meta, Struct

from pilothouse.engines.native.agents_files import NAME, folders_between
from pilothouse.engines.native.files import BadFile, real_path
from pilothouse.engines.native.tools.tool import Output, Tool, ToolError, Workbench

MAX_FILES = 8


class Input(Struct, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="A file or a folder in the workspace.")]


async def run(given: Input, bench: Workbench) -> Output:
    return await run_sync(_resolve, given, bench)


def _resolve(given: Input, bench: Workbench) -> Output:
    if not bench.agents_root:
        return Output("This workspace is not trusted, so its AGENTS.md files do not count.")
    try:
        place = real_path(given.path, bench.workspace)
    except BadFile as error:
        raise ToolError(str(error)) from error
    folder = place if os.path.isdir(place) else os.path.dirname(place)
    if os.path.commonpath((folder, bench.agents_root)) != bench.agents_root:
        raise ToolError(f"{given.path} is outside of {bench.agents_root}.")
    known = set(folders_between(bench.agents_root, os.path.realpath(bench.workspace)))
    found = [
        os.path.join(one, NAME) for one in folders_between(bench.agents_root, folder) if one not in known
    ]
    files = [path for path in found if os.path.isfile(path)][:MAX_FILES]
    return Output("\n".join(["Read these files first:", *files]) if files else "No further AGENTS.md files.")


TOOL = Tool(
    "agents_resolve",
    "List further AGENTS.md files that apply to a path; read them before you work there.",
    "note",
    Input,
    run,
    only_reads=True,
    is_cached=False,
)
