"""Messages -> events: the blocks of what the model said, and of what its tools answered.

A tool's result is matched by its id, for results come in the order in which the tools end. What has a parent is a
sub-agent's: shown under the call that started it, and no part of the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pilothouse.core.engine import MediaFound
from pilothouse.core.event import EngineEvent, PlanChanged, ToolFinished, ToolStarted
from pilothouse.core.ids import CallId
from pilothouse.engines.claude import blocks, notices, stream
from pilothouse.engines.claude.asks import PLAN
from pilothouse.engines.claude.plan import Plan
from pilothouse.engines.claude.titles import describe_call
from pilothouse.engines.claude.turn import OpenTurn
from pilothouse.engines.claude.wire import Assistant, StreamEvent, User

OUTPUT_CHARS = 10_000
_PLAN_TOOLS = ("TaskCreate", "TaskUpdate", "TaskList")

Step = EngineEvent | MediaFound


class Messages:
    """`workspace` is where titles begin; the plan is the session's, and outlives a turn."""

    def __init__(self, workspace: str) -> None:
        self.workspace = workspace
        self._plan = Plan()

    def stream(self, turn: OpenTurn, heard: StreamEvent) -> Sequence[Step]:
        event, message_id = heard.event, heard.api_message_id or turn.message_id
        match event:
            case stream.MessageStart(message=message):
                turn.message_id = message.id
                return turn.withdraw(but_of=message.id)
            case stream.BlockStart(content_block=blocks.Image(source=source)):
                return turn.pictures.take(source)
            case stream.BlockStart(index=place):
                turn.begin_block(message_id, place)
            case stream.BlockDelta(index=place, delta=stream.TextDelta(text=text)):
                return [turn.add_text(message_id, place, text)]
            case stream.BlockDelta(index=place, delta=stream.ThinkingDelta(thinking=text)):
                return turn.add_thought(message_id, place, text)
            case stream.MessageStop() if heard.abandoned_blocks is not None:
                return turn.withdraw(from_place=heard.abandoned_blocks.from_block_index)
            case _:
                pass
        return ()

    def assistant(self, turn: OpenTurn, heard: Assistant) -> Sequence[Step]:
        if heard.error is not None or heard.is_api_error_message:
            turn.api_error = heard  # its text is the failure's, and comes again with the result
            return []
        content = heard.message.content
        listed = [blocks.Text(content)] if isinstance(content, str) else content
        return [step for block in listed for step in self._said(turn, heard, block)]

    def user(self, turn: OpenTurn, heard: User) -> Sequence[Step]:
        """Tools' results. What people said is not repeated: whoever sent it knows it."""
        content = heard.message.content
        if heard.is_replay:
            return []
        if heard.is_synthetic:
            notice = notices.cut_off(_text_of(content))
            return [notice] if notice else []
        results = [block for block in content if isinstance(block, blocks.ToolResult)]
        steps: list[Step] = [step for result in results for step in _finished(turn, result)]
        if len(results) == 1 and _tool(turn, results[0]) in _PLAN_TOOLS:
            steps += self._planned(self._plan.changed(heard.tool_use_result))
        return steps

    def _said(self, turn: OpenTurn, heard: Assistant, block: blocks.Known) -> Sequence[Step]:
        message_id, parent_id = heard.message.id, heard.parent_tool_use_id
        match block:
            case blocks.Text(text=text):
                return turn.finish_text(message_id, text, parent_id)
            case blocks.Thinking(thinking=text):
                return turn.finish_thought(message_id, text, parent_id)
        turn.finish_other(message_id)
        match block:
            case (
                blocks.ToolUse(id=id, name=name, input=given)
                | blocks.ServerToolUse(id=id, name=name, input=given)
            ):
                return self._called(turn, id, name, given, parent_id)
            case blocks.WebSearchResult(tool_use_id=id) | blocks.WebFetchResult(tool_use_id=id):
                return [ToolFinished(CallId(id), ok=True)]
            case blocks.Image(source=source):
                return turn.pictures.take(source)
            case _:
                return []

    def _called(
        self, turn: OpenTurn, id: str, name: str, given: dict[str, Any], parent_id: str | None
    ) -> Sequence[Step]:
        call = turn.calls[id] = describe_call(id, name, given, self.workspace, parent_id)
        if name == PLAN and isinstance(plan := given.get("plan"), str):
            turn.plans[id] = plan
        written = name == "TodoWrite" and self._plan.written(given)
        return [ToolStarted(call), *self._planned(written)]

    def _planned(self, changed: bool) -> Sequence[Step]:
        return [PlanChanged(self._plan.items)] if changed else []


def _tool(turn: OpenTurn, result: blocks.ToolResult) -> str:
    call = turn.calls.get(result.tool_use_id)
    return call.detail["tool"] if call else ""


def _finished(turn: OpenTurn, result: blocks.ToolResult) -> Sequence[Step]:
    content = result.content or ""
    parts = () if isinstance(content, str) else content
    images = [part for part in parts if isinstance(part, blocks.Image)]
    ended = ToolFinished(CallId(result.tool_use_id), result.is_error is not True, _output(content))
    return [*(step for image in images for step in turn.pictures.take(image.source)), ended]


def _output(content: str | Iterable[blocks.Known]) -> str:
    text = _text_of(content)
    return text if len(text) <= OUTPUT_CHARS else text[: OUTPUT_CHARS - 1] + "…"


def _text_of(content: str | Iterable[blocks.Known]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block.text for block in content if isinstance(block, blocks.Text))
