"""The calls of one turn, judged and asked about.

Rules: what the policy allows runs, what it denies is told to the model with the reason, everything else becomes an ask. A
plain "no" ends the turn; one with words lets the model go on with them. A person may change the input of a call. Forms of
MCP servers are questions to a person too, one for each field.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio
from msgspec import Struct
from msgspec.structs import replace

from pilothouse.core.ask import Ask, Decision, ends_turn
from pilothouse.core.engine import Brief, Judge
from pilothouse.core.event import Asked
from pilothouse.core.ids import AskId
from pilothouse.core.mcp import McpReply
from pilothouse.engines.forms import answer_form, ask_form
from pilothouse.engines.native.calls import call_of
from pilothouse.engines.native.messages import Use
from pilothouse.engines.native.toolbox import Toolbox
from pilothouse.engines.requests import (
    SAID_NO,
    chosen_words,
    is_no,
    make_approval,
    make_question,
    numbered_options,
)

NO_MORE = "The person did not allow this call, and the turn was stopped."


class Verdict(Struct, frozen=True):
    """`use` may run; or `refusal` says why it may not, and `denied` names the rule. `stops` ends the turn."""

    use: Use
    refusal: str = ""
    denied: str = ""
    stops: bool = False


class _Pending:
    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.decided = anyio.Event()
        self.decision: Decision | None = None


class Approvals:
    """`prefix` makes the ids of asks unique beyond the session."""

    def __init__(
        self,
        judge: Judge,
        brief: Brief,
        prefix: str,
        tools: Toolbox,
        tell: Callable[[Asked], Awaitable[None]],
    ) -> None:
        self._judge = judge
        self._brief = brief
        self._prefix = prefix
        self._tools = tools
        self._tell = tell
        self._pending: dict[AskId, _Pending] = {}

    async def consider(self, use: Use) -> Verdict:
        ask = self._ask(use)
        ruling = await self._judge(ask, self._brief.site)
        if ruling.outcome == "allow":
            return Verdict(use)
        if ruling.outcome == "deny":
            return Verdict(use, SAID_NO.format(words=ruling.rule), ruling.rule)
        return _verdict(use, ask, await self.wait(ask))

    def id(self, name: str) -> AskId:
        return AskId(f"{self._prefix}:{name}")

    async def question(
        self, id: str, title: str, labels: Sequence[str] = (), *, secret: bool = False
    ) -> list[str]:
        """Ask a person; return the chosen labels or the typed words. Empty if they do not want to answer."""
        payload: dict[str, Any] = {"question": title, "options": list(labels)}
        if secret:
            payload["secret"] = True
        ask = make_question(self.id(id), title, payload, numbered_options(labels))
        decision = await self.wait(ask)
        return [] if decision.verdict == "deny" else chosen_words(labels, decision)

    async def allows(self, name: str) -> bool:
        """Tell whether the policy allows a tool without asking, whatever its input."""
        ruling = await self._judge(self._ask(Use(f"any-{name}", name)), self._brief.site)
        return ruling.outcome == "allow"

    def answer(self, ask_id: AskId, decision: Decision) -> None:
        """Note a decision. An ask that is not open is ignored."""
        if (pending := self._pending.get(ask_id)) and pending.decision is None:
            pending.decision = decision
            pending.decided.set()

    def _ask(self, use: Use) -> Ask:
        tool = self._tools.find(use.name)
        name = tool.rule_name or tool.name if tool else use.name
        payload = {"tool": name, "input": use.input, "cwd": self._brief.workspace}
        title = self._tools.title(use.name, use.input)
        return make_approval(self.id(use.id), title, payload, call_of(payload))

    async def wait(self, ask: Ask) -> Decision:
        """Ask people, and return their decision."""
        pending = self._pending[ask.id] = _Pending(ask)
        try:
            await self._tell(Asked(ask))
            await pending.decided.wait()
        finally:
            del self._pending[ask.id]
        assert pending.decision is not None
        return pending.decision


def _verdict(use: Use, ask: Ask, decision: Decision) -> Verdict:
    if decision.verdict == "allow":
        return Verdict(use if decision.input is None else replace(use, input=decision.input))
    if ends_turn(ask, decision):
        return Verdict(use, NO_MORE, stops=True)
    return Verdict(use, SAID_NO.format(words=decision.text))


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
