"""Which models Claude Code can be given: what its own greeting says, and until one was heard, the names it always takes.

No process is started to find out: whoever may use which model differs by login, so only a process that runs can tell.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, field

from pilothouse.core.engine import Model

ALIASES = (Model("opus", "Opus"), Model("sonnet", "Sonnet"), Model("haiku", "Haiku"))
OWN_CHOICE = "default"
"""With it Claude chooses; `/model default` means that already, whatever the engine."""
MOST = 100


class _Offered(Struct, frozen=True):
    value: str
    resolved: str = field(default="", name="resolvedModel")
    title: str = field(default="", name="displayName")


class _Greeting(Struct, frozen=True):
    models: list[_Offered] = field(default_factory=list)


def read_models(greeting: Any, given: str | None) -> tuple[Model, ...]:
    """The answer to `initialize`, of a process that was started with the model `given`: if that is a full name, it is
    listed because we gave it, right or wrong. Empty if there is nothing that we can read."""
    try:
        offered = msgspec.convert(greeting, _Greeting).models
    except msgspec.ValidationError:
        return ()
    return tuple(
        Model(one.value, one.title)
        for one in offered[:MOST]
        if one.value not in ("", OWN_CHOICE) and not (one.value == given == one.resolved)
    )
