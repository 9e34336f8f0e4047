"""The folder in which lanes are kept: one JSON file each, replaced as a whole."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from pilothouse.core.lane import Lane, LaneError, LaneState

__all__ = ["Lane", "LaneError", "LaneFolder", "LaneState", "lanes_in", "new_lane_id", "slug_of"]

_SLUG = re.compile(r"[^a-z0-9]+")
SLUG_CHARACTERS = 40


def new_lane_id() -> str:
    return secrets.token_hex(4)


def slug_of(task: str) -> str:
    return _SLUG.sub("-", task.lower()).strip("-")[:SLUG_CHARACTERS].strip("-") or "lane"


def lanes_in(home: Path) -> LaneFolder:
    """Return the lanes of a data folder."""
    return LaneFolder(home / "lanes")


class LaneFolder:
    """The files of all lanes. A file that cannot be read is skipped: another version may have written it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def all(self) -> list[Lane]:
        """Return every lane, oldest first."""
        return sorted(self._read(), key=lambda lane: lane.created_at)

    def find(self, id: str) -> Lane:
        """Return the lane with this id, or the only one whose id begins so. Raises `LaneError`."""
        lanes = self.all()
        found = [lane for lane in lanes if lane.id == id] or [
            lane for lane in lanes if lane.id.startswith(id)
        ]
        if len(found) == 1 and id:
            return found[0]
        known = ", ".join(lane.id for lane in lanes) or "none"
        raise LaneError(f"There is no lane {id!r}. Lanes: {known}.")

    def origin(self, place: str) -> str:
        """Return the folder that the lane of this real path was created from; the path itself outside of lanes."""
        for lane in self._read():
            if Path(place).is_relative_to(os.path.realpath(lane.worktree)):
                return lane.folder or lane.repository
        return place

    def save(self, lane: Lane) -> Lane:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        new = self._folder / f".{lane.id}.new"
        with new.open("wb") as file:
            file.write(msgspec.json.encode(lane))
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path(lane.id))
        return lane

    def remove(self, lane: Lane) -> None:
        self._path(lane.id).unlink(missing_ok=True)

    def _read(self) -> Iterator[Lane]:
        for path in self._folder.glob("*.json"):
            with suppress(OSError, msgspec.MsgspecError):
                yield msgspec.json.decode(path.read_bytes(), type=Lane)

    def _path(self, id: str) -> Path:
        return self._folder / f"{id}.json"
