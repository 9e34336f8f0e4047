"""Engine events: the closed union `EngineEvent`, the second narrow waist.

Grammar of a turn:

    stream := Notice* (SessionStarted step*)? TurnEnded
    step   := SessionChanged | PromptAdded | TextDelta | TextSet | ThinkingDelta
            | ToolStarted | ToolUpdated | ToolFinished | Asked | AskChanged
            | PlanChanged | MediaProduced | Notice | UsageChanged

The start is missing only when the turn ended, not completed, before a session existed. There is exactly one end
and it is last; a failed one says why, a completed one has no failure. A tool opens once and closes once, changes
only in between, and every tool is closed before the end. An ask is made once and changes at most once, by the
table in `ask.py`; it may stay open at the end. `Grammar` repairs streams that break these rules.

Text lives in blocks: a `TextSet` replaces all deltas of its block (an empty one withdraws it), and text with a
`parent_id` is a sub-agent's, never the answer's. A plugin may not add kinds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from pilothouse.core.ask import ASK_MOVES, Ask, AskState
from pilothouse.core.errors import PilothouseError
from pilothouse.core.ids import AskId, CallId, EngineId, UserId
from pilothouse.core.message import Attachment, clean_text
from pilothouse.core.outcome import Failure, Usage

SCHEMA_VERSION = 1

ToolKind = Literal["command", "file_change", "read", "search", "web", "subagent", "tool", "note"]
Outcome = Literal["completed", "failed", "cancelled"]
Level = Literal["info", "warning", "error"]

HARMLESS_TOOLS: frozenset[ToolKind] = frozenset({"read", "search", "web", "note"})
"""Tools that may run twice. Every other kind counts as having side effects."""


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


class ResumeToken(Struct, frozen=True):
    """An engine's id for a session, bound to a folder: most CLIs keep their history per folder."""

    engine: EngineId
    value: str
    cwd: str = ""


class ToolCall(Struct, frozen=True):
    id: CallId
    kind: ToolKind
    title: str
    detail: dict[str, Any] = field(default_factory=dict)
    parent_id: CallId | None = None


class PlanItem(Struct, frozen=True):
    text: str
    status: Literal["pending", "active", "done"] = "pending"


class _Event(Struct, frozen=True, tag_field="type", tag=_snake):
    pass


class SessionStarted(_Event, frozen=True):
    resume: ResumeToken | None = None
    model: str = ""
    cwd: str = ""
    tools: tuple[str, ...] = ()


class SessionChanged(_Event, frozen=True):
    resume: ResumeToken


class PromptAdded(_Event, frozen=True):
    text: str
    by: str = ""


class TextDelta(_Event, frozen=True):
    block_id: str
    text: str
    parent_id: CallId | None = None


class TextSet(_Event, frozen=True):
    block_id: str
    text: str
    parent_id: CallId | None = None


class ThinkingDelta(_Event, frozen=True):
    text: str


class ToolStarted(_Event, frozen=True):
    call: ToolCall


class ToolUpdated(_Event, frozen=True):
    call_id: CallId
    title: str | None = None
    output: str | None = None


class ToolFinished(_Event, frozen=True):
    """`denied` is why the call was not run, if a rule denied it."""

    call_id: CallId
    ok: bool
    output: str = ""
    denied: str = ""


class Asked(_Event, frozen=True):
    ask: Ask


class AskChanged(_Event, frozen=True):
    ask_id: AskId
    state: AskState
    by: UserId | None = None
    said: str = ""


class PlanChanged(_Event, frozen=True):
    items: tuple[PlanItem, ...]


class MediaProduced(_Event, frozen=True):
    attachment: Attachment


class Notice(_Event, frozen=True):
    level: Level
    kind: str
    text: str


class UsageChanged(_Event, frozen=True):
    usage: Usage


class TurnEnded(_Event, frozen=True):
    outcome: Outcome
    answer: str = ""
    failure: Failure | None = None
    usage: Usage | None = None
    resume: ResumeToken | None = None


EngineEvent = (
    SessionStarted
    | SessionChanged
    | PromptAdded
    | TextDelta
    | TextSet
    | ThinkingDelta
    | ToolStarted
    | ToolUpdated
    | ToolFinished
    | Asked
    | AskChanged
    | PlanChanged
    | MediaProduced
    | Notice
    | UsageChanged
    | TurnEnded
)

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(EngineEvent)


def encode_event(event: EngineEvent) -> bytes:
    """Encode as one line of JSON. Text that cannot be stored is cleaned, so no engine output can break the log."""
    try:
        return _encoder.encode(event)
    except UnicodeEncodeError:
        return _encoder.encode(clean_values(msgspec.to_builtins(event)))


def clean_values(value: Any) -> Any:
    """Clean every text in a JSON value."""
    match value:
        case str():
            return clean_text(value)
        case dict():
            return {clean_values(key): clean_values(item) for key, item in value.items()}
        case list() | tuple():
            return [clean_values(item) for item in value]
        case _:
            return value


