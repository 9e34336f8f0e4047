"""One folder of a server: models, tools, agents, MCP servers; and the events that a running session missed."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import anyio
from msgspec import Struct, field

from pilothouse.core.call import OWN_SERVER
from pilothouse.core.engine import Model
from pilothouse.core.errors import EngineError
from pilothouse.core.outcome import Failure
from pilothouse.engines.opencode import wire
from pilothouse.engines.opencode.api import HISTORY, Answer, Api
from pilothouse.engines.opencode.failures import explain_answer
from pilothouse.engines.opencode.models import default_model, read_models
from pilothouse.engines.opencode.session_list import next_prompt
from pilothouse.engines.opencode.wire_parts import read_message, read_part

MAX_COMMANDS = 100


class Folder(Struct, frozen=True):
    models: tuple[Model, ...] = ()
    default: str = ""
    tools: Any = None
    agents: Any = None
    commands: tuple[str, ...] = ()
    servers: dict[str, Any] = field(default_factory=dict)
    """MCP servers by name, with the settings that we gave them."""


async def read_folder(api: Api, directory: str) -> Folder:
    """Raises `EngineError` if the server cannot serve the folder, for example because of wrong settings in it."""
    answers: dict[str, Answer] = {}

    async def ask(path: str) -> None:
        answers[path] = await api.get(path, directory)

    async with anyio.create_task_group() as tasks:
        for path in ("/config", "/config/providers", "/experimental/tool/ids", "/agent", "/mcp", "/command"):
            tasks.start_soon(ask, path)
    for answer in answers.values():
        if not answer.ok:
            raise EngineError(explain_answer(answer.status, answer.value, "open the folder"))
    providers, servers = answers["/config/providers"].value, answers["/mcp"].value
    return Folder(
        read_models(providers),
        default_model(answers["/config"].value, providers),
        answers["/experimental/tool/ids"].value,
        answers["/agent"].value,
        tuple(str(one.get("name")) for one in _objects(answers["/command"].value))[:MAX_COMMANDS],
        dict.fromkeys(servers, None) if isinstance(servers, dict) else {},
    )


async def add_server(api: Api, directory: str, folder: Folder, name: str, given: Any) -> str:
    """Start an MCP server of the brief in the folder, unless it runs there; return why it failed, or nothing."""
    if folder.servers.get(name) == given:
        return ""
    answer = await api.post("/mcp", {"name": name, "config": read_server(given)}, directory)
    told = answer.value.get(name) if isinstance(answer.value, dict) else None
    if not answer.ok or not isinstance(told, dict):
        return explain_answer(answer.status, answer.value, "start the MCP server").text
    folder.servers[name] = given
    return str(told.get("error") or told.get("status")) if told.get("status") != "connected" else ""


def dropped_servers(folder: Folder, wanted: Collection[str]) -> list[str]:
    """Return the configured servers that run here and are not wanted any more: settings or trust have changed."""
    ours = [name for name, given in folder.servers.items() if given is not None and name not in wanted]
    return [name for name in ours if not name.startswith(OWN_SERVER)]


async def remove_server(api: Api, directory: str, folder: Folder, name: str) -> None:
    """End the connection to a server, so that no other session of the folder is shown its tools."""
    if folder.servers.pop(name, None) is not None:
        await api.post(f"/mcp/{name}/disconnect", {}, directory)


def read_server(given: dict[str, Any]) -> dict[str, Any]:
    """Return an MCP server of the brief in OpenCode's words."""
    waits = {"timeout": given["timeout"]} if "timeout" in given else {}
    if "url" in given:
        headers = dict(given.get("headers") or {})
        # Its own login would be tried after a refusal.
        return {"type": "remote", "url": given["url"], "headers": headers, "oauth": False, **waits}
    command = [given.get("command"), *(given.get("args") or ())]
    return {"type": "local", "command": command, "environment": dict(given.get("env") or {}), **waits}


async def fork_session(api: Api, directory: str, session: str, point: str) -> str:
    """Copy a session up to the answer of a prompt; return the id of the copy. Raises `EngineError`."""
    history = await api.get(f"/session/{session}/message", directory)
    before = next_prompt(history.value, point) if history.ok else ""
    if before is None:
        text = f"The session {session} has no message {point[:80]!r}. `/resume ID at` lists them."
        raise EngineError(Failure("bad_request", text))
    body = {"messageID": before} if before else {}
    answer = await api.post(f"/session/{session}/fork", body, directory) if history.ok else history
    copy = answer.value.get("id") if isinstance(answer.value, dict) else None
    if not answer.ok or not isinstance(copy, str):
        raise EngineError(explain_answer(answer.status, answer.value, "copy the session"))
    return copy


async def read_state(api: Api, directory: str, session: str) -> list[wire.Heard]:
    """Read a session's messages, open asks and status again, as the events that would have told them.

    Empty if the server does not answer: then it has ended, or it is asked again."""
    history = await api.get(f"/session/{session}/message", directory, limit=str(HISTORY))
    status = await api.get("/session/status", directory)
    if not history.ok or not status.ok:
        return []
    heard: list[wire.Heard] = []
    for message in _objects(history.value):
        info = message.get("info")
        heard.append(wire.MessageUpdated(read_message(info if isinstance(info, dict) else {}), session))
        heard += [wire.PartUpdated(read_part(part), session) for part in _objects(message.get("parts"))]
    for path, name in (("/permission", "permission.asked"), ("/question", "question.asked")):
        asked = await api.get(path, directory)
        heard += [wire.read_event(name, one) for one in _objects(asked.value)]
    found = status.value.get(session) if isinstance(status.value, dict) else None
    now = found if isinstance(found, dict) else {"type": "idle"}
    return [*heard, wire.read_event("session.status", {"sessionID": session, "status": now})]


def _objects(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
