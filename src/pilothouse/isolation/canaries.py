"""Proofs for each engine: a scripted model made the real program try to get out of a jail, and nothing got through.

`canaries.json` is written by `tools/canaries`, and the tests with the real programs fail where it does not say what they saw.
Nothing else may call an engine "jailed".
"""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

import msgspec
from msgspec import Struct

TABLE = "canaries.json"
HELD = "held"


class Proof(Struct, frozen=True):
    """The results of one engine's canaries: each is `held` or `BROKEN`."""

    version: str
    results: dict[str, str]

    @property
    def holds(self) -> bool:
        return bool(self.results) and set(self.results.values()) == {HELD}


@lru_cache(maxsize=1)
def read_proofs() -> dict[str, Proof]:
    data = files("pilothouse.isolation").joinpath(TABLE).read_bytes()
    return msgspec.json.decode(data, type=dict[str, Proof])


def is_proved(engine: str) -> bool:
    """Tell whether nothing got out of a jail through this engine."""
    found = read_proofs().get(engine)
    return found is not None and found.holds
