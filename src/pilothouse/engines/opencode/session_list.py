"""Lists of sessions and of their prompts, as the server tells them. Pure.

The requests name no folder: a server that is asked about one reads its settings, and loads its plugins.
"""

from __future__ import annotations

import os
from typing import Any

from pilothouse.core.engine import FoundSession, SessionPoint
from pilothouse.core.event import ResumeToken
from pilothouse.engines.opencode.message_ids import is_session_id
from pilothouse.engines.opencode.translate import ENGINE_ID
from pilothouse.engines.opencode.wire_parts import read_message

SESSIONS = "/experimental/session"
"""Lists the sessions of every folder; `/session` only those of the folder that is asked about."""
SESSIONS_QUERY = {"roots": "true", "limit": "500"}
"""Without sessions of sub-agents."""
MOST_SESSIONS = 20
TITLE_CHARS = 500


def read_sessions(told: Any, workspace: str = "") -> list[FoundSession]:
    """Return the sessions of a folder, last used first; without one, of all."""
    wanted = os.path.realpath(workspace)
    found = [
        FoundSession(
            ResumeToken(ENGINE_ID, str(one["id"]), str(one.get("directory") or "")),
            str(one.get("title") or "")[:TITLE_CHARS],
            _time(one, "updated"),
        )
        for one in _objects(told)
        if is_session_id(str(one.get("id")))
        and (not workspace or os.path.realpath(str(one.get("directory"))) == wanted)
    ]
    return sorted(found, key=lambda one: one.used_at, reverse=True)


def read_points(history: Any) -> list[SessionPoint]:
    """Return the prompts whose answers are over, oldest first. `history` is what `/session/ID/message` answered."""
    messages = _objects(history)
    prompts = [one for one in messages if said_in(one)]
    points = [
        SessionPoint(_info(one)["id"], said_in(one)[:TITLE_CHARS], _time(_info(one), "created"))
        for one in prompts
    ]
    is_over = bool(messages) and read_message(_info(messages[-1])).is_over
    return points if is_over else points[:-1]


def next_prompt(history: Any, point: str) -> str | None:
    """Return the id of the prompt after a point, empty after the last one; None if there is no such point.

    A fork of OpenCode ends before the message that is named. It takes an id that it does not know for the end.
    """
    ids = [str(_info(one)["id"]) for one in _objects(history) if said_in(one)]
    return [*ids, ""][ids.index(point) + 1] if point in ids else None


def said_in(message: dict[str, Any]) -> str:
    """Return what a person said in a message; empty for one of the model, or of OpenCode itself."""
    info = _info(message)
    if info.get("role") != "user" or not isinstance(info.get("id"), str):
        return ""
    parts = [one for one in _objects(message.get("parts")) if not one.get("synthetic")]
    texts = [str(one.get("text") or "") for one in parts if one.get("type") == "text"]
    files = [f"[{one.get('filename') or 'a file'}]" for one in parts if one.get("type") == "file"]
    return "\n".join(line for line in (*texts, *files) if line).strip()


def _info(message: dict[str, Any]) -> dict[str, Any]:
    info = message.get("info")
    return info if isinstance(info, dict) else {}


def _objects(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _time(value: dict[str, Any], name: str) -> float:
    """Return a time in seconds; OpenCode tells milliseconds."""
    times = value.get("time")
    at = times.get(name) if isinstance(times, dict) else None
    return at / 1000 if isinstance(at, int | float) else 0.0
