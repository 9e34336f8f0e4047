"""Secrets: printing, formatting and encoding show a placeholder instead of the text."""

from __future__ import annotations

import re
from typing import final

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_AT = re.compile("[@\N{FULLWIDTH COMMERCIAL AT}\N{SMALL COMMERCIAL AT}]")


@final
class Secret:
    """The type of a secret setting. Only `reveal` returns the text, so every use can be found.

    `source` says for people where it is set, or should be; empty if unknown.
    """

    __slots__ = ("_text", "source")

    def __init__(self, text: str, source: str = "") -> None:
        self._text = text
        self.source = source

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return "Secret('…')" if self._text else "Secret('')"

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __reduce__(self) -> str:
        raise TypeError("a secret is not pickled")


def token_place(token: Secret, variable: str) -> str:
    """Completes "put it …": where a new token belongs."""
    return f"where the old one is: {token.source}" if token.source else f"into .env as {variable}"


def put_missing(secret: Secret, variable: str) -> str:
    """Says where to put a token that is missing."""
    return f"put it into {secret.source or f'.env as {variable}=…'}"


def and_put(token: Secret) -> str:
    """Ends a sentence about a wrong token; empty if it was just typed and is stored nowhere yet."""
    return f", and put it where the old one is: {token.source}" if token.source else ""


def without_login(address: str) -> str:
    """Return the address as it may be shown. A password may hold anything, even the end of a scheme."""
    scheme = begin[0] if (begin := _SCHEME.match(address)) else ""
    return scheme + _AT.split(address[len(scheme) :])[-1]
