"""A text that nobody may see by accident: printing, formatting and encoding show a mark instead of it."""

from __future__ import annotations

from typing import final


@final
class Secret:
    """The type of a setting that is a secret. Only `reveal` gives the text away, so every use can be found.

    `source` is where it stands, or where one that is missing belongs, in words for whoever has to change it; empty where
    nobody knows.
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
