"""The real clock and the real ids."""

from __future__ import annotations

import secrets
import time

import anyio

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32, without letters that look alike, because people type these ids."""


class SystemClock:
    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


def new_id(prefix: str) -> str:
    """Return an id with sixty random bits, enough for any one store."""
    drawn = secrets.randbits(60)
    return f"{prefix}-{''.join([ALPHABET[drawn >> shift & 31] for shift in range(0, 60, 5)])}"
