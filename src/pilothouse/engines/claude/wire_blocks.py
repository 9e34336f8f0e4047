"""Content blocks of a message, and the API's own events inside `stream_event` lines, as values.

Rule: an unknown block costs none of its neighbours. msgspec rejects a whole line for one unknown tag, so a line is first
tried as a whole, and `read_blocks` reads what that could not. Events are the hot path: only what is used is read.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, field


class _Block(Struct, frozen=True, tag_field="type"):
    pass


class Text(_Block, frozen=True, tag="text"):
    text: str = ""


class Thinking(_Block, frozen=True, tag="thinking"):
    thinking: str = ""


class RedactedThinking(_Block, frozen=True, tag="redacted_thinking"):
    pass


class ToolUse(_Block, frozen=True, tag="tool_use"):
    id: str
    name: str
    input: dict[str, Any] = field(default_factory=dict)


class ServerToolUse(_Block, frozen=True, tag="server_tool_use"):
    """A tool that the API runs by itself; its result is a block of the same message."""

    id: str
    name: str
    input: dict[str, Any] = field(default_factory=dict)


class WebSearchResult(_Block, frozen=True, tag="web_search_tool_result"):
    tool_use_id: str


class WebFetchResult(_Block, frozen=True, tag="web_fetch_tool_result"):
    tool_use_id: str


class Source(Struct, frozen=True):
    """`data` is base64; empty for a source of type `url` or `file`, of which nothing can be shown."""

    type: str = ""
    media_type: str = ""
    data: str = ""


class Image(_Block, frozen=True, tag="image"):
    source: Source = Source()


class Document(_Block, frozen=True, tag="document"):
    pass


class ToolReference(_Block, frozen=True, tag="tool_reference"):
    """The result of the tool that finds tools."""

    tool_name: str = ""


class ToolResult(_Block, frozen=True, tag="tool_result"):
    """Some tools leave `is_error` out when they succeed."""

    tool_use_id: str
    content: str | list[Known] | None = None
    is_error: bool | None = None


Known = (
    Text
    | Thinking
    | RedactedThinking
    | ToolUse
    | ServerToolUse
    | WebSearchResult
    | WebFetchResult
    | Image
    | Document
    | ToolReference
    | ToolResult
)


def read_blocks(content: Any) -> tuple[str | list[Known], tuple[str, ...]]:
    """Return the known blocks of a message's content, and the types of the unknown ones."""
    if isinstance(content, str) or content is None:
        return content or "", ()
    known: list[Known] = []
    unknown: list[str] = []
    for value in content if isinstance(content, list) else [content]:
        block, strange = _read_block(value)
        known += block
        unknown += strange
    return known, tuple(unknown)


def _read_block(value: Any) -> tuple[list[Known], tuple[str, ...]]:
    try:
        return [msgspec.convert(value, Known)], ()
    except msgspec.ValidationError:
        pass
    kind = str(value.get("type", "")) if isinstance(value, dict) else type(value).__name__
    if kind != "tool_result" or not isinstance(call_id := value.get("tool_use_id"), str):
        return [], (kind,)
    content, unknown = read_blocks(value.get("content"))
    return [ToolResult(call_id, content, value.get("is_error") is True)], unknown


class _Delta(Struct, frozen=True, gc=False, tag_field="type"):
    pass


class TextDelta(_Delta, frozen=True, gc=False, tag="text_delta"):
    text: str


class ThinkingDelta(_Delta, frozen=True, gc=False, tag="thinking_delta"):
    thinking: str


class InputDelta(_Delta, frozen=True, gc=False, tag="input_json_delta"):
    """A part of a tool's input. The finished block has all of it."""


class SignatureDelta(_Delta, frozen=True, gc=False, tag="signature_delta"):
    pass


class CitationsDelta(_Delta, frozen=True, gc=False, tag="citations_delta"):
    pass


Delta = TextDelta | ThinkingDelta | InputDelta | SignatureDelta | CitationsDelta


class _Event(Struct, frozen=True, gc=False, tag_field="type"):
    pass


class BlockDelta(_Event, frozen=True, gc=False, tag="content_block_delta"):
    delta: Delta
    index: int = 0


class StartedMessage(Struct, frozen=True, gc=False):
    id: str = ""


class MessageStart(_Event, frozen=True, tag="message_start"):
    message: StartedMessage


class BlockStart(_Event, frozen=True, tag="content_block_start"):
    content_block: Known
    index: int = 0


class BlockStop(_Event, frozen=True, gc=False, tag="content_block_stop"):
    index: int = 0


class MessageDelta(_Event, frozen=True, gc=False, tag="message_delta"):
    pass


class MessageStop(_Event, frozen=True, gc=False, tag="message_stop"):
    pass


class Ping(_Event, frozen=True, gc=False, tag="ping"):
    pass


class ApiError(_Event, frozen=True, gc=False, tag="error"):
    """Claude Code retries, and reports that in a line of its own."""


Event = BlockDelta | MessageStart | BlockStart | BlockStop | MessageDelta | MessageStop | Ping | ApiError


BEGINNINGS = (BlockDelta, MessageStart, BlockStart)
"""Events that only a running turn has. Others may be the echo of one that has ended."""


class Abandoned(Struct, frozen=True, gc=False):
    """The blocks of the message from this index on will not be finished."""

    from_block_index: int = 0
