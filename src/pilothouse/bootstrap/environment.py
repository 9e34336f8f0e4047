"""The environment of everything that runs for an agent."""

from __future__ import annotations

from collections.abc import Mapping

from pilothouse.config import Loaded


def engine_environment(environ: Mapping[str, str], loaded: Loaded) -> dict[str, str]:
    """Returns the environment without our own variables, which may hold secrets, and without channels' tokens.

    An engine's `environment` setting cannot bring them back."""
    leaves = [leaf for key, leaf in loaded.leaves.items() if key[0] == "channels"]
    ours = {"DISCORD_TOKEN"} | {leaf.source for leaf in leaves}
    ours |= {name for leaf in leaves for name in leaf.names if leaf.value in loaded.secrets}
    return {
        name: value
        for name, value in environ.items()
        if not name.startswith("PILOTHOUSE") and name not in ours
    }
