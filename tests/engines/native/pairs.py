"""Finds calls without a result, and results without a call, in a request of any dialect."""

from __future__ import annotations

from typing import Any


def unpaired(body: dict[str, Any]) -> set[str]:
    """Return the ids of calls whose result does not follow at once, and of results without a call before them."""
    bad: set[str] = set()
    open_calls: set[str] = set()
    for message in body.get("messages") or body.get("input") or ():
        calls, results, words = _read(message)
        bad |= results - open_calls
        open_calls -= results
        if words:
            bad |= open_calls
        open_calls |= calls
    return bad | open_calls


def _read(message: dict[str, Any]) -> tuple[set[str], set[str], bool]:
    if message.get("type") == "function_call":
        return {message["call_id"]}, set(), False
    if message.get("type") == "function_call_output":
        return set(), {message["call_id"]}, False
    if message.get("role") == "tool":
        return set(), {message["tool_call_id"]}, False
    parts = message.get("content") if isinstance(message.get("content"), list) else []
    results = {part["tool_use_id"] for part in parts or () if part.get("type") == "tool_result"}
    calls = {part["id"] for part in parts or () if part.get("type") == "tool_use"}
    calls |= {call["id"] for call in message.get("tool_calls") or ()}
    return calls, results, message.get("role") in ("user", "assistant") and not results
