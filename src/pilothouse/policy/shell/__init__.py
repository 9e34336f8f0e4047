"""Reads the text of a shell command. The parser is loaded with the first command that needs it."""

from pilothouse.policy.shell.parse import BashParser

__all__ = ["BashParser"]
