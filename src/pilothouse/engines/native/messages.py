"""The conversation with a model, in values that belong to no vendor. A dialect turns them into its requests.

A call of a tool (`Use`) and its result (`Result`) are joined by an id that is unique in the session. Thoughts belong to
the dialect that made them: another one never sees them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain, count
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

_USE_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""The ids that every provider takes."""


class Image(Struct, frozen=True):
    """An image that the session keeps under `name`."""

    name: str
    media_type: str


class Text(Struct, frozen=True, tag="text"):
    text: str


class Thought(Struct, frozen=True, tag="thought", omit_defaults=True):
    """`state` is the vendor's own object, which goes back to it unchanged."""

    dialect: str
    text: str = ""
    state: dict[str, Any] = field(default_factory=dict)


class Use(Struct, frozen=True, tag="use", omit_defaults=True):
    """A call of a tool. `broken` holds arguments that are not a JSON object; `input` is empty then."""

    id: str
    name: str
    input: dict[str, Any] = field(default_factory=dict)
    broken: str = ""


Block = Text | Thought | Use


def with_own_ids(blocks: Iterable[Block], known: Collection[str]) -> tuple[Block, ...]:
    """Give each call an id of its own that every provider takes; one that it has already stays."""
    taken = set(known)
    found: list[Block] = []
    for block in blocks:
        if not isinstance(block, Use):
            found.append(block)
            continue
        given = (block.id,) if _USE_ID.fullmatch(block.id) else ()
        names = chain(given, (f"call_{number}" for number in count(len(taken))))
        id = next(name for name in names if name not in taken)
        taken.add(id)
        found.append(replace(block, id=id))
    return tuple(found)


class Said(Struct, frozen=True, tag="said", omit_defaults=True):
    """Words for the model: a person's, or Pilothouse's own."""

    text: str
    images: tuple[Image, ...] = ()
    of_person: bool = True


class Replied(Struct, frozen=True, tag="replied", omit_defaults=True):
    """Words and calls of the model."""

    blocks: tuple[Block, ...]
    model: str = ""

    @property
    def uses(self) -> tuple[Use, ...]:
        return tuple(block for block in self.blocks if isinstance(block, Use))

    @property
    def text(self) -> str:
        return "\n\n".join(block.text for block in self.blocks if isinstance(block, Text))


class Result(Struct, frozen=True, tag="result", omit_defaults=True):
    """The outcome of one call."""

    use_id: str
    text: str
    ok: bool = True
    images: tuple[Image, ...] = ()


Message = Said | Replied | Result


class ToolSpec(Struct, frozen=True):
    """A tool as the model sees it; `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]


class ModelCall(Struct, frozen=True):
    """Everything that one request says. `image_data` returns an image's bytes in base64; empty if it is gone."""

    model: str
    system: str
    messages: Sequence[Message]
    tools: Sequence[ToolSpec]
    max_output_tokens: int
    image_data: Callable[[Image], str]
    may_call: bool = True
    """False: the model has to answer in words."""
    reasons: bool = True
    """The model can think before it answers."""
    released: str = ""
    """The day of its release; empty if it is unknown."""
    effort: str = ""
    verbosity: str = ""
    cache_key: str = ""
    may_search: bool = False
    """The provider itself may search the web, if the dialect has that."""


class Tokens(Struct, frozen=True):
    """The tokens of one request. `input` is what no cache held."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost_usd: float | None = None
    """The price, where the vendor tells it."""

    @property
    def total(self) -> int:
        return self.input + self.output + self.cache_read + self.cache_write


class TextPiece(Struct, frozen=True):
    index: int
    text: str


class ThoughtPiece(Struct, frozen=True):
    text: str


Piece = TextPiece | ThoughtPiece


class ApiError(Struct, frozen=True):
    """A vendor's error: an HTTP status, or 0 inside a stream; its own name for it, and its words."""

    status: int
    code: str
    message: str
