"""`skill_search` and `skill_load`. A body is given once for each path and time of change, in a session."""

from __future__ import annotations

import os
from typing import Annotated

from anyio.to_thread import run_sync
from msgspec import Meta, Struct

from pilothouse.engines.native.history import Loaded
from pilothouse.engines.native.outputs import SKILL
from pilothouse.engines.native.skills import Skill, body_of
from pilothouse.engines.native.tools.tool import Output, Tool, ToolError, Workbench
from pilothouse.engines.workspace_files import read_text

DEFAULT_FOUND = 8
MAX_FOUND = 50
MAX_FILES = 200
MAX_BYTES = 256 * 1024
CUT = "[Its file has more than 256 KiB, and only the beginning stands here. The tool `read` shows the rest.]"


class SearchInput(Struct, frozen=True, forbid_unknown_fields=True):
    query: Annotated[str, Meta(max_length=500)]
    limit: Annotated[int, Meta(ge=1, description="Skills. Default 8, max 50.")] = DEFAULT_FOUND


class LoadInput(Struct, frozen=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(description="The skill's name, or the path of its SKILL.md.")]


async def search(given: SearchInput, bench: Workbench) -> Output:
    scored = [(score(skill, given.query), skill) for skill in bench.skills]
    best = sorted((one for one in scored if one[0]), key=lambda one: (-one[0], one[1].name))
    lines = [f"{skill.name}: {skill.description} ({skill.path})" for _, skill in best]
    return Output("\n".join(lines[: min(given.limit, MAX_FOUND)]) or "No skill matches.")


def score(skill: Skill, query: str) -> int:
    wanted = query.strip().lower()
    if wanted == skill.path.lower():
        return 1000
    if wanted == skill.name:
        return 900
    if wanted and skill.name.startswith(wanted):
        return 700
    words = set(wanted.replace("-", " ").split())
    common = words & set(f"{skill.name.replace('-', ' ')} {skill.description}".lower().split())
    return 100 + len(common) if common else 0


async def load(given: LoadInput, bench: Workbench) -> Output:
    output, loaded = await run_sync(_load, given, bench)
    if loaded is not None:
        bench.history.add(loaded)
    return output


def _load(given: LoadInput, bench: Workbench) -> tuple[Output, Loaded | None]:
    found = [skill for skill in bench.skills if given.name in (skill.name, skill.path)]
    if not found:
        raise ToolError(f"There is no skill {given.name!r}. Find one with skill_search.")
    if len(found) > 1:
        paths = "\n".join(skill.path for skill in found)
        raise ToolError(f"Several skills are called {given.name!r}. Load one by its path:\n{paths}")
    path = found[0].path
    text = read_text(path, os.path.realpath(os.path.dirname(path)), MAX_BYTES + 1)
    if text is None:
        raise ToolError(f"{path} can no longer be read.")
    changed_at = os.stat(path).st_mtime_ns
    if bench.history.conversation.loaded.get(path) == changed_at:
        return Output(f"The skill {found[0].name} stands above in this conversation already."), None
    cut = f" {CUT}" if len(text.encode("utf-8", "replace")) > MAX_BYTES else ""
    parts = [f"Skill {found[0].name}, in {os.path.dirname(path)}:{cut}", body_of(text), _files(path)]
    return Output("\n\n".join(parts)), Loaded(path, changed_at)


def _files(path: str) -> str:
    """List the other files of a skill. Links are not followed."""
    folder = os.path.dirname(path)
    found = [os.path.join(place, name) for place, _, names in os.walk(folder) for name in sorted(names)]
    names = [os.path.relpath(one, folder) for one in found if one != path and not os.path.islink(one)]
    return "Its files:\n" + "\n".join(names[:MAX_FILES]) if names else ""


SEARCH = Tool(
    "skill_search", "Find skills by words.", "note", SearchInput, search, only_reads=True, is_cached=False
)
LOAD = Tool(SKILL, "Load the instructions of a skill.", "note", LoadInput, load, title=("skill: ", "name"))
