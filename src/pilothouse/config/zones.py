"""Names of time zones to time zones. UTC needs no database, and is there on every machine."""

from __future__ import annotations

from datetime import UTC, tzinfo


def find_zone(name: str) -> tzinfo:
    """Raises `LookupError` for a name that nobody knows here."""
    if name.upper() == "UTC":
        return UTC
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (ValueError, OSError) as error:  # a path, a folder: no name at all
        raise LookupError(name) from error
