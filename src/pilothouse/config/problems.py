"""Problems of a configuration: each names file, key, value and what is allowed."""

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
    """All problems at once, and the warnings."""

    def __init__(self, problems: Sequence[Problem], warnings: Sequence[Problem] = ()) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)
        self.warnings = tuple(warnings)


def show(value: object) -> str:
    """Format a value for a message: short, one line, control characters escaped."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = '"…"' if isinstance(value, Secret) else f'"{value}"' if isinstance(value, str) else repr(value)
    text = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text[: MAX_SHOWN + 1])
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"


def nearest(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean x?`, or an empty string."""
    import difflib

    found = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {found[0]}?" if found else ""
