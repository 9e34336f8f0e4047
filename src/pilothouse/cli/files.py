"""Writing into files that people own: whole or not at all, for their owner alone, and as TOML reads it again."""

from __future__ import annotations

import json
import os
from pathlib import Path

from pilothouse.config.sources import parse_literal
from pilothouse.core.errors import ConfigError


def quote(text: str) -> str:
    """A TOML string. What JSON leaves bare and TOML forbids is escaped too."""
    quoted = json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
    if parse_literal(quoted) != text:
        raise ConfigError(f"{text!r} cannot be written into a configuration")
    return quoted


def write_private(file: Path, text: str) -> None:
    """Whole or not at all, and readable by its owner alone."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write_whole(file, text)
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
