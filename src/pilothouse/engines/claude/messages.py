"""Messages -> events: the blocks of what the model said, the results of its tools, and its plan.

`OpenTurn` is one turn while it is translated. A block is known by its message and its place in it. While it streams, the
API counts the places; the finished block comes without its place, just before the stream says that the block is over, so
its place is the open one, or, without streaming, the next.

Results come in the order in which tools end, and are matched by their id. What has a parent is a sub-agent's: shown under
the call that started it, and no part of the answer. The plan belongs to the session and outlives a turn: `TodoWrite` says
the whole list; `TaskCreate`, `TaskUpdate` and `TaskList` change it one by one, and only their results tell how.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct, field

from pilothouse.core.engine import MediaFound, Step
from pilothouse.core.event import (
    EngineEvent,
    Grammar,
    PlanChanged,
    PlanItem,
    TextDelta,
    TextSet,
    ThinkingDelta,
    ToolCall,
    ToolFinished,
    ToolStarted,
)
from pilothouse.core.ids import CallId
from pilothouse.core.view import join_blocks
from pilothouse.engines.claude import texts, wire_blocks
from pilothouse.engines.claude.asks import PLAN
from pilothouse.engines.claude.texts import describe_call
from pilothouse.engines.claude.wire import Assistant, Message, StreamEvent, User
from pilothouse.engines.media import Pictures
from pilothouse.engines.titles import short_output

MAX_PLAN_ITEMS = 100

Status = Literal["pending", "active", "done"]
_STATUSES: dict[str, Status] = {"in_progress": "active", "completed": "done"}

Out = list[Step]

_PLAN_TOOLS = ("TaskCreate", "TaskUpdate", "TaskList")


class _Task(Struct, frozen=True):
    id: str
    subject: str = ""
    status: str = "pending"


class _Change(Struct, frozen=True):
    to: str = "pending"


class _Done(Struct, frozen=True):
    """The results of all three tools in one shape: each fills its own part."""

    task: _Task | None = None
    tasks: list[_Task] | None = None
    task_id: str = field(default="", name="taskId")
    change: _Change | None = field(default=None, name="statusChange")


_done = msgspec.json.Decoder(_Done)


class Plan:
    def __init__(self) -> None:
        self._tasks: dict[str, PlanItem] = {}

    @property
    def items(self) -> tuple[PlanItem, ...]:
        return tuple(self._tasks.values())[:MAX_PLAN_ITEMS]

    def written(self, given: dict[str, Any]) -> bool:
        """Apply a call of `TodoWrite`; return whether the list changed."""
        before, todos = self._tasks, given.get("todos")
        listed = [todo for todo in todos if isinstance(todo, dict)] if isinstance(todos, list) else []
        self._tasks = {
            str(n): _item(todo.get("content"), todo.get("status")) for n, todo in enumerate(listed)
        }
        return self._tasks != before

    def changed(self, result: Raw) -> bool:
        """Apply the result of a task tool; return whether the list changed."""
        try:
            done = _done.decode(result)
        except (msgspec.MsgspecError, UnicodeError):
            return False
        before = dict(self._tasks)
        self._apply(done)
        return self._tasks != before

    def _apply(self, done: _Done) -> None:
        if done.task is not None:
            self._tasks[done.task.id] = _item(done.task.subject, done.task.status)
        if done.tasks is not None:
            self._tasks = {task.id: _item(task.subject, task.status) for task in done.tasks}
        if done.change is not None and done.change.to == "deleted":
            self._tasks.pop(done.task_id, None)
        elif done.change is not None:
            old = self._tasks.get(done.task_id)
            self._tasks[done.task_id] = _item(old.text if old else f"#{done.task_id}", done.change.to)


def _item(text: object, status: object) -> PlanItem:
    return PlanItem(str(text)[:200], _STATUSES.get(str(status), "pending"))


class OpenTurn:
    def __init__(self) -> None:
        self.grammar = Grammar()
        self.pictures = Pictures()
        self.calls: dict[str, ToolCall] = {}
        self.plans: dict[str, str] = {}
        """Plans by call: the request to approve a plan does not repeat it."""
        self.denied: set[str] = set()
        self.api_error: Assistant | None = None
        self.noise = 0
        self.started = False
        self.inits = 0
        self.asked: Message | None = None
        """The newest message of the model, which tells how full its window is."""
        self.message_id = ""
        self._texts: dict[str, list[str]] = {}
        self._places: dict[str, int] = {}
        self._streaming: dict[str, str] = {}
        """Unfinished blocks: id -> message."""
        self._thought: set[str] = set()
        self._now = ("", -1, "")

    @property
    def answer(self) -> str:
        return join_blocks("".join(parts) for parts in self._texts.values())

    def emit(self, events: Iterable[Step]) -> Out:
        out: Out = []
        for event in events:
            if isinstance(event, MediaFound):
                out.append(event)
            else:
                out += self.grammar.feed(event)
        return out

    def begin_block(self, message_id: str, place: int) -> None:
        block_id = f"{message_id}:{place}"
        self._now = (message_id, place, block_id)
        self._streaming[block_id] = message_id

    def add_text(self, message_id: str, place: int, text: str) -> EngineEvent:
        """Add streamed text. Hot path: two of three lines of a streaming turn end here."""
        if self._now[0] != message_id or self._now[1] != place:
            self.begin_block(message_id, place)
        block_id = self._now[2]
        parts = self._texts.get(block_id)
        if parts is None:
            self._texts[block_id] = [text]
        else:
            parts.append(text)
        return TextDelta(block_id, text)

    def add_thought(self, message_id: str, place: int, text: str) -> list[EngineEvent]:
        self._thought.add(f"{message_id}:{place}")
        return [ThinkingDelta(text)]

    def finish_text(self, message_id: str, text: str, parent_id: str | None) -> list[EngineEvent]:
        block_id = self._finish(message_id)
        if parent_id is None:
            self._texts[block_id] = [text]
        return [TextSet(block_id, text, CallId(parent_id) if parent_id else None)]

    def finish_thought(self, message_id: str, text: str, parent_id: str | None) -> list[EngineEvent]:
        """Finish a thinking block. What streamed is not repeated, and a sub-agent's thoughts are not shown."""
        streamed = self._finish(message_id) in self._thought
        return [] if streamed or parent_id or not text else [ThinkingDelta(text)]

    def finish_other(self, message_id: str) -> None:
        self._finish(message_id)

    def withdraw(self, but_of: str = "", from_place: int = 0) -> list[EngineEvent]:
        """Take back blocks that will never be finished, because Claude Code asks the model again."""
        unfinished = [
            block_id
            for block_id, message_id in self._streaming.items()
            if message_id != but_of and int(block_id.rpartition(":")[2]) >= from_place
        ]
        for block_id in unfinished:
            del self._streaming[block_id]
        return [TextSet(block_id, "") for block_id in unfinished if self._texts.pop(block_id, None)]

    def _finish(self, message_id: str) -> str:
        streaming = self._now[2] in self._streaming and self._now[0] == message_id
        place = self._now[1] if streaming else self._places.get(message_id, 0)
        self._places[message_id] = place + 1
        block_id = f"{message_id}:{place}"
        self._streaming.pop(block_id, None)
        return block_id


