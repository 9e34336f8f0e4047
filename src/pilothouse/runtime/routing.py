"""Pure: is this text for us or for the engine?

Only a first word of the shape `/name` is ever looked at, and only a whole known name runs anything: `/stopp` is a
hint, `/etc/hosts is broken` is a message.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping
from types import MappingProxyType

from msgspec import Struct

_SLASH_WORD = re.compile(r"^/([a-zA-Z][a-zA-Z0-9_-]*)(?:@\w+)?(?:\s+|$)")


class Say(Struct, frozen=True):
    """For the engine."""


class Command(Struct, frozen=True):
    name: str
    args: str


class Unknown(Struct, frozen=True):
    """A slash word that we do not know, and the nearest that we do."""

    word: str
    nearest: str | None


Route = Say | Command | Unknown


def route(text: str, commands: Collection[str], aliases: Mapping[str, str] = MappingProxyType({})) -> Route:
    """`aliases` are further names of commands: people who come from elsewhere know them by those."""
    match = _SLASH_WORD.match(text)
    if match is None:
        return Say()
    said = match.group(1).lower()
    word = aliases.get(said, said)
    if word in commands:
        return Command(word, text[match.end() :].strip())
    near = difflib.get_close_matches(word, list(commands), n=1, cutoff=0.6)
    return Unknown(word, near[0] if near else None)
