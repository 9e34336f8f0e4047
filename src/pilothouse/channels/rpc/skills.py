"""Finds skills: `SKILL.md` files with a name and a description, of the project and of the person. Bounded.

A skill lies in `.agents/skills/<name>/` or `.claude/skills/<name>/` of a folder between the project's root and the working
folder, or of the home folder. A file that breaks the format is an error in the list, not a failure of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pilothouse.channels.rpc.params import Skill, SkillError, SkillsListResult

MAX_SKILLS = 200
MAX_FILE_BYTES = 256 * 1024
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
FOLDERS = (".agents/skills", ".claude/skills")
_FIELD = re.compile(r"(name|description)\s*:\s*(.*)")


def find_skills(root: Path, folder: Path, home: Path) -> SkillsListResult:
    """List skills by folder, nearest to the root first; the person's own come last."""
    skills: list[Skill] = []
    errors: list[SkillError] = []
    truncated = False
    for path, scope in _files(root, folder, home):
        if len(skills) + len(errors) >= MAX_SKILLS:
            truncated = True
            break
        found = _read(path, scope)
        if isinstance(found, Skill):
            skills.append(found)
        else:
            errors.append(found)
    return SkillsListResult(tuple(skills), tuple(errors), truncated)


def _files(root: Path, folder: Path, home: Path) -> Iterator[tuple[Path, Literal["repo", "user"]]]:
    chain = [one for one in (folder, *folder.parents) if one == root or root in one.parents]
    for one in reversed(chain):
        if one != home:
            for path in _skill_files(one):
                yield path, "repo"
    for path in _skill_files(home):
        yield path, "user"


def _skill_files(folder: Path) -> Iterator[Path]:
    for name in FOLDERS:
        try:
            found = sorted((folder / name).iterdir())
        except OSError:
            continue
        for one in found:
            if (path := one / "SKILL.md").is_file():
                yield path


def _read(path: Path, scope: Literal["repo", "user"]) -> Skill | SkillError:
    try:
        with path.open("rb") as file:
            text = file.read(MAX_FILE_BYTES).decode("utf-8")
        mtime_ms = path.stat().st_mtime_ns // 1_000_000
    except (OSError, UnicodeError) as error:
        return SkillError(str(path), f"It cannot be read: {error}")
    fields = _front_matter(text)
    name, description = fields.get("name", ""), fields.get("description", "")
    if not NAME.fullmatch(name) or len(name) > 64 or name != path.parent.name:
        return SkillError(str(path), f"Its name {name!r} must be that of its folder, {path.parent.name!r}.")
    if not 1 <= len(description) <= 1024:
        return SkillError(str(path), "Its description must have 1 to 1024 characters.")
    return Skill(str(path), name, description, str(path), str(path.parent), scope, mtime_ms)


def _front_matter(text: str) -> dict[str, str]:
    """Return name and description between the first two `---` lines."""
    lines = text.split("\n")
    if not lines or lines[0].strip() != "---":
        return {}
    fields: dict[str, str] = {}
    for line in lines[1:]:
        if line.strip() == "---":
            return fields
        if found := _FIELD.fullmatch(line.strip()):
            fields[found[1]] = found[2].strip().strip("\"'")
    return {}
