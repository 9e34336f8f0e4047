"""OpenAI's Responses API, without anything stored at the vendor: reasoning goes back encrypted. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pilothouse.engines.native.dialects.dialect import (
    Object,
    Reply,
    Stop,
    as_count,
    as_dict,
    as_text,
    grouped,
    make_use,
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

NAME = "responses"
GONE = "[An image stood here. It is no longer kept.]"


class ResponsesDialect:
    name = NAME
    path = "/responses"
    has_search = True

    def __init__(self, *, takes_bound: bool = True) -> None:
        self._takes_bound = takes_bound

    def headers(self, key: str) -> Mapping[str, str]:
        return {"authorization": f"Bearer {key}"}

    def request(self, call: ModelCall) -> Object:
        body: Object = {
            "model": call.model,
            "stream": True,
            "store": False,
            "instructions": call.system,
        }
        if call.reasons:  # any other model refuses what is about thoughts
            body["include"] = ["reasoning.encrypted_content"]
        if self._takes_bound:
            body["max_output_tokens"] = call.max_output_tokens
        if call.cache_key:
            body["prompt_cache_key"] = call.cache_key
        if call.effort and call.reasons:
            body["reasoning"] = {"effort": call.effort, "summary": "auto"}
        if call.verbosity:
            body["text"] = {"verbosity": call.verbosity}
        if call.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                    "strict": False,
                }
                for tool in call.tools
            ]
            if call.may_search:
                body["tools"].append({"type": "web_search"})
        body["input"] = [item for message in grouped(call.messages) for item in _items(message, call)]
        if call.tools and not call.may_call:
            body["tool_choice"] = "none"
        return body

    def reader(self) -> ResponsesReader:
        return ResponsesReader()


def _items(message: Said | Replied | list[Result], call: ModelCall) -> list[Object]:
    match message:
        case Said(text=text, images=images):
            content = [*(_image(image, call) for image in images), _text(text)]
            return [{"type": "message", "role": "user", "content": content}]
        case Replied(blocks=blocks):
            return [item for block in blocks for item in _block(block, call)]
        case list():
            return [_result(result, call) for result in message]


def _block(block: Block, call: ModelCall) -> list[Object]:
    match block:
        case Text(text=text):
            return [{"type": "message", "role": "assistant", "content": text}] if text else []
        case Thought(dialect=dialect, state=state):
            is_taken = call.reasons or state.get("type") != "reasoning"
            return [state] if dialect == NAME and is_taken else []
        case _:
            given = _json(block.input)
            return [{"type": "function_call", "call_id": block.id, "name": block.name, "arguments": given}]


def _json(value: Object) -> str:
    return msgspec.json.encode(value).decode()


def _result(result: Result, call: ModelCall) -> Object:
    text = result.text or "(no output)"
    output: Any = [_text(text), *(_image(image, call) for image in result.images)] if result.images else text
    return {"type": "function_call_output", "call_id": result.use_id, "output": output}


def _text(text: str) -> Object:
    return {"type": "input_text", "text": text}


def _image(image: Image, call: ModelCall) -> Object:
    data = call.image_data(image)
    if not data:
        return _text(GONE)
    return {"type": "input_image", "image_url": f"data:{image.media_type};base64,{data}"}


class ResponsesReader:
    def __init__(self) -> None:
        self.done = False
        self.error: ApiError | None = None
        self._items: dict[int, Object] = {}
        self._texts: dict[int, str] = {}
        self._usage: Object = {}
        self._stop: Stop = "end"

    def feed(self, data: Object) -> Sequence[Piece]:
        index = as_count(data.get("output_index"))
        match data.get("type"):
            case "response.output_text.delta" | "response.refusal.delta":
                text = as_text(data.get("delta"))
                self._texts[index] = self._texts.get(index, "") + text
                return [TextPiece(index, text)] if text else ()
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                text = as_text(data.get("delta"))
                return [ThoughtPiece(text)] if text else ()
            case "response.output_item.done":
                self._items[index] = as_dict(data.get("item"))
            case "response.completed" | "response.incomplete" as kind:
                self._finish(as_dict(data.get("response")), cut=kind == "response.incomplete")
            case "response.failed":
                self.error = read_error(0, as_dict(data.get("response")))
            case "error":
                self.error = read_error(0, data if "error" in data else {"error": data | {"type": ""}})
            case _:
                pass
        return ()

    def reply(self) -> Reply:
        indexes = sorted(self._items.keys() | self._texts.keys())
        found = [self._whole(self._items.get(index), self._texts.get(index, "")) for index in indexes]
        details = as_dict(self._usage.get("input_tokens_details"))
        cached, written = (as_count(details.get(key)) for key in ("cached_tokens", "cache_write_tokens"))
        fresh = max(0, as_count(self._usage.get("input_tokens")) - cached - written)
        tokens = Tokens(fresh, as_count(self._usage.get("output_tokens")), cached, written)
        return Reply(tuple(block for block in found if block is not None), tokens, self._stop)

    def _finish(self, response: Object, *, cut: bool) -> None:
        self.done = True
        self._usage = as_dict(response.get("usage"))
        reason = as_text(as_dict(response.get("incomplete_details")).get("reason"))
        if cut:
            self._stop = "refused" if reason == "content_filter" else "length"

    def _whole(self, item: Object | None, text: str) -> Block | None:
        if item is None:
            return Text(text)
        match item.get("type"):
            case "message":
                parts = item.get("content")
                said = [as_dict(part) for part in parts] if isinstance(parts, list) else []
                return Text("".join(as_text(one.get("text") or one.get("refusal")) for one in said) or text)
            case "reasoning" if item.get("encrypted_content"):
                state = {
                    key: item[key] for key in ("type", "id", "summary", "encrypted_content") if key in item
                }
                return Thought(NAME, "", {"summary": [], **state})
            case "web_search_call":
                return Thought(NAME, "", item)
            case "function_call":
                id = as_text(item.get("call_id")) or as_text(item.get("id"))
                return make_use(id, as_text(item.get("name")), as_text(item.get("arguments")))
            case _:
                return None
