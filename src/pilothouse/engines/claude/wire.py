"""Lines of Claude Code's stream-json output (2.1.325), as values.

Rules: `decode` never raises; an unknown line becomes `Unknown`, and what is not a JSON object `Noise`. An unknown block
costs none of its neighbours; a field that is not named here costs nothing. `type` is not always the first key of a line.
"""

from __future__ import annotations

from typing import Any, get_args

import msgspec
from msgspec import Raw, Struct, field

from pilothouse.engines.claude import wire_blocks, wire_system
from pilothouse.engines.claude.control import (
    ControlCancel,
    ControlRequest,
    ControlResponse,
    UnknownControlRequest,
    read_unknown_request,
)
from pilothouse.engines.claude.wire_blocks import Known, Source, read_blocks
from pilothouse.engines.claude.wire_system import RateLimit
from pilothouse.engines.lenient_json import read_fields, repair_surrogates

NAME_CHARS = 60
NOISE_BYTES = 1024


class _Line(Struct, frozen=True, tag_field="type"):
    pass


class Message(Struct, frozen=True):
    content: str | list[Known]
    id: str = ""
    model: str = ""
    usage: Any = None
    """`Tokens` of the request, as it began. Read apart, so that another shape costs no message."""


class Assistant(_Line, frozen=True, tag="assistant"):
    """One completed block of a message. The next block comes with the same message id."""

    message: Message
    parent_tool_use_id: str | None = None
    session_id: str = ""
    error: str | None = None
    is_api_error_message: bool = False
    api_error_status: int | None = None
    api_error: str | None = None
    api_error_type: str | None = None
    api_error_params: dict[str, Any] | None = None
    user_message_uuids: list[str] | None = None


class User(_Line, frozen=True, tag="user"):
    message: Message
    parent_tool_use_id: str | None = None
    session_id: str = ""
    tool_use_result: Raw = field(default_factory=Raw)
    """Left undecoded: it repeats the result, with its images."""
    is_replay: bool = field(default=False, name="isReplay")
    is_synthetic: bool = field(default=False, name="isSynthetic")


class ModelUsage(Struct, frozen=True, rename="camel"):
    cost_usd: float = field(default=0.0, name="costUSD")
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    context_window: int = 0


class Tokens(Struct, frozen=True):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class Denial(Struct, frozen=True):
    tool_name: str = ""
    tool_use_id: str = ""
    tool_input: dict[str, Any] = field(default_factory=dict)


class Origin(Struct, frozen=True):
    kind: str = ""


class Result(_Line, frozen=True, tag="result"):
    """The end of a turn. `is_error` says whether it failed, `subtype` does not. Costs are those of the session so far."""

    subtype: str = ""
    is_error: bool = False
    session_id: str = ""
    result: str | list[Known] | None = None
    errors: list[str] | None = None
    num_turns: int | None = None
    total_cost_usd: float | None = None
    usage: Tokens | None = None
    model_usage: dict[str, ModelUsage] | None = field(default=None, name="modelUsage")
    model_usage_since_last_result: dict[str, ModelUsage] | None = None
    permission_denials: list[Denial] | None = None
    terminal_reason: str | None = None
    api_error_status: int | None = None
    api_error_type: str | None = None
    api_error: str | None = None
    startup_failure_reason: str | None = None
    origin: Origin | None = None
    user_message_uuids: list[str] | None = None


class StreamEvent(_Line, frozen=True, tag="stream_event"):
    event: wire_blocks.Event
    parent_tool_use_id: str | None = None
    api_message_id: str | None = None
    abandoned_blocks: wire_blocks.Abandoned | None = None


class System(_Line, frozen=True, tag="system"):
    """Decoded again by its subtype; see `wire_system.py`."""

    subtype: str


class ToolProgress(_Line, frozen=True, tag="tool_progress"):
    """A heartbeat. The call's real id is `parent_tool_use_id`."""

    parent_tool_use_id: str | None = None


class RateLimitEvent(_Line, frozen=True, tag="rate_limit_event"):
    rate_limit_info: RateLimit


