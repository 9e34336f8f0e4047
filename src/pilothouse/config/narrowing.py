"""What a workspace's own file takes away: rules that deny or ask, and the widest mode that it accepts.

It is looked at for every decision and read again only when it changed. One that cannot be read takes away the most.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from pilothouse.config.problems import InvalidConfig
from pilothouse.config.workspace import WORKSPACE_FILE_NAME, read_preferences
from pilothouse.core.policy import ApprovalMode
from pilothouse.core.rules import Rule, parse_rule


class Narrowing(Struct, frozen=True):
    rules: tuple[Rule, ...] = ()
    at_most: ApprovalMode = "full-access"


NOTHING = Narrowing()
EVERYTHING = Narrowing(at_most="minimal")


def narrowing_of(folder: Path) -> Narrowing:
    try:
        found = (folder / WORKSPACE_FILE_NAME).lstat()
    except FileNotFoundError:
        return NOTHING
    except OSError:
        return EVERYTHING
    return _read(folder, found.st_mtime_ns, found.st_size, found.st_ino)


@lru_cache(maxsize=256)
def _read(folder: Path, *state: int) -> Narrowing:
    """`state` is what tells one version of the file from another."""
    try:
        wished, _ = read_preferences(folder, None)
    except InvalidConfig:
        return EVERYTHING
    rules = tuple(map(parse_rule, wished.rules or ()))
    return Narrowing(rules, wished.approval_mode or "full-access")
