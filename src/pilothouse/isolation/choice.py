"""Decides what `isolation = "auto"` means for one engine in one workspace: a jail where it is known to hold and to work. Pure.

A jail is chosen for an engine whose canaries held, in a folder that is not trusted; in a trusted one the owner chose when they
trusted it. As root no jail is chosen: Codex's own sandbox fails in it.
"""

from __future__ import annotations

import shlex

from pilothouse.core.isolation import Kind, Network
from pilothouse.isolation.canaries import find_proof

TRUSTED = (
    "the folder is trusted, and no jail was chosen for it. To have one: pilothouse trust --jail {workspace}"
)
AS_ROOT = 'Pilothouse runs as root, where Codex\'s own sandbox fails in a jail. Run it as another user, or set kind = "jail" under [isolation]'
UNPROVED = (
    'no jail was proved with the engine {engine}. To have one anyway, set kind = "jail" under [isolation]'
)


def reason_for_none(workspace: str, engine: str, network: Network, trusted: bool | None, problem: str) -> str:
    """Say why there is no jail; empty if there is one. `trusted` is None for a folder that is not, else whether a jail was chosen.

    `engine` is empty for a program that no engine starts: the jail itself was proved. `problem` says why none can be made."""
    if trusted is False:
        return TRUSTED.format(workspace=shlex.quote(workspace))
    if engine and find_proof(engine, network) is None:
        return UNPROVED.format(engine=engine)
    return problem


def may_choose_jail(kind: Kind, user: int, problem: str) -> bool:
    """Tell whether it makes a difference what an owner chooses for a folder that they trust."""
    return kind == "auto" and user != 0 and not problem
