"""Anthropic's Messages API (version 2023-06-01). Pure.

The keys of a request are ordered so that everything that grows comes last: request N+1 begins with the bytes of request N.
For the same reason the cache mark stands at the top of the request, where the API places the breakpoint itself, and not on
the last block, where it would move with each request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pilothouse.engines.native.dialects.dialect import (
    Object,
    Reply,
    Stop,
    as_count,
    as_dict,
    as_text,
    grouped,
    make_use,
    parse_arguments,
    read_error,
)
from pilothouse.engines.native.messages import (
    ApiError,
    Block,
    Image,
    ModelCall,
    Piece,
    Replied,
    Result,
    Said,
    Text,
    TextPiece,
    Thought,
    ThoughtPiece,
    Tokens,
)

NAME = "anthropic"
VERSION = "2023-06-01"
EFFORTS = ("low", "medium", "high", "xhigh", "max")
"""With any other, the model does not think first."""
ADAPTIVE_SINCE = "2026-02-05"
"""The release of Claude Opus 4.6. Older models refuse adaptive thinking and an effort (HTTP 400)."""
SEARCH: Object = {"type": "web_search_20250305", "name": "web_search", "max_uses": 5}
GONE = "[An image stood here. It is no longer kept.]"

_STOPS: Mapping[str, Stop] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refused",
    "pause_turn": "paused",
}


class AnthropicDialect:
    name = NAME
    path = "/v1/messages"
    has_search = True

    def headers(self, key: str) -> Mapping[str, str]:
        return {"x-api-key": key, "anthropic-version": VERSION}

    def request(self, call: ModelCall) -> Object:
        body: Object = {
            "model": call.model,
            "max_tokens": call.max_output_tokens,
            "stream": True,
            "cache_control": {"type": "ephemeral"},
        }
        if call.effort in EFFORTS and call.reasons and (call.released or ADAPTIVE_SINCE) >= ADAPTIVE_SINCE:
            body |= {"thinking": {"type": "adaptive"}, "output_config": {"effort": call.effort}}
        if call.tools:
            body["tools"] = [
                {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
                for tool in call.tools
            ]
            if call.may_search:
                body["tools"].append(SEARCH)
        if call.system:
            body["system"] = [{"type": "text", "text": call.system}]
        body["messages"] = _messages(call)
        if call.tools and not call.may_call:
            body["tool_choice"] = {"type": "none"}
        return body

    def reader(self) -> AnthropicReader:
        return AnthropicReader()


def _messages(call: ModelCall) -> list[Object]:
    """Return the messages, with neighbours of one role joined."""
    messages: list[Object] = []
    for message in grouped(call.messages):
        role = "assistant" if isinstance(message, Replied) else "user"
        content = _content(message, call)
        if not content:
            continue
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] += content
        else:
            messages.append({"role": role, "content": content})
    return messages


def _content(message: Said | Replied | list[Result], call: ModelCall) -> list[Object]:
    match message:
        case Said(text=text, images=images):
            shown = [_image(image, call) for image in images]
            return [*shown, *([_text(text)] if text.strip() else [])]
        case Replied(blocks=blocks):
            return [part for block in blocks for part in _block(block)]
        case list():
            return [_result(result, call) for result in message]


def _block(block: Block) -> list[Object]:
    match block:
        case Text(text=text):
            return [_text(text)] if text.strip() else []
        case Thought(dialect=dialect, state=state):
            return [state] if dialect == NAME else []
        case _:
            return [{"type": "tool_use", "id": block.id, "name": block.name, "input": block.input}]


def _result(result: Result, call: ModelCall) -> Object:
    content = [_text(result.text or "(no output)"), *(_image(image, call) for image in result.images)]
    told: Object = {"type": "tool_result", "tool_use_id": result.use_id, "content": content}
    return told if result.ok else told | {"is_error": True}


def _text(text: str) -> Object:
    return {"type": "text", "text": text}


def _image(image: Image, call: ModelCall) -> Object:
    data = call.image_data(image)
    if not data:
        return _text(GONE)
    return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": data}}


class AnthropicReader:
    def __init__(self) -> None:
        self.done = False
        self.error: ApiError | None = None
        self._blocks: dict[int, Object] = {}
        self._json: dict[int, str] = {}
        self._usage: dict[str, Any] = {}
        self._stop: Stop = "end"

    def feed(self, data: Object) -> Sequence[Piece]:
        match data.get("type"):
            case "message_start":
                self._count(as_dict(data.get("message")).get("usage"))
            case "content_block_start":
                return self._begin(as_count(data.get("index")), dict(as_dict(data.get("content_block"))))
            case "content_block_delta":
                return self._extend(as_count(data.get("index")), as_dict(data.get("delta")))
            case "message_delta":
                reason = as_text(as_dict(data.get("delta")).get("stop_reason"))
                self._stop = _STOPS.get(reason, "end")
                self._count(data.get("usage"))
            case "message_stop":
                self.done = True
            case "error":
                self.error = read_error(0, data)
            case _:
                pass
        return ()

    def reply(self) -> Reply:
        found = (self._whole(index, block) for index, block in sorted(self._blocks.items()))
        usage = self._usage
        tokens = Tokens(
            as_count(usage.get("input_tokens")),
            as_count(usage.get("output_tokens")),
            as_count(usage.get("cache_read_input_tokens")),
            as_count(usage.get("cache_creation_input_tokens")),
        )
        return Reply(tuple(block for block in found if block is not None), tokens, self._stop)

    def _begin(self, index: int, block: Object) -> Sequence[Piece]:
        self._blocks[index] = block
        text = as_text(block.get("text"))
        return [TextPiece(index, text)] if block.get("type") == "text" and text else ()

    def _extend(self, index: int, delta: Object) -> Sequence[Piece]:
        block = self._blocks.setdefault(index, {"type": "text", "text": ""})
        match delta.get("type"):
            case "text_delta":
                text = as_text(delta.get("text"))
                block["text"] = as_text(block.get("text")) + text
                return [TextPiece(index, text)] if text else ()
            case "thinking_delta":
                text = as_text(delta.get("thinking"))
                block["thinking"] = as_text(block.get("thinking")) + text
                return [ThoughtPiece(text)] if text else ()
            case "signature_delta":
                block["signature"] = as_text(delta.get("signature"))
            case "input_json_delta":
                self._json[index] = self._json.get(index, "") + as_text(delta.get("partial_json"))
            case _:
                pass
        return ()

    def _whole(self, index: int, block: Object) -> Block | None:
        match block.get("type"):
            case "text":
                return Text(as_text(block.get("text")))
            case "thinking" if block.get("signature"):
                return Thought(NAME, as_text(block.get("thinking")), block)
            case "redacted_thinking":
                return Thought(NAME, "", block)
            case "server_tool_use":
                given, _ = parse_arguments(self._json.get(index, ""))
                return Thought(NAME, "", {**block, "input": given})
            case "web_search_tool_result":
                return Thought(NAME, "", block)
            case "tool_use":
                return make_use(
                    as_text(block.get("id")), as_text(block.get("name")), self._json.get(index, "")
                )
            case _:
                return None

    def _count(self, usage: Any) -> None:
        self._usage |= {key: value for key, value in as_dict(usage).items() if value is not None}