def decode_event(raw: bytes | str, schema: int = SCHEMA_VERSION) -> EngineEvent:
    """Decode the output of `encode_event`. Raises `PilothouseError` for anything else."""
    if schema > SCHEMA_VERSION:
        raise PilothouseError(
            f"event schema {schema} is newer than the {SCHEMA_VERSION} that this Pilothouse knows; upgrade it"
        )
    try:
        return _decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise PilothouseError(f"not an event of schema {schema}: {error}") from error


def has_side_effects(kind: ToolKind) -> bool:
    return kind not in HARMLESS_TOOLS


def merge_deltas(before: EngineEvent, event: EngineEvent) -> EngineEvent | None:
    """Merge two consecutive deltas of one block; None for other events."""
    match before, event:
        case TextDelta(block_id=a, parent_id=p), TextDelta(block_id=b, parent_id=q) if a == b and p == q:
            return TextDelta(a, before.text + event.text, p)
        case ThinkingDelta(), ThinkingDelta():
            return ThinkingDelta(before.text + event.text)
        case _:
            return None


NO_END = Failure("crash", "The engine stopped without finishing its turn.")
NO_REASON = Failure("crash", "The engine failed and did not say why.")


class Grammar:
    """The repair of one turn. Feed events in order, then call `end` once."""

    def __init__(self) -> None:
        self._started = False
        self._ended = False
        self._resume: ResumeToken | None = None
        self._open: dict[CallId, None] = {}
        self._closed: set[CallId] = set()
        self._asks: dict[AskId, AskState] = {}

    @property
    def ended(self) -> bool:
        return self._ended

    def feed(self, event: EngineEvent) -> list[EngineEvent]:
        if self._ended:
            return []
        match event:
            case SessionStarted():
                return self._start(event)
            case TurnEnded():
                return self._end(event)
            case Notice() if not self._started:
                return [event]
            case _:
                return [*self._ensure_started(), *self._step(event)]

    def end(self, failure: Failure | None = None) -> list[EngineEvent]:
        """Close the stream: nothing after a `TurnEnded`, else a failed one."""
        if self._ended:
            return []
        return self._end(TurnEnded("failed", failure=failure or NO_END, resume=self._resume))

    def _start(self, event: SessionStarted) -> list[EngineEvent]:
        if not self._started:
            self._started = True
            self._resume = event.resume
            return [event]
        if event.resume is None or event.resume == self._resume:
            return []
        self._resume = event.resume
        return [SessionChanged(event.resume)]

    def _ensure_started(self) -> list[EngineEvent]:
        if self._started:
            return []
        self._started = True
        return [SessionStarted()]

    def _step(self, event: EngineEvent) -> list[EngineEvent]:
        match event:
            case ToolStarted(call=call):
                return self._open_tool(event, call)
            case ToolUpdated(call_id=call_id):
                return [event] if call_id in self._open else []
            case ToolFinished(call_id=call_id):
                return self._close_tool(event, call_id)
            case Asked(ask=ask):
                if ask.id in self._asks:
                    return []
                self._asks[ask.id] = "open"
            case AskChanged(ask_id=ask_id, state=state):
                before = self._asks.get(ask_id)
                if before is None or state not in ASK_MOVES[before]:
                    return []
                self._asks[ask_id] = state
            case SessionChanged(resume=resume):
                self._resume = resume
        return [event]

    def _open_tool(self, event: ToolStarted, call: ToolCall) -> list[EngineEvent]:
        if call.id in self._closed:
            return []
        if call.id in self._open:
            return [ToolUpdated(call.id, title=call.title)]
        self._open[call.id] = None
        return [event]

    def _close_tool(self, event: ToolFinished, call_id: CallId) -> list[EngineEvent]:
        if call_id in self._closed:
            return []
        self._closed.add(call_id)
        if call_id in self._open:
            del self._open[call_id]
            return [event]
        return [ToolStarted(ToolCall(call_id, "tool", "tool")), event]

    def _end(self, event: TurnEnded) -> list[EngineEvent]:
        if event.outcome == "failed" and event.failure is None:
            event = msgspec.structs.replace(event, failure=NO_REASON)
        if event.outcome == "completed" and event.failure is not None:
            event = msgspec.structs.replace(event, failure=None)
        before = self._ensure_started() if event.outcome == "completed" else []
        dangling = [ToolFinished(call_id, ok=False) for call_id in self._open]
        self._open.clear()
        self._ended = True
        return [*before, *dangling, event]


def well_formed(events: Iterable[EngineEvent]) -> Iterator[EngineEvent]:
    """Repair a whole stream."""
    grammar = Grammar()
    for event in events:
        yield from grammar.feed(event)
    yield from grammar.end()
