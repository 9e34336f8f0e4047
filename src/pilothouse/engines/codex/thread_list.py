"""Threads and lists of them and of their turns, as the app-server tells them. Pure.

Threads are read through the app-server and never from its files, whose format is changing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from pilothouse.core.engine import FoundSession, SessionPoint
from pilothouse.core.event import ResumeToken
from pilothouse.engines.codex.threads import is_thread_id
from pilothouse.engines.codex.translate import ENGINE_ID
from pilothouse.engines.codex.wire import Reply

MOST_THREADS = 20
MOST_TURNS = 200
TITLE_CHARS = 500


class RunningTurn(Struct, frozen=True):
    """A turn that runs, and the words of its messages. One that is not `readable` waits for an answer nobody can give."""

    id: str
    texts: tuple[str, ...]
    readable: bool = True


def list_params(workspace: str) -> dict[str, Any]:
    """Return the parameters of `thread/list`: threads that people began, with every provider; without a folder, of all."""
    return {
        **({"cwd": workspace} if workspace else {}),
        "limit": MOST_THREADS,
        "sortKey": "updated_at",
        "modelProviders": [],
        "sourceKinds": ["cli", "vscode", "exec", "appServer"],
    }


def turns_params(thread: str, most: int = MOST_TURNS, *, last: bool = False) -> dict[str, Any]:
    """Return the parameters of `thread/turns/list`: the first turns, oldest first, or the `last` ones, newest first."""
    direction = "desc" if last else "asc"
    return {"threadId": thread, "limit": most, "sortDirection": direction, "itemsView": "full"}


def read_running(result: Mapping[str, Any], *, readable: bool) -> RunningTurn | None:
    """Read the last turn; None if it has ended."""
    last = next(iter(rows_of(result)), None)
    if last is None or last.get("status") != "inProgress":
        return None
    return RunningTurn(
        str(last.get("id") or ""), tuple(filter(None, map(asked_in, rows_of(last, "items")))), readable
    )


def read_sessions(result: Mapping[str, Any]) -> list[FoundSession]:
    found = [one for one in rows_of(result) if is_thread_id(str(one.get("id")))]
    return [
        FoundSession(
            ResumeToken(ENGINE_ID, str(one["id"]), str(one.get("cwd") or "")),
            str(one.get("name") or one.get("preview") or "")[:TITLE_CHARS],
            _number(one.get("updatedAt")),
        )
        for one in found
    ]


def read_points(result: Mapping[str, Any]) -> list[SessionPoint]:
    """Return the turns that have ended, oldest first: Codex forks after no other."""
    turns = [one for one in rows_of(result) if one.get("status") != "inProgress"]
    return [
        SessionPoint(str(one["id"]), _asked(one), _number(one.get("startedAt")))
        for one in turns
        if one.get("id")
    ]


def rows_of(result: Mapping[str, Any], name: str = "data") -> list[dict[str, Any]]:
    data = result.get(name)
    return [one for one in data if isinstance(one, dict)] if isinstance(data, list) else []


def _asked(turn: Mapping[str, Any]) -> str:
    """Return the words of the turn's first message."""
    return next(filter(None, map(asked_in, rows_of(turn, "items"))), "")[:TITLE_CHARS]


def asked_in(item: Mapping[str, Any]) -> str:
    """Return the words of a person's message; empty for any other item."""
    if item.get("type") != "userMessage":
        return ""
    texts = [str(one.get("text") or "") for one in rows_of(item, "content") if one.get("type") == "text"]
    return "\n".join(texts)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def thread_of(reply: Reply) -> str:
    """Return the thread that a reply is about; empty if it failed."""
    thread = reply.result.get("thread")
    return str(thread.get("id") or "") if isinstance(thread, dict) else ""


def is_active(reply: Reply, *, waiting: bool = True) -> bool:
    """Tell whether a turn runs in the thread that a reply is about; without `waiting`, one that waits for nobody."""
    thread = reply.result.get("thread")
    status = thread.get("status") if isinstance(thread, dict) else None
    if not isinstance(status, dict) or status.get("type") != "active":
        return False
    return waiting or not status.get("activeFlags")
