"""A model that plays the script of the crash sweep for the native agent, and an MCP server that asks its questions.

The model is a thread of what is killed, and keeps nothing: each reply follows from the request, as a real model's does. Commands
with side effects leave a line in the world, as those of `player` do.
"""

from __future__ import annotations

import json
import shlex
import threading
import time
import tomllib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from bench.crashing.player import HARMLESS
from tests.engines.native.model import Call, Reply, Request, ScriptedModel

from pilothouse.core.mcp import Elicit, McpResult, McpStatus, McpText, McpTool, McpTools

SERVER = "house"
QUESTION = f"mcp__{SERVER}__question"
REFUSED = "not allowed: "
PAUSE_S = 0.002
Steps = list[dict[str, Any]]


def start_model(script: Path, world: Path) -> str:
    """Start the model, and return its address."""
    turns = tomllib.loads(script.read_text())["turn"]
    model = ScriptedModel(lambda request: _Play(request, world).reply(turns))
    threading.Thread(target=model.server.serve_forever, daemon=True).start()
    return model.base_url("compatible")


class _Play:
    """One request: the steps whose results it holds are done, and the reply is what comes next."""

    def __init__(self, request: Request, world: Path) -> None:
        self._prompt = request.prompt
        self._results = list(request.results)
        self._world = world
        self._words = ""
        self._said: list[str] = []

    def reply(self, turns: Steps) -> Reply:
        turn = next(one for one in turns if one.get("match", "") in self._prompt)
        call = self._walk(turn["steps"])
        return Reply("".join(self._said), [call] if call else (), pause_s=PAUSE_S)

    def _walk(self, steps: Steps) -> Call | None:
        """Go through the steps until one is a call that has no result yet."""
        for step in steps:
            call = self._take(step)
            if call is not None and not self._results:
                return call
            if call is None:
                continue
            self._said.clear()  # the request that made the call said it
            if (later := self._walk(self._branch(step, self._results.pop(0)))) is not None:
                return later
        return None

    def _take(self, step: dict[str, Any]) -> Call | None:
        match step:
            case {"say": text} | {"stream": text}:
                self._said.append(text.format(prompt=self._prompt, answer=self._words).strip())
            case {"sleep": seconds}:
                time.sleep(seconds)
            case {"tool": kind, "title": title}:
                return self._tool(kind, title, step.get("for_s", 0.0))
            case {"ask": question, "kind": "question"}:
                return Call(QUESTION, {"words": question})
            case {"ask": question}:
                return Call("bash", {"command": f": {question}"})
        return None

    def _tool(self, kind: str, title: str, seconds: float) -> Call:
        if kind in HARMLESS:
            return Call("agents_resolve", {"path": "."})
        line, world = shlex.quote(json.dumps({"done": title})), shlex.quote(str(self._world))
        return Call("bash", {"command": f"sleep {seconds}; echo {line} >> {world}"})

    def _branch(self, step: dict[str, Any], result: str) -> Steps:
        """Return the steps that follow an answer."""
        if "ask" not in step:
            return []
        if step.get("kind") == "question":
            self._words = result
            return step["on_answer"]
        self._words = result.partition(REFUSED)[2]
        return step["on_deny" if self._words else "on_allow"]


class _House:
    """An MCP server with one tool, which asks the person: without a connection, so that nothing has to be imported."""

    def statuses(self) -> Sequence[McpStatus]:
        return ()

    def tools(self) -> Sequence[McpTool]:
        return [McpTool(QUESTION, SERVER, "question", "Ask.", {"type": "object"})]

    async def settle(self, within_s: float) -> None: ...

    async def call(self, name: str, arguments: Mapping[str, Any], elicit: Elicit | None = None) -> McpResult:
        assert elicit is not None
        schema = {"type": "object", "properties": {"answer": {"type": "string"}}}
        form = {"mode": "form", "message": arguments["words"], "requestedSchema": schema}
        reply = await elicit(SERVER, form)
        return McpResult((McpText(str((reply.content or {}).get("answer", reply.action))),))

    @contextmanager
    def lease(self, workspace: str, *, trusted: bool, own: Mapping[str, Any]) -> Iterator[McpTools]:
        yield self


@asynccontextmanager
async def open_house() -> AsyncIterator[_House]:
    yield _House()


async def house_servers(workspace: str, trusted: bool) -> Mapping[str, Any]:
    return {SERVER: {}}
