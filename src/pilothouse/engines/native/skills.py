"""Skills in the Agent Skills format: folders with a `SKILL.md`, whose front matter has a name and a description.

The catalogue is part of the system prompt; a body is read by `skill_load` only. Folders: `.agents/skills` of the workspace,
if it is trusted, and `~/.agents/skills`. Those of folders above the workspace do not count: nobody was shown them when it was
trusted. The front matter is the part of YAML that skills use: `key: value` with plain or quoted text, and indented or `>` and `|` text below a key.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from unicodedata import normalize

from msgspec import Struct

from pilothouse.engines.workspace_files import read_text

FOLDER = ".agents/skills"
FILE = "SKILL.md"
NAME_CHARS = 64
DESCRIPTION_CHARS = 1024
MAX_SKILLS = 200
MAX_CATALOGUE_BYTES = 32 * 1024
MAX_WALKED = 5000

_NAME = re.compile(r"[^\W_]+(?:-[^\W_]+)*")
_KEY = re.compile(r"([A-Za-z][\w-]*):(?:[ \t]+(.*))?$")


class Skill(Struct, frozen=True):
    name: str
    description: str
    path: str


def find_skills(folders: Sequence[str]) -> tuple[tuple[Skill, ...], tuple[str, ...]]:
    """Return the skills of these folders, and what is wrong with others."""
    skills: list[Skill] = []
    problems: list[str] = []
    for path in _files(folders):
        if len(skills) >= MAX_SKILLS:
            problems.append(f"More than {MAX_SKILLS} skills were found; the others are left out.")
            break
        text = read_text(path, os.path.realpath(os.path.dirname(os.path.dirname(path)))) or ""
        skill = parse_skill(text, path)
        if isinstance(skill, Skill):
            skills.append(skill)
        else:
            problems.append(f"The skill {path} is left out: {skill}.")
    return tuple(skills), tuple(problems)


def parse_skill(text: str, path: str) -> Skill | str:
    """Return the skill, or what is wrong with it."""
    front = parse_front_matter(text)
    if front is None:
        return "it has no front matter between two lines of ---"
    name, description = normalize("NFKC", front.get("name", "")), front.get("description", "")
    folder = name_of(path)
    if not _NAME.fullmatch(name) or name != name.lower() or len(name) > NAME_CHARS:
        return f"its name {name[:80]!r} is not made of lower-case letters, digits and single hyphens"
    if name != folder:
        return f"its name {name!r} is not that of its folder, {folder[:80]!r}"
    if not 0 < len(description) <= DESCRIPTION_CHARS:
        return f"its description has {len(description)} characters, and 1 to {DESCRIPTION_CHARS} are allowed"
    return Skill(name, description, path)


def name_of(wanted: str) -> str:
    """Return the name of a skill that is named by its name, or by the path of its `SKILL.md`: it is that of the folder."""
    return normalize("NFKC", wanted.split("/")[-2] if "/" in wanted else wanted)


def parse_front_matter(text: str) -> dict[str, str] | None:
    """Return the texts of the front matter; None if there is none."""
    lines = text.lstrip("\ufeff").splitlines()
    if not lines or lines[0].rstrip() != "---" or "---" not in (line.rstrip() for line in lines[1:]):
        return None
    end = next(n for n, line in enumerate(lines) if n and line.rstrip() == "---")
    found: dict[str, list[str]] = {}
    key = ""
    for line in lines[1:end]:
        match = _KEY.match(line)
        if match:
            key = match[1]
            found[key] = [(match[2] or "").strip()]
        elif key and line[:1] in (" ", "\t"):
            found[key].append(line.strip())
    return {key: _text(parts) for key, parts in found.items()}


def _text(parts: list[str]) -> str:
    first, *more = parts
    if first in ("|", ">", "|-", ">-", "|+", ">+"):
        return ("\n" if first.startswith("|") else " ").join(more).strip()
    whole = " ".join([first, *more]).strip()
    if len(whole) > 1 and whole[0] == whole[-1] and whole[0] in "\"'":
        return whole[1:-1]
    return whole.split(" #", maxsplit=1)[0].rstrip()


def body_of(text: str) -> str:
    """Return the text below the front matter."""
    parts = re.split(r"^---[ \t]*\r?$", text, maxsplit=2, flags=re.MULTILINE)
    return parts[2].strip() if len(parts) == 3 else text.strip()


def render_catalogue(skills: Sequence[Skill]) -> str:
    """Return the part of the system prompt; empty without skills."""
    lines: list[str] = []
    room = MAX_CATALOGUE_BYTES
    for skill in skills:
        line = f"- {skill.name}: {' '.join(skill.description.split())}"
        room -= len(line.encode()) + 1
        if room < 0:
            lines.append("- (more skills exist; find them with skill_search)")
            break
        lines.append(line)
    words = "# Skills\n\nLoad a skill with skill_load before you do what it is for:\n\n"
    return words + "\n".join(lines) if lines else ""


def _files(folders: Sequence[str]) -> Iterator[str]:
    walked = 0
    for folder in folders:
        for place, inner, files in os.walk(Path(folder, FOLDER)):
            inner.sort()
            walked += 1
            if walked > MAX_WALKED:
                return
            if FILE in files:
                inner.clear()
                yield os.path.join(place, FILE)
