"""Opens a session on a process: new, or an earlier one; then sets the mode in which the agent asks, the model, and options.

Lists the sessions of an agent that can.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

from pilothouse.core.engine import FoundSession
from pilothouse.core.errors import EngineError
from pilothouse.core.event import ResumeToken
from pilothouse.core.ids import EngineId
from pilothouse.core.outcome import Failure
from pilothouse.engines.acp.agents import Agent
from pilothouse.engines.acp.failures import explain_error, explain_refusal
from pilothouse.engines.acp.link import ENDED, AcpLink
from pilothouse.engines.jsonrpc import Reply
from pilothouse.engines.link import explain_exit

CANNOT_RESUME = (
    "{program} cannot go on with a session that it began in another process. Start a new session: /new."
)
NOT_ASKING = (
    "{program} could not be put into its mode “{mode}”, in which it asks before every call (it is in “{now}”), so the session "
    "was not opened. Use it in full access, or use another engine."
)
NO_MODEL = "{program} does not offer the model {model!r}. It offers: {known}."
NO_OPTION = "{program} has no option {id!r} with the value {value!r}. Correct `options` in its section."
GUARDED = "The option {id!r} of {program} decides about permissions, so it can be set in full access only."
SHOWN_MODELS = 20
MOST_SESSIONS = 20
TITLE_CHARS = 500
_PERMISSIVE = ("mode", "permission", "allow", "approv", "yolo", "trust")
"""Words in the id or category of an option that decides what runs unasked."""


class Opening(Struct, frozen=True):
    """The session that is wanted; `session` is empty for a new one."""

    agent: Agent
    session: str
    workspace: str
    servers: Mapping[str, Any]
    folders: tuple[str, ...]
    model: str
    options: Mapping[str, str]
    guarded: bool


async def open_on(link: AcpLink, wanted: Opening) -> None:
    """Open the session, unless it is open here already. Raises `EngineError`."""
    if not link.is_open:
        await _open(link, wanted)
    if wanted.guarded and wanted.agent.mode:
        await _set_mode(link, wanted.agent)
    if wanted.model and wanted.model != link.model:
        await _set_model(link, wanted)
    for id, value in wanted.options.items():
        await _set_option(link, wanted, id, value)


async def _open(link: AcpLink, wanted: Opening) -> None:
    params: dict[str, Any] = {
        "cwd": wanted.workspace,
        "mcpServers": read_servers(wanted.servers, http=link.abilities.http),
    }
    if wanted.folders and link.abilities.folders:
        params["additionalDirectories"] = list(wanted.folders)
    if not wanted.session:
        await _checked(link, wanted, await link.open_session("session/new", params))
        return
    if not link.abilities.resume and not link.abilities.load:
        text = CANNOT_RESUME.format(program=wanted.agent.title)
        raise EngineError(Failure("stale_session", text))
    # A loaded session is replayed, which takes its time; a resumed one is not.
    method = "session/resume" if link.abilities.resume else "session/load"
    await _checked(link, wanted, await link.open_session(method, {**params, "sessionId": wanted.session}))


async def _checked(link: AcpLink, wanted: Opening, reply: Reply) -> None:
    error, agent = reply.error, wanted.agent
    if error is None:
        return
    if error is ENDED:
        await link.ended.wait()
        raise EngineError(explain_exit(link.exit))
    explain = explain_refusal if wanted.session else explain_error
    raise EngineError(explain(error, agent.title, agent.login))


async def _set_mode(link: AcpLink, agent: Agent) -> None:
    if link.mode == agent.mode:
        return
    if link.modes:
        reply = await link.call("session/set_mode", modeId=agent.mode)
        if reply.error is None:
            link.modes = {**link.modes, "currentModeId": agent.mode}
    elif option := link.option("mode"):
        await _choose(link, str(option.get("id")), agent.mode)
    if link.mode != agent.mode:
        text = NOT_ASKING.format(program=agent.title, mode=agent.mode, now=link.mode or "none")
        raise EngineError(Failure("permission", text))


async def _set_model(link: AcpLink, wanted: Opening) -> None:
    if option := link.option("model"):
        chosen = await _choose(link, str(option.get("id")), wanted.model)
    else:
        reply = await link.call("session/set_model", modelId=wanted.model)
        chosen = reply.error is None
    if not chosen:
        known = ", ".join(model.name for model in link.models[:SHOWN_MODELS]) or "nothing to choose from"
        text = NO_MODEL.format(program=wanted.agent.title, model=wanted.model, known=known)
        raise EngineError(Failure("bad_request", text))
    link.model = wanted.model


async def _set_option(link: AcpLink, wanted: Opening, id: str, value: str) -> None:
    none: dict[str, Any] = {}
    option = next((one for one in link.options if one.get("id") == id), none)
    named = f"{id} {option.get('category') or ''}".lower()
    if wanted.guarded and any(word in named for word in _PERMISSIVE):
        raise EngineError(Failure("permission", GUARDED.format(id=id, program=wanted.agent.title)))
    if option.get("currentValue") != value and not await _choose(link, id, value):
        text = NO_OPTION.format(program=wanted.agent.title, id=id, value=value)
        raise EngineError(Failure("bad_request", text))


async def _choose(link: AcpLink, id: str, value: str) -> bool:
    reply = await link.call("session/set_config_option", configId=id, value=value)
    if reply.error is not None:
        return False
    link.note_state(reply.result)
    return True


def read_sessions(engine: EngineId, result: Mapping[str, Any]) -> list[FoundSession]:
    """Return the sessions that an agent lists, last used first."""
    listed = result.get("sessions")
    found = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    sessions = [
        FoundSession(
            ResumeToken(engine, str(one["sessionId"]), str(one.get("cwd") or "")),
            str(one.get("title") or "")[:TITLE_CHARS],
            _time(one.get("updatedAt")),
        )
        for one in found
        if one.get("sessionId")
    ]
    return sorted(sessions, key=lambda one: -one.used_at)[:MOST_SESSIONS]


def _time(text: Any) -> float:
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return 0.0


def read_servers(servers: Mapping[str, Any], *, http: bool) -> list[dict[str, Any]]:
    """Return the MCP servers of a brief in ACP's words. An agent that knows no HTTP gets the program that stands in."""
    left_out = unreachable_servers(servers, http=http)
    found = {
        name: one["stdio"] if "stdio" in one and not http else one
        for name, one in servers.items()
        if isinstance(one, Mapping) and name not in left_out
    }
    return [_server(name, one) for name, one in found.items()]


def unreachable_servers(servers: Mapping[str, Any], *, http: bool) -> list[str]:
    """Return the servers that an agent without HTTP cannot use; it would refuse the session."""
    return [name for name, one in servers.items() if not http and "url" in one and "stdio" not in one]


def _server(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    if "url" in given:
        kind = "sse" if given.get("type") == "sse" else "http"
        return {"type": kind, "name": name, "url": given["url"], "headers": _pairs(given.get("headers"))}
    command = str(given.get("command") or "")
    return {
        "name": name,
        "command": shutil.which(command) or command,
        "args": list(given.get("args") or ()),
        "env": _pairs(given.get("env")),
    }


def _pairs(values: Any) -> list[dict[str, str]]:
    found = values.items() if isinstance(values, Mapping) else ()
    return [{"name": str(name), "value": str(value)} for name, value in found]
