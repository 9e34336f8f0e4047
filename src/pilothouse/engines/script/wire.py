"""The JSON-lines protocol as values: commands to an engine's process, and lines from it.

Unknown fields are ignored, so that either side may add some. docs/engines/script.md is the normative text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct, field

from pilothouse.core.ask import Decision
from pilothouse.core.event import EngineEvent, MediaProduced
from pilothouse.core.ids import AskId
from pilothouse.core.outcome import Failure

PROTOCOL = 1
MAX_LINE_BYTES = 32 * 1024 * 1024
NOISE_BYTES = 1024


class _Line(Struct, frozen=True, tag_field="type", tag=str.lower):
    pass


class File(Struct, frozen=True):
    """`data` is base64 on the wire. The name is data, never a path."""

    name: str
    media_type: str
    data: bytes


class Open(_Line, frozen=True):
    session: str
    cwd: str
    resume: str | None = None
    model: str | None = None
    system_prompt: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    mcp_servers: Mapping[str, Any] = field(default_factory=dict)


class Prompt(_Line, frozen=True):
    session: str
    turn: int
    text: str
    attachments: tuple[File, ...] = ()


class Answer(_Line, frozen=True):
    session: str
    ask: AskId
    decision: Decision


class Interrupt(_Line, frozen=True):
    session: str


class Steer(_Line, frozen=True):
    session: str
    text: str


class Close(_Line, frozen=True):
    session: str


Command = Open | Prompt | Answer | Interrupt | Steer | Close


class Capabilities(Struct, frozen=True):
    steer: bool = False
    parallel: bool = False
    """One process may hold several sessions at once."""


class Hello(_Line, frozen=True):
    protocol: int
    name: str = ""
    capabilities: Capabilities = Capabilities()


class Opened(_Line, frozen=True):
    session: str
    resume: str | None = None


class Refused(_Line, frozen=True):
    session: str
    failure: Failure


class Steered(_Line, frozen=True):
    session: str
    accepted: bool


class Event(_Line, frozen=True):
    session: str
    turn: int
    event: EngineEvent


class Media(_Line, frozen=True):
    session: str
    turn: int
    name: str
    media_type: str
    data: bytes


class Noise(Struct, frozen=True):
    """Lines outside the protocol: the beginning of the first, and their number. Never an error, because a library's stray
    print must not end a turn."""

    raw: bytes
    lines: int = 1


Heard = Hello | Opened | Refused | Steered | Event | Media | Noise

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Hello | Opened | Refused | Steered | Event | Media)


def encode(command: Command) -> bytes:
    return _encoder.encode(command)


def decode(line: bytes) -> Heard:
    """Decode any line; never raises."""
    try:
        heard = _decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return Noise(line[:NOISE_BYTES])
    # Media arrives as bytes: an engine that could name a blob could have any file of the store sent out.
    if isinstance(heard, Event) and isinstance(heard.event, MediaProduced):
        return Noise(line[:NOISE_BYTES])
    return heard
