"""The settings of a project, `[model]` and `[search]` of its `.pilothouse.toml`, over the configured ones. Pure.

They choose among what the owner set up: no address, no key, no variable and no permission can be set there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import msgspec
from msgspec.structs import replace

from pilothouse.engines.native.config import Effort, NativeConfig, ProviderName, SearchConfig, Verbosity

ALLOWED: Mapping[str, tuple[str, ...]] = {
    "provider": get_args(ProviderName),
    "effort": get_args(Effort),
    "verbosity": get_args(Verbosity),
}
IGNORED = "The `{key}` {value!r} of .pilothouse.toml was ignored; allowed: {allowed}."


def with_project(
    config: NativeConfig, preferences: Mapping[str, Any]
) -> tuple[NativeConfig, tuple[str, ...]]:
    """Return the configuration of a project, and what was ignored."""
    model, search = dict(preferences.get("model") or {}), dict(preferences.get("search") or {})
    bad = {key: value for key, value in model.items() if key in ALLOWED and value not in ALLOWED[key]}
    good = {key: value for key, value in model.items() if key in ALLOWED and key not in bad}
    problems = tuple(
        IGNORED.format(key=f"model.{key}", value=value, allowed=", ".join(ALLOWED[key]))
        for key, value in bad.items()
    )
    if model.get("name") and "provider" not in bad:
        good["model"] = model["name"]
    elif good.get("provider") not in (None, config.provider):
        good["model"] = None  # the configured one belongs to another provider
    if good.get("provider") not in (None, config.provider):
        good["base_url"] = None
    own = msgspec.structs.asdict(config.search) | search
    return replace(config, **good, search=SearchConfig(**own)), problems
