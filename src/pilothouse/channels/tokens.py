"""Where a new token belongs: .env is no help where the old one stands in a place that counts before it."""

from __future__ import annotations

from pilothouse.core.secret import Secret


def place_of(token: Secret, variable: str) -> str:
    """What comes after "put it"."""
    return f"where the old one is: {token.source}" if token.source else f"into .env as {variable}"


def put_missing(secret: Secret, variable: str) -> str:
    """What to do with one that is empty, once somebody has it."""
    return f"put it into {secret.source or f'.env as {variable}=…'}"


def and_put(token: Secret) -> str:
    """For the end of a sentence about one that is wrong; nothing where it was just typed, and is kept nowhere yet."""
    return f", and put it where the old one is: {token.source}" if token.source else ""
