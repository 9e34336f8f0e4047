"""Plugins: engines, channels, stores and commands, built-in and third-party alike, found by entry points."""

from pilothouse.plugins.registry import Broken, Found, Group, Loaded, Plugins

__all__ = ["Broken", "Found", "Group", "Loaded", "Plugins"]
