"""Questions of MCP servers: each field of a form is a question to a person, one after the other, like any other ask."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from pilothouse.core.ask import Ask, Decision
from pilothouse.core.ids import AskId
from pilothouse.core.mcp import McpReply
from pilothouse.engines.forms import answer_form, ask_form
from pilothouse.engines.native.approvals import Approvals
from pilothouse.engines.requests import is_no, make_question

ASKS = "For the MCP server {server}: {title}"


async def answer_server(
    approvals: Approvals, withdraw: Callable[[AskId], Awaitable[None]], server: str, params: dict[str, Any]
) -> McpReply:
    """Ask a person, and return the reply. A "no" declines; a question that nobody answered in time is cancelled."""
    decisions: list[Decision] = []
    for title, payload, options in ask_form(params):
        id = approvals.id(f"mcp-{uuid.uuid4()}")
        words = ASKS.format(server=server, title=title)
        ask = make_question(id, words, {"server": server, **payload}, options)
        decision = await _wait(approvals, withdraw, ask)
        if is_no(decision):
            return McpReply("decline" if decision.by else "cancel")
        decisions.append(decision)
    return McpReply("accept", answer_form(params, decisions)) if decisions else McpReply("decline")


async def _wait(approvals: Approvals, withdraw: Callable[[AskId], Awaitable[None]], ask: Ask) -> Decision:
    """Wait for a decision. A question whose call ends before is taken back."""
    try:
        return await approvals.wait(ask)
    except anyio.get_cancelled_exc_class():
        with anyio.CancelScope(shield=True):
            await withdraw(ask.id)
        raise
