"""Builds the policy from the configured rules, the shell parser, the file system and the store."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pilothouse.config import Config, ConfigHolder, narrowing_of
from pilothouse.core.ask import Ask
from pilothouse.core.policy import Ruling, Site
from pilothouse.core.rules import Rule, parse_rule
from pilothouse.core.store import Store
from pilothouse.runtime.asks.rules import RulePolicy, WorkspaceRules

if TYPE_CHECKING:
    from pilothouse.policy.decide import PolicyEnv


def make_policy(store: Store, holder: ConfigHolder) -> RulePolicy:
    return RulePolicy(store, judge, ConfiguredRules(holder))


def judge(ask: Ask, rules: Sequence[Rule], site: Site) -> Ruling:
    """Decide about one call. The tables and the parser are loaded with the first."""
    from pilothouse.policy.decide import decide

    return decide(ask, rules, site, _env())


@cache
def _env() -> PolicyEnv:
    from pilothouse.policy.decide import PolicyEnv
    from pilothouse.policy.filesystem import RealFilesystem
    from pilothouse.policy.shell import BashParser

    return PolicyEnv(BashParser(), RealFilesystem())


class ConfiguredRules:
    """Rules of the configuration and of a workspace's own file; the former are parsed again after a reload only."""

    def __init__(self, holder: ConfigHolder) -> None:
        self._holder = holder
        self._config: Config | None = None
        self._everywhere: tuple[Rule, ...] = ()
        self._places: dict[str, tuple[Rule, ...]] = {}

    def __call__(self, workspace: str) -> WorkspaceRules:
        if self._holder.current is not self._config:
            self._parse(self._holder.current)
        place = os.path.realpath(workspace)
        narrowing = narrowing_of(Path(place))
        own = self._places.get(place, ())
        return WorkspaceRules((*self._everywhere, *own, *narrowing.rules), narrowing.at_most)

    def _parse(self, config: Config) -> None:
        self._everywhere = tuple(map(parse_rule, config.policy.rules))
        places: dict[str, tuple[Rule, ...]] = {}
        for section in config.workspaces.values():
            place = os.path.realpath(os.path.expanduser(section.path))
            places[place] = (*places.get(place, ()), *map(parse_rule, section.rules))
        self._places, self._config = places, config
