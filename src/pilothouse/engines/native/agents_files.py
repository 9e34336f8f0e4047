"""AGENTS.md from the root of a repository down to the workspace, as a part of the system prompt.

The root is the nearest folder with `.git`, `.jj` or `.pilothouse.toml`, else the workspace itself. Only a trusted
workspace's files are read: they are instructions.
"""

from __future__ import annotations

import os

from msgspec import Struct

from pilothouse.engines.workspace_files import read_text

NAME = "AGENTS.md"
MARKERS = (".git", ".jj", ".pilothouse.toml")
MAX_FILES = 16
MAX_BYTES = 256 * 1024


CUT = "[The rest of this file is left out: all AGENTS.md files together have more than 256 KiB. Read it before you work.]"


class AgentsFile(Struct, frozen=True):
    path: str
    text: str
    is_cut: bool = False


def find_root(workspace: str) -> str:
    folder = os.path.realpath(workspace)
    for place in _upwards(folder):
        if any(os.path.lexists(os.path.join(place, name)) for name in MARKERS):
            return place
    return folder


def folders_between(root: str, folder: str) -> list[str]:
    """Return the folders from the root down to a folder below it."""
    below = [place for place in _upwards(folder) if os.path.commonpath((place, root)) == root]
    return below[::-1]


def read_agents(root: str, folder: str) -> list[AgentsFile]:
    """Return the files from the root down. What does not fit is cut."""
    files: list[AgentsFile] = []
    room = MAX_BYTES
    for place in folders_between(root, folder):
        path = os.path.join(place, NAME)
        text = read_text(path, root, MAX_BYTES + 1)
        if text is None or not text.strip():
            continue
        if len(files) >= MAX_FILES:
            break
        data = text.strip().encode("utf-8", "replace")
        files.append(AgentsFile(path, data[:room].decode("utf-8", "ignore"), len(data) > room))
        room = max(0, room - len(data))
    return files


def render_agents(files: list[AgentsFile]) -> str:
    parts = [f"Instructions from {file.path}:\n\n{file.text}" + f"\n{CUT}" * file.is_cut for file in files]
    return "# Instructions of this repository\n\n" + "\n\n".join(parts) if parts else ""


def _upwards(folder: str) -> list[str]:
    places = [folder]
    while (above := os.path.dirname(places[-1])) != places[-1]:
        places.append(above)
    return places
