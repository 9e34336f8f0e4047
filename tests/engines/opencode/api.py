"""A scripted model behind the Chat Completions API on loopback, which OpenCode's bundled provider speaks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from tests.engines.codex.api import CHUNK_CHARS, Handler, Item, Reply, Script, ScriptedApi, call, in_order

MODEL = "scripted-model"


class ChatRequest(NamedTuple):
    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def prompt(self) -> str:
        """What a person said last."""
        said = [_text(one.get("content")) for one in self._messages if one.get("role") == "user"]
        return said[-1] if said else ""

    @property
    def outputs(self) -> list[str]:
        """Results of calls after the last user message, oldest first."""
        found: list[str] = []
        for one in self._messages:
            if one.get("role") == "user":
                found = []
            elif one.get("role") == "tool":
                found.append(_text(one.get("content")))
        return found

    @property
    def tools(self) -> list[str]:
        return [str(tool["function"]["name"]) for tool in self.body.get("tools") or ()]

    @property
    def text(self) -> str:
        return json.dumps(self.body)

    @property
    def _messages(self) -> list[Item]:
        return list(self.body.get("messages") or ())


def shell(command: str, **given: Any) -> Reply:
    return call("bash", command=command, description="run it", **given)


class ChatHandler(Handler):
    request_type = ChatRequest  # pyrefly: ignore[bad-assignment]

    def _stream(self, reply: Reply) -> None:  # pyrefly: ignore[missing-override-decorator]
        self._begin_stream(reply)
        calls = 0
        for item in (item for item in reply.items if not self._stood_still(item)):
            if "call" in item:
                self._call(calls, item)
                calls += 1
            elif "think" in item:
                self._chunk({"reasoning_content": item["think"]})
            else:
                self._say(item["say"])
        if reply.ending == "stall":
            self._stand_still(None)
        if reply.ending == "stop":
            self._chunk({}, "tool_calls" if calls else "stop")
            given, cached, made = reply.usage
            details = {"prompt_tokens_details": {"cached_tokens": cached}}
            usage = {
                "prompt_tokens": given,
                "completion_tokens": made,
                "total_tokens": given + made,
                **details,
            }
            self._write({"choices": [], "usage": usage})
            self.wfile.write(b"data: [DONE]\n\n")

    def _say(self, text: str) -> None:
        for start in range(0, len(text), CHUNK_CHARS):
            self._chunk({"content": text[start : start + CHUNK_CHARS]})

    def _call(self, index: int, item: Item) -> None:
        given = {"name": item["call"], "arguments": json.dumps(item["arguments"])}
        id = self.server.api.next_id("call")
        self._chunk({"tool_calls": [{"index": index, "id": id, "type": "function", "function": given}]})

    def _chunk(self, delta: Item, finish: str | None = None) -> None:
        self._write({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    def _write(self, given: Item) -> None:
        whole = {"id": "chat", "object": "chat.completion.chunk", "created": 1, "model": MODEL, **given}
        self.wfile.write(f"data: {json.dumps(whole)}\n\n".encode())
        self.wfile.flush()


class ChatApi(ScriptedApi):
    handler = ChatHandler


@contextmanager
def open_chat(*replies: Reply | Script) -> Iterator[ScriptedApi]:
    with ChatApi(in_order(*replies)).serving() as api:
        yield api


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return " ".join(str(part.get("text") or "") for part in content or () if isinstance(part, dict))
