"""Configuration that changes under a running gateway: read anew, logged, and told to whoever sits in front of it."""

from __future__ import annotations

from collections.abc import Callable

from pilothouse.bootstrap.house import House
from pilothouse.config import Reloaded, watch

EDITED = "The configuration was edited."


def words_for(result: Reloaded) -> str:
    """For whoever sits in front of it; empty for an edit that changed nothing, which is nobody's business."""
    if result == Reloaded():
        return ""
    text = result.text[:1].upper() + result.text[1:]
    return text if result.problem else f"{EDITED} {text}"


async def reload_on_change(house: House, tell: Callable[[Reloaded], None] = lambda _: None) -> None:
    """Until it is cancelled. `tell` hears what became of each edit."""
    paths = house.holder.loaded.paths

    def reload() -> None:
        result = house.holder.reload()
        house.redactor.add(*house.holder.loaded.secrets)
        house.log.level = house.config.log.level
        house.log("config.reloaded", level="warning" if result.worrying else "info", text=result.text)
        tell(result)

    await watch([paths.config_file, paths.env_file], reload)
