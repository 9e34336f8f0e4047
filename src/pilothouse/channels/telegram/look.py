"""How messages shall look: what the server can show, and what people prefer."""

from __future__ import annotations

from msgspec import Struct


class Look(Struct, frozen=True):
    rich: bool = False
    """Whether the server has rich messages (Bot API 10.1)."""
    parts: int = 6
    """An answer that would be more messages than this is a file."""
    table_width: int = 36
    """How many columns of one-width letters fit on a phone; a wider table is told row by row."""
    commands: bool = True
    """Whether progress shows the commands that run, or only that one runs."""
