"""The folders of one container: its root, the empty folders that lie on hidden ones, and /workspace.

    /workspace/agent            a link to the workspace, which is there under its own path too
    /workspace/agent/conversations   its transcripts, read-only
    /workspace/global           the folder that all agents share, read-only
    /workspace/extra/NAME       links to the folders of allow_read and allow_write
    /workspace/downloads        a link to the folder of uploaded files
    /workspace/config.json      what the container was started with

Rule: every point of a mount is made here. A runtime would make it as another user, and it could not be removed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from pilothouse.core.engine import ProcessStart
from pilothouse.core.isolation import Isolation
from pilothouse.isolation.container import cover_of, source_of
from pilothouse.isolation.pins import open_folder, pinned
from pilothouse.isolation.profile import Mount, is_within

INSIDE = "/workspace"
OWN_FOLDER, CONVERSATIONS = ".pilothouse", "conversations"
DOWNLOADS = "downloads"
ENGINE = "AGENT_PROVIDER"
"""The variable that tells programs in a container which engine they serve."""
ROOT_FOLDERS = ("dev", "proc", "sys", "etc", "tmp", "run", "var/tmp", "usr")


def lay_out(folder: Path, start: ProcessStart, isolation: Isolation) -> list[Mount]:
    """Fill the folder that is /workspace inside, and return its mounts. A workspace that is there itself takes its place."""
    workspace = os.path.realpath(start.workspace)
    if is_within(workspace, INSIDE):
        return []
    extra = extra_links(isolation)
    links = {"agent": workspace, DOWNLOADS: os.path.join(workspace, DOWNLOADS)}
    (folder / "extra").mkdir(parents=True)
    for name, path in {**links, **{f"extra/{name}": path for name, path in extra.items()}}.items():
        (folder / name).symlink_to(path)
    found = [Mount("read", INSIDE, str(folder))]
    shared = isolation.container.global_folder
    if shared and os.path.isdir(shared):
        (folder / "global").mkdir()
        found.append(Mount("read", f"{INSIDE}/global", shared))
    told = msgspec.json.format(msgspec.json.encode(_told(start, isolation, extra)))
    (folder / "config.json").write_bytes(told + b"\n")
    return found


def _told(start: ProcessStart, isolation: Isolation, extra: Mapping[str, str]) -> dict[str, Any]:
    return {
        "process": start.name,
        "engine": start.environment.get(ENGINE, ""),
        "workspace": os.path.realpath(start.workspace),
        "trusted": start.trusted,
        "network": isolation.network,
        "timezone": start.environment.get("TZ", ""),
        "extra": dict(extra),
    }


def extra_links(isolation: Isolation) -> dict[str, str]:
    """Name the folders of allow_read and allow_write, each once."""
    found: dict[str, str] = {}
    for path in dict.fromkeys((*isolation.allow_read, *isolation.allow_write)):
        stem = name = os.path.basename(path.rstrip("/")) or "root"
        number = 1
        while name in found:
            number += 1
            name = f"{stem}-{number}"
        found[name] = path
    return found


def transcripts(workspace: str) -> list[Mount]:
    """Show the transcripts as `conversations`, unless the workspace has such a folder of its own. Git does not see an empty one."""
    kept, shown = os.path.join(workspace, OWN_FOLDER, CONVERSATIONS), os.path.join(workspace, CONVERSATIONS)
    try:
        with (
            open_folder(os.path.join(workspace, OWN_FOLDER)) as own,
            open_folder(CONVERSATIONS, own) as place,
        ):
            state = os.fstat(place)
        os.makedirs(shown, exist_ok=True)
        is_free = not os.path.islink(shown) and not os.listdir(shown)
    except OSError:
        return []
    return [pinned("read", shown, state, kept)] if is_free else []


def prepare(found: Iterable[Mount], root: Path | None, covers: Path, ours: Path) -> None:
    """Make the points of all mounts that lie in folders of ours, the covers, and the links of our own root."""
    if root is not None:
        for name in ROOT_FOLDERS:
            (root / name).mkdir(parents=True, exist_ok=True)
    done: list[Mount] = []
    for mount in found:
        if mount.kind == "empty":
            Path(cover_of(mount, str(covers))).mkdir(parents=True, exist_ok=True)
        if (place := _place(mount, done, root, covers, ours)) is not None:
            _make_point(place, mount, str(covers))
        done.append(mount)


def _place(mount: Mount, done: Iterable[Mount], root: Path | None, covers: Path, ours: Path) -> Path | None:
    """Return where the point of a mount lies on this machine; None if not in a folder of ours."""
    around = [one for one in done if is_within(mount.target, one.target) and one.kind != "link"]
    if not around:
        return root / mount.target.lstrip("/") if root else None
    innermost = max(around, key=lambda one: len(one.target))
    source = source_of(innermost, str(covers))
    if not is_within(source, str(ours)):
        return None
    return Path(source, os.path.relpath(mount.target, innermost.target))


def _make_point(place: Path, mount: Mount, covers: str) -> None:
    if os.path.lexists(place):
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    if mount.kind == "link":
        place.symlink_to(mount.source)
    elif os.path.isdir(source := source_of(mount, covers)):
        place.mkdir()
    elif os.path.exists(source):
        place.touch()
