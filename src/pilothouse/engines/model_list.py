"""The models that a program offered last, kept in a file: they are listed without starting the program."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from pilothouse.core.engine import Model

MAX_BYTES = 256 * 1024
MOST = 100

_decode = msgspec.json.Decoder(tuple[Model, ...]).decode


class ModelList:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: tuple[Model, ...] | None = None

    def read(self) -> tuple[Model, ...]:
        if self._known is None:
            self._known = self._load()
        return self._known

    def after(self, configured: str | None) -> tuple[Model, ...]:
        """Return the configured model, then those that the program offered last."""
        first = {name: Model(name) for name in (configured,) if name}
        return tuple((first | {model.name: model for model in self.read()}).values())

    def keep(self, models: Sequence[Model]) -> None:
        """Keep a list that is not empty. A file that cannot be written costs nothing but the list after a restart."""
        models = tuple(models)[:MOST]
        if not models or models == self.read():
            return
        self._known = models
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            new = self._path.with_suffix(".new")
            new.write_bytes(msgspec.json.encode(models))
            os.replace(new, self._path)
        except OSError:
            pass

    def _load(self) -> tuple[Model, ...]:
        try:
            with self._path.open("rb") as file:
                return _decode(file.read(MAX_BYTES))[:MOST]
        except (OSError, msgspec.MsgspecError, UnicodeError):
            return ()
