"""Configuration that changes under a running gateway: read anew, logged, and told to whoever sits in front of it."""

from __future__ import annotations

from collections.abc import Callable

from pilothouse.bootstrap.house import House
from pilothouse.config import Reloaded, watch


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
