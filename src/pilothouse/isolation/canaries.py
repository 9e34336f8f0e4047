"""Proofs for each engine: a scripted model made the real program try to get out of a jail, and nothing got through. They decide
what `isolation = "auto"` means: a jail in a folder that is not trusted, and in a trusted one as the owner chose. As root no
jail is chosen: Codex's own sandbox fails in it.

`canaries.json` is written by `tools/canaries`, and the tests with the real programs fail where it does not say what they saw.
Nothing else may call an engine "jailed".
"""

from __future__ import annotations

import re
import shlex
from functools import lru_cache
from importlib.resources import files

import msgspec
from msgspec import Struct

from pilothouse.core.isolation import Kind, Network

TABLE = "canaries.json"
HELD = "held"
TRUSTED = (
    "the folder is trusted, and no jail was chosen for it. To have one: pilothouse trust --jail {workspace}"
)
AS_ROOT = 'Pilothouse runs as root, where Codex\'s own sandbox fails in a jail. Run it as another user, or set kind = "jail" under [isolation]'
UNPROVED = (
    'no jail was proved with the engine {engine}. To have one anyway, set kind = "jail" under [isolation]'
)
_MINOR = re.compile(r"\d+\.\d+")


class Proof(Struct, frozen=True):
    """The results of one engine's canaries, with the machine's network ("open") and behind the proxy ("model"): each is `held`
    or `BROKEN`. The version is empty for the engine that is part of Pilothouse."""

    version: str
    results: dict[str, dict[str, str]]

    def holds(self, network: Network) -> bool:
        found = self.results.get("open" if network == "open" else "model", {})
        return bool(found) and set(found.values()) == {HELD}

    def fits(self, version: str) -> bool:
        """Tell whether another version is the same but for its last part. One that is not known is another one."""
        return bool(version) and _MINOR.findall(version)[:1] == _MINOR.findall(self.version)[:1] != []


@lru_cache(maxsize=1)
def read_proofs() -> dict[str, Proof]:
    data = files("pilothouse.isolation").joinpath(TABLE).read_bytes()
    return msgspec.json.decode(data, type=dict[str, Proof])


def find_proof(engine: str, network: Network) -> Proof | None:
    """Return the proof that nothing got out of a jail through this engine; "none" is no wider than "model"."""
    found = read_proofs().get(engine)
    return found if found is not None and found.holds(network) else None


def describe_proof(engine: str, version: str) -> str:
    """Say in a few words whether jails were proved with an engine, and whether with this version."""
    found = find_proof(engine, "open")
    if found is None:
        return "not proved in a jail"
    if version == found.version or not found.version:
        return "proved in a jail"
    differs = "" if found.fits(version) else f", this is {version or 'an unknown version'}"
    return f"proved in a jail with {found.version}{differs}"


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
