"""What is wrong with a configuration, in words that name file, key, value and what is allowed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from pilothouse.core.errors import ConfigError
from pilothouse.core.secret import Secret

MAX_SHOWN = 60


class Problem(Struct, frozen=True):
    """`source` is a file or an environment variable; `key` is dotted and may be empty."""

    source: str
    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.source}: {self.key}: {self.text}" if self.key else f"{self.source}: {self.text}"


class InvalidConfig(ConfigError):
    """Every problem at once, so that nobody has to start five times; and what else would be warned of."""

    def __init__(self, problems: Sequence[Problem], warnings: Sequence[Problem] = ()) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)
        self.warnings = tuple(warnings)


def show(value: object) -> str:
    """A value as a person would write it, short enough for a line. Nothing in it drives a terminal."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = '"…"' if isinstance(value, Secret) else f'"{value}"' if isinstance(value, str) else repr(value)
    text = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text[: MAX_SHOWN + 1])
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean x?`, or nothing."""
    import difflib

    found = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {found[0]}?" if found else ""