class Messages:
    """Paths in titles are relative to `workspace`. `denials` has the reasons of calls that were not run."""

    def __init__(self, workspace: str, denials: Mapping[str, str]) -> None:
        self.workspace = workspace
        self._denials = denials
        self._plan = Plan()

    def stream(self, turn: OpenTurn, heard: StreamEvent) -> Sequence[Step]:
        event, message_id = heard.event, heard.api_message_id or turn.message_id
        match event:
            case wire_blocks.MessageStart(message=message):
                turn.message_id = message.id
                return turn.withdraw(but_of=message.id)
            case wire_blocks.BlockStart(content_block=wire_blocks.Image(source=source)):
                return turn.pictures.take(source.data)
            case wire_blocks.BlockStart(index=place):
                turn.begin_block(message_id, place)
            case wire_blocks.BlockDelta(index=place, delta=wire_blocks.TextDelta(text=text)):
                return [turn.add_text(message_id, place, text)]
            case wire_blocks.BlockDelta(index=place, delta=wire_blocks.ThinkingDelta(thinking=text)):
                return turn.add_thought(message_id, place, text)
            case wire_blocks.MessageStop() if heard.abandoned_blocks is not None:
                return turn.withdraw(from_place=heard.abandoned_blocks.from_block_index)
            case _:
                pass
        return ()

    def assistant(self, turn: OpenTurn, heard: Assistant) -> Sequence[Step]:
        if heard.error is not None or heard.is_api_error_message:
            turn.api_error = heard  # its text is the failure's, and comes again with the result
            return []
        if heard.parent_tool_use_id is None:
            turn.asked = heard.message
        content = heard.message.content
        listed = [wire_blocks.Text(content)] if isinstance(content, str) else content
        return [step for block in listed for step in self._said(turn, heard, block)]

    def user(self, turn: OpenTurn, heard: User) -> Sequence[Step]:
        """Translate the results of tools. Messages of people are not repeated."""
        content = heard.message.content
        if heard.is_replay:
            return []
        if heard.is_synthetic:
            notice = texts.cut_off(_text_of(content))
            return [notice] if notice else []
        results = [block for block in content if isinstance(block, wire_blocks.ToolResult)]
        steps: list[Step] = [step for result in results for step in self._finished(turn, result)]
        if len(results) == 1 and _tool(turn, results[0]) in _PLAN_TOOLS:
            steps += self._planned(self._plan.changed(heard.tool_use_result))
        return steps

    def _said(self, turn: OpenTurn, heard: Assistant, block: wire_blocks.Known) -> Sequence[Step]:
        message_id, parent_id = heard.message.id, heard.parent_tool_use_id
        match block:
            case wire_blocks.Text(text=text):
                return turn.finish_text(message_id, text, parent_id)
            case wire_blocks.Thinking(thinking=text):
                return turn.finish_thought(message_id, text, parent_id)
        turn.finish_other(message_id)
        match block:
            case (
                wire_blocks.ToolUse(id=id, name=name, input=given)
                | wire_blocks.ServerToolUse(id=id, name=name, input=given)
            ):
                return self._called(turn, id, name, given, parent_id)
            case wire_blocks.WebSearchResult(tool_use_id=id) | wire_blocks.WebFetchResult(tool_use_id=id):
                return [ToolFinished(CallId(id), ok=True)]
            case wire_blocks.Image(source=source):
                return turn.pictures.take(source.data)
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

    def _finished(self, turn: OpenTurn, result: wire_blocks.ToolResult) -> Sequence[Step]:
        content, id = result.content or "", result.tool_use_id
        parts = () if isinstance(content, str) else content
        images = [part for part in parts if isinstance(part, wire_blocks.Image)]
        why = self._denials.get(id, "")
        if why:
            turn.denied.add(id)
        ended = ToolFinished(CallId(id), result.is_error is not True, short_output(_text_of(content)), why)
        return [*(step for image in images for step in turn.pictures.take(image.source.data)), ended]

    def _planned(self, changed: bool) -> Sequence[Step]:
        return [PlanChanged(self._plan.items)] if changed else []


def _tool(turn: OpenTurn, result: wire_blocks.ToolResult) -> str:
    call = turn.calls.get(result.tool_use_id)
    return call.detail["tool"] if call else ""


def _text_of(content: str | Iterable[wire_blocks.Known]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block.text for block in content if isinstance(block, wire_blocks.Text))
