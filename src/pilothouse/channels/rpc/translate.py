"""Log rows of one turn -> agent events of one run. Pure: the same rows give the same events with the same numbers, live,
in replayed history and after a restart, so a client can tell what it has seen by `run_id` and `seq`.

Text waits until something follows it: a tool makes it `text`, the end of a completed turn makes it `final`. A terminal
answer is therefore sent once. Per tool: step_start, tool_call, permission.preview, permission.ready, tool_result,
step_complete.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, Literal

from msgspec import Struct

from pilothouse.channels.rpc.events import (
    AgentEvent,
    CompactionComplete,
    CompactionStart,
    DeltaUpdate,
    Final,
    HiddenUserMessage,
    MediaUpdate,
    NoticeUpdate,
    PermissionPreview,
    PermissionReady,
    PlanStep,
    PlanUpdate,
    Reasoning,
    RunUpdate,
    StepComplete,
    StepStart,
    Text,
    ToolCall,
    ToolResult,
    UsageUpdate,
)
from pilothouse.core import event as log
from pilothouse.core.ask import Ask, input_of
from pilothouse.core.ask_view import headline
from pilothouse.core.channel import LoggedEvent
from pilothouse.core.ids import AskId, CallId
from pilothouse.core.view import join_blocks

RunStatus = Literal["running", "awaiting_ui", "completed", "error", "cancelled"]
ENDED: frozenset[RunStatus] = frozenset({"completed", "error", "cancelled"})
OUTCOMES: Mapping[log.Outcome, RunStatus] = {
    "completed": "completed",
    "failed": "error",
    "cancelled": "cancelled",
}
DIFF_LINES = 120
LANGUAGES: Mapping[str, str] = {
    ".c": "c",
    ".cpp": "cpp",
    ".css": "css",
    ".go": "go",
    ".html": "html",
    ".java": "java",
    ".js": "javascript",
    ".json": "json",
    ".md": "markdown",
    ".py": "python",
    ".rb": "ruby",
    ".rs": "rust",
    ".sh": "bash",
    ".sql": "sql",
    ".toml": "toml",
    ".ts": "typescript",
    ".tsx": "tsx",
    ".yaml": "yaml",
    ".yml": "yaml",
}


class Numbered(Struct, frozen=True):
    seq: int
    event: AgentEvent


class _Open(Struct, frozen=True):
    call: log.ToolCall
    number: int
    at: float


class RunTranslator:
    """The state of one run. `feed` takes the rows of its turn in order."""

    def __init__(self) -> None:
        self.status: RunStatus = "running"
        self.message = ""
        self.next_seq = 0
        self.context_left: int | None = None
        self.usage: log.Usage | None = None
        self._blocks: dict[str, str] = {}
        self._sent: dict[str, str] = {}
        """The text of each block that was sent already."""
        self._thinking: list[str] = []
        self._open: dict[CallId, _Open] = {}
        self._asks: set[AskId] = set()
        self._steps = 0
        self._prompted = False
        self._is_compacting = False
        self._compaction = ""
        """How the last compaction ended: the answer of a run that does nothing else."""

    @property
    def ended(self) -> bool:
        return self.status in ENDED

    def feed(self, row: LoggedEvent) -> list[Numbered]:
        if self.ended:  # an ask that outlived its turn is answered; the work goes on in a turn of its own
            return []
        found = []
        for event in self._translate(row.event, row.at):
            found.append(Numbered(self.next_seq, event))
            self.next_seq += 1
        return found

    def _translate(self, event: log.EngineEvent, at: float) -> Iterator[AgentEvent]:
        if not isinstance(event, log.ThinkingDelta):
            yield from self._flush_thinking(at)
        match event:
            case log.ThinkingDelta(text=text):
                self._thinking.append(text)
            case log.TextDelta(block_id=id, text=text, parent_id=None):
                self._blocks[id] = self._blocks.get(id, "") + text
            case log.TextSet(block_id=id, text=text, parent_id=None):
                self._set_block(id, text)
            case log.PromptAdded(text=text):
                yield from self._add_prompt(text, at)
            case log.ToolStarted(call=call):
                yield from self._start(call, at)
            case log.ToolFinished():
                yield from self._finish(event, at)
            case log.Asked(ask=ask):
                yield from self._ask(ask, at)
            case log.AskChanged(ask_id=id):
                self._asks.discard(id)
                self.status = "awaiting_ui" if self._asks else "running"
            case log.Notice():
                yield from self._notice(event, at)
            case log.UsageChanged(usage=usage):
                self.usage = usage
            case log.TurnEnded():
                yield from self._end(event, at)

    def _add_prompt(self, text: str, at: float) -> Iterator[AgentEvent]:
        """A message that joins a running turn is an event; the first prompt is what the run was started with."""
        yield from self._flush_text(at)
        if self._prompted:
            yield HiddenUserMessage(text)
        self._prompted = True

    def _start(self, call: log.ToolCall, at: float) -> Iterator[AgentEvent]:
        yield from self._flush_text(at)
        self._steps += 1
        self._open[call.id] = _Open(call, self._steps, at)
        yield StepStart(f"step_{self._steps}", call.title, self._steps)
        yield ToolCall(tool_name(call), tool_args(call), call.id, call.title)

    def _finish(self, event: log.ToolFinished, at: float) -> Iterator[AgentEvent]:
        opened = self._open.pop(event.call_id, None)
        if opened is None:
            return
        result = f"Permission denied: {event.denied}" if event.denied else event.output
        yield ToolResult(tool_name(opened.call), result, event.call_id, not event.ok)
        took_ms = max(0, round((at - opened.at) * 1000))
        yield StepComplete(f"step_{opened.number}", "completed" if event.ok else "error", took_ms)

    def _ask(self, ask: Ask, at: float) -> Iterator[AgentEvent]:
        yield from self._flush_text(at)
        self._asks.add(ask.id)
        self.status = "awaiting_ui"
        if ask.kind == "approval":
            call_id = self._call_of(ask)
            yield preview_of(ask, call_id)
            yield PermissionReady(asked_tool(ask), call_id)

    def _call_of(self, ask: Ask) -> str:
        """Return the open call that an ask is about, the newest first; empty if none fits."""
        given = input_of(ask) or {}
        for id, opened in reversed(self._open.items()):
            detail = opened.call.detail
            if given and all(detail.get(key) == value for key, value in given.items()):
                return id
            if ask.call is not None and ask.call.command and detail.get("command") == ask.call.command:
                return id
        return ""

    def _notice(self, notice: log.Notice, at: float) -> Iterator[AgentEvent]:
        match notice.kind:
            case "compaction" if not self._is_compacting:
                self._is_compacting = True
                yield CompactionStart(_ms(at))
            case "compacted" | "compaction_failed":
                self._compaction = notice.text
                yield from self._end_compaction(at, compacted=notice.kind == "compacted")
            case "parked":  # the text so far was sent; the next attempt continues after it
                yield from self._flush_text(at)

    def _end_compaction(self, at: float, *, compacted: bool) -> Iterator[AgentEvent]:
        """End a compaction. Some engines tell only this, and not that it began."""
        if not self._is_compacting:
            yield CompactionStart(_ms(at))
        self._is_compacting = False
        yield CompactionComplete(_ms(at), compacted)

    def _end(self, event: log.TurnEnded, at: float) -> Iterator[AgentEvent]:
        if self._is_compacting:
            yield from self._end_compaction(at, compacted=False)
        self.status = OUTCOMES[event.outcome]
        self.message = event.failure.text if event.failure else ""
        if event.usage is not None:
            self.usage = event.usage
        if event.outcome != "completed":
            yield from self._flush_text(at)
            return
        draft = join_blocks(self._blocks.values())
        self._blocks.clear()
        is_whole = draft and event.answer.rstrip().endswith(draft.rstrip())
        yield Final(draft if is_whole else event.answer or self._compaction)

    def _set_block(self, id: str, text: str) -> None:
        """Replace a block. What was sent of it cannot be replaced; only its continuation counts."""
        sent = self._sent.get(id, "")
        if text.startswith(sent):
            self._blocks[id] = text[len(sent) :]

    def _flush_text(self, at: float) -> Iterator[AgentEvent]:
        text = join_blocks(self._blocks.values())
        for id, part in self._blocks.items():
            self._sent[id] = self._sent.get(id, "") + part
        self._blocks.clear()
        if text:
            yield Text(text, _ms(at))

    def _flush_thinking(self, at: float) -> Iterator[AgentEvent]:
        text = "".join(self._thinking)
        self._thinking.clear()
        if text.strip():
            yield Reasoning(text, _ms(at))


def context_left(event: log.EngineEvent) -> int | None:
    """Return how much of the model's window is free, in percent; None if the event does not tell."""
    usage = event.usage if isinstance(event, log.UsageChanged | log.TurnEnded) else None
    if usage is None or not usage.context_window or usage.context_tokens is None:
        return None
    return round(100 * max(0.0, 1 - usage.context_tokens / usage.context_window))


