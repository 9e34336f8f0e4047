"""The API's own events inside `stream_event` lines: the hot path, so only what is used is read."""

from __future__ import annotations

from msgspec import Struct

from pilothouse.engines.claude.blocks import Known


class _Delta(Struct, frozen=True, gc=False, tag_field="type"):
    pass


class TextDelta(_Delta, frozen=True, gc=False, tag="text_delta"):
    text: str


class ThinkingDelta(_Delta, frozen=True, gc=False, tag="thinking_delta"):
    thinking: str


class InputDelta(_Delta, frozen=True, gc=False, tag="input_json_delta"):
    """A tool's input as it grows. The whole of it comes with the finished block."""


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
    """The CLI retries, and says so by itself."""


Event = BlockDelta | MessageStart | BlockStart | BlockStop | MessageDelta | MessageStop | Ping | ApiError


BEGINNINGS = (BlockDelta, MessageStart, BlockStart)
"""What only a running turn says. The others may be the echo of one that has ended."""


class Abandoned(Struct, frozen=True, gc=False):
    """From this block on, what had begun of the message will not be finished."""

    from_block_index: int = 0
