"""Writes TOML and private files: a file is written completely or not at all, and only its owner can read it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pilothouse.config.sources import parse_literal
from pilothouse.core.errors import ConfigError


def quote(text: str) -> str:
    """Returns a TOML string; also escapes what JSON allows and TOML forbids."""
    quoted = json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
    if parse_literal(quoted) != text:
        raise ConfigError(f"{text!r} cannot be written into a configuration")
    return quoted


def literal(value: Any) -> str:
    """Returns a TOML value on one line; a table too."""
    match value:
        case str():
            return quote(value)
        case bool():
            return "true" if value else "false"
        case list() | tuple():
            return f"[{', '.join(map(literal, value))}]"
        case dict():
            return "{" + ", ".join(_pairs(value)) + "}"
        case int() | float():
            return repr(value)
        case _:  # a date, a time, or both
            return value.isoformat()


def settings(table: Mapping[str, Any]) -> str:
    """Returns the lines of one table."""
    return "".join(f"{pair}\n" for pair in _pairs(table))


def tables(table: Mapping[str, Any], *at: str) -> str:
    """Returns the table under its header, and each nested table under its own."""
    own = {name: value for name, value in table.items() if not isinstance(value, dict)}
    inner = {name: value for name, value in table.items() if isinstance(value, dict)}
    head = f"\n[{'.'.join(map(_key, at))}]\n{settings(own)}" if own or not inner else ""
    return head + "".join(tables(value, *at, name) for name, value in inner.items())


def _pairs(table: Mapping[str, Any]) -> list[str]:
    return [f"{_key(name)} = {literal(value)}" for name, value in table.items()]


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else quote(name)


def write_private(file: Path, text: str) -> None:
    """Writes a file atomically, readable by its owner only."""
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write_whole(file, text)


@contextmanager
def writing(file: Path) -> Iterator[None]:
    """Turns an `OSError` within into a `ConfigError` about this file."""
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"{file} cannot be written: {error.strerror}; PILOTHOUSE_HOME names another folder"
        ) from error


def _write_whole(file: Path, text: str) -> None:
    draft = file.with_name(f".{file.name}.{os.getpid()}.new")
    try:
        with os.fdopen(
            os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8"
        ) as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
