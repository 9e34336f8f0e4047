"""Data about models: window, longest reply, price, release date. From `models.json`, data of models.dev.

A model that the bundled list lacks is looked up at models.dev once; what was found is kept in the engine's folder. Without
any data a model has a window of 128,000 tokens, and its cost is unknown.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct, field

from pilothouse.core.engine import Model
from pilothouse.engines.native.messages import Tokens

BUNDLED = Path(__file__).with_name("models.json")
LATER = "models.json"
MAX_BYTES = 64 * 1024 * 1024
MAX_KEPT_BYTES = 8 * 1024 * 1024
WINDOW = 128_000
OUTPUT = 32_000


class _Limit(Struct, frozen=True):
    context: int = 0
    input: int = 0
    output: int = 0


class _Cost(Struct, frozen=True):
    input: float | None = None
    output: float | None = None
    cache_read: float | None = None
    cache_write: float | None = None


class ModelFacts(Struct, frozen=True):
    """Prices are in USD for a million tokens."""

    name: str = ""
    reasoning: bool = True
    """It thinks before it answers."""
    release_date: str = ""
    limit: _Limit = _Limit()
    cost: _Cost | None = None

    @property
    def window(self) -> int:
        """Tokens that a request may hold."""
        return self.limit.input or self.limit.context or WINDOW

    @property
    def output(self) -> int:
        return min(self.limit.output or OUTPUT, OUTPUT)

    def price(self, tokens: Tokens) -> float | None:
        """Return the price of a request by the list; None if it is unknown."""
        cost = self.cost
        if tokens.cost_usd is not None:
            return tokens.cost_usd
        if cost is None or cost.input is None or cost.output is None:
            return None
        read = cost.input if cost.cache_read is None else cost.cache_read
        write = cost.input if cost.cache_write is None else cost.cache_write
        spent = tokens.input * cost.input + tokens.output * cost.output
        return (spent + tokens.cache_read * read + tokens.cache_write * write) / 1_000_000


class _Provider(Struct, frozen=True):
    models: dict[str, ModelFacts] = field(default_factory=dict)


class _Lenient(Struct, frozen=True):
    models: dict[str, msgspec.Raw] = field(default_factory=dict)


Listed = Mapping[str, _Provider]

_decode = msgspec.json.Decoder(dict[str, _Provider]).decode
_decode_facts = msgspec.json.Decoder(ModelFacts).decode


class ModelCatalogue:
    """The bundled list, and what was looked up later."""

    def __init__(self, state_dir: str) -> None:
        self._kept = Path(state_dir, LATER)
        self._known: dict[str, _Provider] | None = None
        self._later: dict[str, _Provider] | None = None

    def find(self, provider: str, model: str) -> ModelFacts | None:
        for listed in (self._bundled(), self._looked_up()):
            if (one := listed.get(provider)) and (facts := one.models.get(model)):
                return facts
        return None

    def newest(self, provider: str) -> list[Model]:
        listed = self._bundled().get(provider, _Provider()).models | (
            self._looked_up().get(provider, _Provider()).models
        )
        names = sorted(listed, key=lambda name: (listed[name].release_date, name), reverse=True)
        return [_model(name, listed[name]) for name in names]

    def keep(self, provider: str, model: str, data: bytes) -> ModelFacts | None:
        """Take one model out of the answer of models.dev, and keep it; None if it is not there."""
        facts = read_facts(data, provider, model)
        if facts is None:
            return None
        before = self._looked_up()
        models = {**before.get(provider, _Provider()).models, model: facts}
        self._later = {**before, provider: _Provider(models)}
        try:
            self._kept.parent.mkdir(parents=True, exist_ok=True)
            new = self._kept.with_suffix(".new")
            new.write_bytes(msgspec.json.encode(self._later))
            os.replace(new, self._kept)
        except OSError:
            pass
        return facts

    def _bundled(self) -> dict[str, _Provider]:
        if self._known is None:
            self._known = _decode(BUNDLED.read_bytes())
        return self._known

    def _looked_up(self) -> dict[str, _Provider]:
        if self._later is None:
            self._later = _read_kept(self._kept)
        return self._later


def read_facts(data: bytes, provider: str, model: str) -> ModelFacts | None:
    """Read one model of a list that others maintain; None if it is missing or cannot be read."""
    try:
        listed = msgspec.json.decode(data, type=dict[str, _Lenient])
        return _decode_facts(listed[provider].models[model])
    except (msgspec.MsgspecError, KeyError, UnicodeError, RecursionError):
        return None


def _read_kept(path: Path) -> dict[str, _Provider]:
    try:
        with path.open("rb") as file:
            return _decode(file.read(MAX_KEPT_BYTES))
    except (OSError, msgspec.MsgspecError, UnicodeError):
        return {}


def _model(name: str, facts: ModelFacts) -> Model:
    cost = facts.cost or _Cost()
    return Model(
        name,
        facts.name,
        facts.release_date,
        facts.limit.input or facts.limit.context or None,
        facts.limit.output or None,
        cost.input,
        cost.output,
    )