class CommandLifecycle(_Line, frozen=True, tag="command_lifecycle"):
    """The fate of a message that was sent with an id, or a wake-up that Claude Code gave itself."""

    command_uuid: str = ""
    state: str = ""
    wakeup_source: str | None = None


class ConversationReset(_Line, frozen=True, tag="conversation_reset"):
    """`/clear`. The session's new id is not this one, but comes with the next init."""

    trigger: str = ""


class KeepAlive(_Line, frozen=True, tag="keep_alive"):
    pass


class LooseImage(_Line, frozen=True, tag="image"):
    """An image block in place of a line, from older versions and wrappers around them."""

    source: Source


class LooseBlockStart(_Line, frozen=True, tag="content_block_start"):
    """An API event without its stream_event around it."""

    content_block: Known


class Unknown(Struct, frozen=True):
    """JSON of an unknown kind. `kind` is its type, with its subtype."""

    kind: str


class Noise(Struct, frozen=True):
    """The beginning of a line that is not a JSON object."""

    raw: bytes


class Parts(Struct, frozen=True):
    """A line with unknown parts: `line` has the known ones, `unknown` names the rest."""

    line: Any
    unknown: tuple[str, ...]


Typed = (
    StreamEvent
    | Assistant
    | User
    | Result
    | System
    | ControlRequest
    | ControlResponse
    | ControlCancel
    | ToolProgress
    | RateLimitEvent
    | CommandLifecycle
    | ConversationReset
    | KeepAlive
    | LooseImage
    | LooseBlockStart
)
Heard = Typed | wire_system.Kind | UnknownControlRequest | Parts | Unknown | Noise


_typed = msgspec.json.Decoder(Typed)
_FAULTS = (msgspec.MsgspecError, UnicodeError, RecursionError)
_KINDS: dict[str, type[Struct]] = {
    str(kind.__struct_config__.tag): kind for kind in get_args(Typed) if kind not in (System, ControlRequest)
}


def decode(line: bytes) -> Heard:
    """Decode any line; never raises."""
    try:
        heard = _typed.decode(line)
        return wire_system.decode(line, heard.subtype) if type(heard) is System else heard
    except msgspec.ValidationError:
        return _decode_loosely(line)
    except _FAULTS:
        return _decode_repaired(line)


def _decode_repaired(line: bytes) -> Heard:
    repaired = repair_surrogates(line)
    return decode(repaired) if repaired != line else Noise(line[:NOISE_BYTES])


def _decode_loosely(line: bytes) -> Heard:
    """Decode JSON of an unexpected shape. A known beginning may still end in something that is not JSON."""
    try:
        value = msgspec.json.decode(line)
    except _FAULTS:
        return _decode_repaired(line)
    if not isinstance(value, dict):
        return Noise(line[:NOISE_BYTES])
    type_, subtype = str(value.get("type", "")), str(value.get("subtype", ""))
    if type_ == "control_request" and (request := read_unknown_request(value)):
        return request
    kind = wire_system.KINDS.get(subtype) if type_ == "system" else _KINDS.get(type_)
    return (_read_parts(value, kind) if kind else None) or Unknown(_name(type_, value))


def _read_parts(value: dict[str, Any], kind: type[Struct]) -> Parts | None:
    """Read blocks one by one, then fields one by one."""
    message, answer, unknown = value.get("message"), value.get("result"), ()
    if isinstance(message, dict):
        content, unknown = read_blocks(message.get("content"))
        value = {**value, "message": {**message, "content": content}}
    elif isinstance(answer, list):
        content, unknown = read_blocks(answer)
        value = {**value, "result": content}
    line, strange = read_fields(value, kind)
    names = (*(f"block {name}" for name in unknown), *strange)
    return Parts(line, names) if line is not None else None


def _name(kind: str, value: dict[str, Any]) -> str:
    event = value.get("event")
    inner = event.get("type") if isinstance(event, dict) else None
    words = (kind or "a line without a type", value.get("subtype"), inner)
    return "/".join(str(word)[:NAME_CHARS] for word in words if word)
