"""Plugins: engines, channels, stores and commands, ours and strangers' alike, found by their entry points."""

from pilothouse.plugins.registry import Broken, Found, Group, Loaded, Plugins

__all__ = ["Broken", "Found", "Group", "Loaded", "Plugins"]
