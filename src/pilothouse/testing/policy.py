"""A policy with fixed rules, for tests without a store."""

from __future__ import annotations

from collections.abc import Sequence

from pilothouse.core.ask import Ask
from pilothouse.core.policy import Rule, Ruling, Site
from pilothouse.policy.decide import PolicyEnv, decide


class FixedPolicy:
    def __init__(self, rules: Sequence[Rule] = (), env: PolicyEnv | None = None) -> None:
        self._rules = tuple(rules)
        self._env = env or PolicyEnv()

    async def judge(self, ask: Ask, site: Site) -> Ruling:
        return decide(ask, self._rules, site, self._env)
