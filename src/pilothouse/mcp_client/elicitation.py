"""Questions that a server asks while one of its tools runs: forms, and pages to visit.

A question belongs to a call. The protocol does not always say to which: if several calls of a connection run, and nothing
tells whose it is, the question is declined, because it must not reach a person who did not make the call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from typing import Any

import anyio
import mcp_types as types
from mcp.client.context import ClientRequestContext

from pilothouse.core.mcp import Elicit, McpReply

DECLINED, CANCELLED = McpReply("decline"), McpReply("cancel")


class RunningCall:
    """A call, and the person behind it. Its time stands still while they are asked."""

    def __init__(self, elicit: Elicit | None, seconds: float) -> None:
        self.limit = anyio.CancelScope(deadline=anyio.current_time() + seconds)
        self._elicit = elicit
        self._questions: list[anyio.CancelScope] = []
        self._left_s = seconds

    async def ask(self, server: str, params: dict[str, Any]) -> McpReply:
        """Return the person's answer; `cancel` if the call ends before there is one."""
        if self._elicit is None:
            return DECLINED
        with anyio.CancelScope() as scope, self._waiting(scope):
            return await self._elicit(server, params)
        return CANCELLED

    @contextmanager
    def _waiting(self, scope: anyio.CancelScope) -> Iterator[None]:
        if not self._questions:
            self._left_s = self.limit.deadline - anyio.current_time()
            self.limit.deadline = inf
        self._questions.append(scope)
        try:
            yield
        finally:
            self._questions.remove(scope)
            if not self._questions:
                self.limit.deadline = anyio.current_time() + self._left_s

    def end(self) -> None:
        """Take back questions that need no answer any more."""
        for scope in self._questions:
            scope.cancel()


_CURRENT: ContextVar[RunningCall | None] = ContextVar("running_call", default=None)


class Questions:
    """The calls of one connection, and its callback for the SDK."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._calls: list[RunningCall] = []

    @contextmanager
    def of(self, call: RunningCall) -> Iterator[None]:
        self._calls.append(call)
        token = _CURRENT.set(call)
        try:
            yield
        finally:
            _CURRENT.reset(token)
            self._calls.remove(call)
            call.end()

    async def answer(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        call = self._call()
        if call is None:
            return types.ElicitResult(action="decline")
        given = params.model_dump(mode="json", by_alias=True, exclude_none=True)
        mode = "form" if isinstance(params, types.ElicitRequestFormParams) else "url"
        reply = await call.ask(self._server, {**given, "mode": mode})
        content = reply.content
        if reply.action == "accept" and isinstance(params, types.ElicitRequestFormParams):
            content = {**defaults_of(params.requested_schema), **(content or {})}
        return types.ElicitResult(action=reply.action, content=None if content is None else dict(content))

    def _call(self) -> RunningCall | None:
        """Return the call that a question belongs to."""
        current = _CURRENT.get()
        if current is not None and current in self._calls:
            return current
        return self._calls[0] if len(self._calls) == 1 else None


def defaults_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    fields = schema.get("properties")
    named = fields.items() if isinstance(fields, Mapping) else ()
    return {
        name: field["default"] for name, field in named if isinstance(field, Mapping) and "default" in field
    }
