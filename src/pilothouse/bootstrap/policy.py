"""Builds the policy from the configured rules, the shell parser, the file system and the store."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pilothouse.config import Config, ConfigHolder, narrowing_of
from pilothouse.config.paths import Paths
from pilothouse.core.ask import Ask
from pilothouse.core.call import Call
from pilothouse.core.policy import ApprovalMode, Classify, Rule, Ruling, Site, ToolClass, narrower, parse_rule
from pilothouse.core.store import Store
from pilothouse.runtime.asks.rules import RulePolicy, WorkspaceRules

if TYPE_CHECKING:
    from pilothouse.policy.decide import PolicyEnv


HOME_WARNING = (
    "{folder} is your home folder, or above it: the approval mode there is minimal, whatever was chosen"
)


def make_policy(store: Store, holder: ConfigHolder) -> RulePolicy:
    own = own_files(holder.loaded.paths, holder.loaded.config)

    def judge(ask: Ask, rules: Sequence[Rule], site: Site) -> Ruling:
        """Decide about one call. The tables and the parser are loaded with the first."""
        from pilothouse.policy.decide import decide

        return decide(ask, rules, site, _env(own))

    return RulePolicy(store, judge, ConfiguredRules(holder))


def make_classify(paths: Paths, config: Config) -> Classify:
    """Tell which people may answer an ask about a call."""
    own = own_files(paths, config)

    def classify(call: Call | None, workspace: str) -> ToolClass:
        from pilothouse.policy.decide import tool_class

        return tool_class(call, workspace, _env(own))

    return classify


def own_files(paths: Paths, config: Config) -> tuple[str, ...]:
    """Return the files and folders of Pilothouse itself: configuration, secrets, settings of workspaces, data, sockets and logs."""
    settings = config.store.settings
    store = settings.get("path") if isinstance(settings, dict) else getattr(settings, "path", None)
    stored = [f"{os.path.expanduser(store)}{end}" for end in ("", "-wal", "-shm")] if store else []
    folder = paths.config_folder
    configured = (folder,) if folder else (paths.config_file, paths.env_file, paths.workspace_settings)
    found = dict.fromkeys((*configured, paths.data_dir, paths.state_dir, paths.log_dir))
    return (*map(str, found), *stored)


def is_home(workspace: str) -> bool:
    """Tell whether a folder is the home folder, or above it. Everything that a person has lies below."""
    home, place = os.path.realpath(os.path.expanduser("~")), os.path.realpath(workspace)
    return (home + "/").startswith(place.rstrip("/") + "/")


def widest_in(workspace: str) -> ApprovalMode:
    """Return the widest mode that a folder accepts: its own file may narrow it, and a home folder is minimal."""
    place = os.path.realpath(workspace)
    at_most = narrowing_of(Path(place)).at_most
    return narrower(at_most, "minimal") if is_home(place) else at_most


@cache
def _env(own: tuple[str, ...]) -> PolicyEnv:
    from pilothouse.policy.decide import PolicyEnv
    from pilothouse.policy.paths import Filesystem
    from pilothouse.processes.git import git_problem

    return PolicyEnv(Filesystem(), own, git_problem)


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
        return WorkspaceRules((*self._everywhere, *own, *narrowing.rules), widest_in(place))

    def _parse(self, config: Config) -> None:
        self._everywhere = tuple(map(parse_rule, config.policy.rules))
        places: dict[str, tuple[Rule, ...]] = {}
        for section in config.workspaces.values():
            place = os.path.realpath(os.path.expanduser(section.path))
            places[place] = (*places.get(place, ()), *map(parse_rule, section.rules))
        self._places, self._config = places, config
