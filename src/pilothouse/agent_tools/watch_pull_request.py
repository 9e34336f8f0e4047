"""`watch_pull_request`: let failed checks and reviews of a pull request wake this conversation, as `/watch` does."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from pilothouse.agent_tools.tool import Arguments, Tool, ToolCall
from pilothouse.core.store import Tx
from pilothouse.runtime.agent_calls.caller import check_live
from pilothouse.runtime.audit import record
from pilothouse.runtime.commands.watch import set_watch

Pull = Annotated[str, Meta(description="The pull request: owner/name#7, or its address.")]
Stop = Annotated[bool, Meta(description="True to stop watching it.")]


class WatchPullRequest(Arguments, frozen=True, kw_only=True):
    pull_request: Pull
    stop: Stop = False


async def run(call: ToolCall, given: WatchPullRequest) -> str:
    caller = await call.caller()

    def unit(tx: Tx) -> str:
        check_live(tx, caller)
        place, by = caller.conversation.id, f"engine:{caller.turn.engine}"
        told = set_watch(tx, place, given.pull_request, ends=given.stop)
        what = "watch.ended" if given.stop else "watch.began"
        record(tx, call.ports.clock.now(), by, what, pull=given.pull_request, conversation=place)
        return told

    return await call.ports.store.write(unit)


TOOL = Tool(
    "watch_pull_request",
    "Be woken here when a check of a pull request fails or people review it; call it after you opened one.",
    WatchPullRequest,
    run,
)
