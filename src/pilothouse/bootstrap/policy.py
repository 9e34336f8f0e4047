"""The house's policy, put together: rules of the configuration, a parser, the machine's paths, the store."""

from __future__ import annotations

import os
from pathlib import Path

from pilothouse.config import Config, ConfigHolder, narrowing_of
from pilothouse.core.policy import Senses
from pilothouse.core.rules import Rule, parse_rule
from pilothouse.core.store import Store
from pilothouse.runtime.asks.rules import HousePolicy, Told
from pilothouse.shell import BashSegmenter, RealGround


def make_policy(store: Store, holder: ConfigHolder) -> HousePolicy:
    return HousePolicy(store, Senses(BashSegmenter(), RealGround()), ConfiguredRules(holder))


class ConfiguredRules:
    """What the configuration and a workspace's own file say; parsed anew only when the configuration was read anew."""

    def __init__(self, holder: ConfigHolder) -> None:
        self._holder = holder
        self._config: Config | None = None
        self._everywhere: tuple[Rule, ...] = ()
        self._places: dict[str, tuple[Rule, ...]] = {}

    def __call__(self, workspace: str) -> Told:
        if self._holder.current is not self._config:
            self._parse(self._holder.current)
        place = os.path.realpath(workspace)
        narrowing = narrowing_of(Path(place))
        own = self._places.get(place, ())
        return Told((*self._everywhere, *own, *narrowing.rules), narrowing.at_most)

    def _parse(self, config: Config) -> None:
        self._everywhere = tuple(map(parse_rule, config.policy.rules))
        places: dict[str, tuple[Rule, ...]] = {}
        for section in config.workspaces.values():
            place = os.path.realpath(os.path.expanduser(section.path))
            places[place] = (*places.get(place, ()), *map(parse_rule, section.rules))
        self._places, self._config = places, config
