"""Chat completions: OpenRouter, and every server that is compatible with OpenAI's older API (llama.cpp, vLLM, Ollama). Pure."""

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
    Use,
)

NAME = "chat"
OPENROUTER = "openrouter"
GONE = "[An image stood here. It is no longer kept.]"
SHOWN = "[The images of these results:]"

_STOPS: Mapping[str, Stop] = {"length": "length", "content_filter": "refused"}


class ChatDialect:
    """`extra` are headers that are sent as they are."""

    name = NAME
    path = "/chat/completions"
    has_search = False

    def __init__(self, extra: Mapping[str, str] | None = None) -> None:
        self._extra = dict(extra or {})

    def headers(self, key: str) -> Mapping[str, str]:
        return {**self._extra, **({"authorization": f"Bearer {key}"} if key else {})}

    def request(self, call: ModelCall) -> Object:
        body: Object = {
            "model": call.model,
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": call.max_output_tokens,
            **self._options(call),
        }
        if call.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": tool.name,
                        "description": tool.description,
                        "parameters": tool.parameters,
                    },
                }
                for tool in call.tools
            ]
        system = [{"role": "system", "content": call.system}] if call.system else []
        said = [item for message in grouped(call.messages) for item in self._items(message, call)]
        body["messages"] = [*system, *said]
        if call.tools and not call.may_call:
            body["tool_choice"] = "none"
        return body

    def reader(self) -> ChatReader:
        return ChatReader(self.name)

    def _options(self, call: ModelCall) -> Object:
        return {"reasoning_effort": call.effort} if call.effort else {}

    def _items(self, message: Said | Replied | list[Result], call: ModelCall) -> list[Object]:
        match message:
            case Said(text=text, images=images):
                return [_user(text, images, call)]
            case Replied():
                return [self._reply(message)]
            case list():
                told: list[Object] = [
                    {"role": "tool", "tool_call_id": one.use_id, "content": one.text or "(no output)"}
                    for one in message
                ]
                images = tuple(image for result in message for image in result.images)
                return [*told, _user(SHOWN, images, call)] if images else told

    def _reply(self, reply: Replied) -> Object:
        told: Object = {"role": "assistant", "content": reply.text or None}
        if reply.uses:
            told["tool_calls"] = [_use(use) for use in reply.uses]
        elif not reply.text:
            told["content"] = ""
        return told


class OpenRouterDialect(ChatDialect):
    name = OPENROUTER

    def _options(self, call: ModelCall) -> Object:  # pyrefly: ignore[missing-override-decorator]
        effort: Object = {"reasoning": {"effort": call.effort}} if call.effort else {}
        return {"usage": {"include": True}, **effort}

    def _reply(self, reply: Replied) -> Object:  # pyrefly: ignore[missing-override-decorator]
        """Send thoughts back: OpenRouter alone takes them."""
        told = super()._reply(reply)
        details = [
            detail
            for block in reply.blocks
            if isinstance(block, Thought) and block.dialect == self.name
            for detail in block.state.get("details", ())
        ]
        return told | {"reasoning_details": details} if details else told


def _use(use: Use) -> Object:
    given = msgspec.json.encode(use.input).decode()
    return {"id": use.id, "type": "function", "function": {"name": use.name, "arguments": given}}


def _user(text: str, images: Sequence[Image], call: ModelCall) -> Object:
    if not images:
        return {"role": "user", "content": text}
    shown = [_image(image, call) for image in images]
    return {"role": "user", "content": [*shown, {"type": "text", "text": text}]}


def _image(image: Image, call: ModelCall) -> Object:
    data = call.image_data(image)
    if not data:
        return {"type": "text", "text": GONE}
    return {"type": "image_url", "image_url": {"url": f"data:{image.media_type};base64,{data}"}}


class ChatReader:
    def __init__(self, dialect: str) -> None:
        self.done = False
        self.error: ApiError | None = None
        self._dialect = dialect
        self._text = ""
        self._thought = ""
        self._details: list[Any] = []
        self._calls: dict[int, list[str]] = {}
        self._usage: Object = {}
        self._stop: Stop = "end"

    def feed(self, data: Object) -> Sequence[Piece]:
        if data.get("error"):
            self.error = read_error(0, data)
            return ()
        if usage := as_dict(data.get("usage")):
            self._usage = usage
        choices = data.get("choices")
        choice = as_dict(choices[0]) if isinstance(choices, list) and choices else {}
        pieces = self._extend(as_dict(choice.get("delta")))
        if reason := as_text(choice.get("finish_reason")):
            self.done, self._stop = True, _STOPS.get(reason, "end")
        return pieces

    def reply(self) -> Reply:
        blocks: list[Block] = []
        if self._details or self._thought:
            state = {"details": self._details} if self._details else {}
            blocks.append(Thought(self._dialect, self._thought, state))
        if self._text:
            blocks.append(Text(self._text))
        blocks += [make_use(*call) for _, call in sorted(self._calls.items())]
        return Reply(tuple(blocks), self._tokens(), self._stop)

    def _extend(self, delta: Object) -> list[Piece]:
        pieces: list[Piece] = []
        if text := as_text(delta.get("content")):
            self._text += text
            pieces.append(TextPiece(0, text))
        if thought := as_text(delta.get("reasoning_content") or delta.get("reasoning")):
            self._thought += thought
            pieces.append(ThoughtPiece(thought))
        details = delta.get("reasoning_details")
        self._details += details if isinstance(details, list) else []
        calls = delta.get("tool_calls")
        for call in map(as_dict, calls if isinstance(calls, list) else ()):
            self._extend_call(call)
        return pieces

    def _extend_call(self, call: Object) -> None:
        # Some servers send every call whole, without an index.
        given = call.get("index")
        index = given if isinstance(given, int) else len(self._calls)
        known = self._calls.setdefault(index, ["", "", ""])
        function = as_dict(call.get("function"))
        known[0] = known[0] or as_text(call.get("id"))
        known[1] = known[1] or as_text(function.get("name"))
        arguments = function.get("arguments")
        whole = isinstance(arguments, dict)
        known[2] += msgspec.json.encode(arguments).decode() if whole else as_text(arguments)

    def _tokens(self) -> Tokens:
        usage = self._usage
        details = as_dict(usage.get("prompt_tokens_details"))
        cached = as_count(details.get("cached_tokens"))
        written = as_count(details.get("cache_write_tokens"))
        cost = usage.get("cost")
        return Tokens(
            max(0, as_count(usage.get("prompt_tokens")) - cached - written),
            as_count(usage.get("completion_tokens")),
            cached,
            written,
            float(cost) if isinstance(cost, int | float) else None,
        )