def update_of(event: log.EngineEvent) -> RunUpdate | None:
    """Return what a client is told beside the agent events, if it asked for that."""
    match event:
        case log.TextDelta(block_id=id, text=text, parent_id=None):
            return DeltaUpdate(id, text)
        case log.Notice(level=level, kind=kind, text=text):
            return NoticeUpdate(level, kind, text)
        case log.PlanChanged(items=items):
            return PlanUpdate(tuple(PlanStep(item.text, item.status) for item in items))
        case log.MediaProduced(attachment=file):
            return MediaUpdate(file.name, file.media_type, file.size, file.blob)
        case log.UsageChanged(usage=usage):
            return _usage(usage)
        case _:
            return None


def tool_name(call: log.ToolCall) -> str:
    """Return the engine's own name of the tool, else its kind."""
    named = call.detail.get("tool")
    return named if isinstance(named, str) and named else call.kind


def tool_args(call: log.ToolCall) -> dict[str, Any]:
    return {key: value for key, value in call.detail.items() if key != "tool"}


def asked_tool(ask: Ask) -> str:
    named = ask.call.tool if ask.call is not None else ask.payload.get("tool")
    return named if isinstance(named, str) and named else "tool"


def preview_of(ask: Ask, call_id: str) -> PermissionPreview:
    lines = ask.preview.split("\n") if ask.preview else []
    path = _path_of(ask)
    return PermissionPreview(
        asked_tool(ask),
        call_id,
        path,
        LANGUAGES.get(PurePosixPath(path).suffix.lower(), ""),
        "\n".join(lines[:DIFF_LINES]),
        headline(ask),
        len(lines) > DIFF_LINES,
    )


def _path_of(ask: Ask) -> str:
    if ask.call is None:
        return ""
    change = ask.call.change.path if ask.call.change else ""
    return change or next(iter(ask.call.paths), "")


def _usage(usage: log.Usage) -> UsageUpdate:
    return UsageUpdate(usage.cost_usd, usage.input_tokens, usage.output_tokens)


def _ms(at: float) -> int:
    return round(at * 1000)
