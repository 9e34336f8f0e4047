"""How messages shall look: what people prefer."""

from __future__ import annotations

from msgspec import Struct

from pilothouse.channels.discord.limits import PARTS


class Look(Struct, frozen=True):
    parts: int = PARTS
    """An answer that would be more messages than this is a file."""
    table_width: int = 64
    """How many columns of one-width letters fit; a wider table is told row by row."""
    commands: bool = True
    """Whether progress shows the commands that run, or only that one runs."""
