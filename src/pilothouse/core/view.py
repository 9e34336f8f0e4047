"""All that a channel may show of a turn: `fold` takes one event further, and nothing else changes a view.

What streams is tool-aware. Text that is followed by a tool was narration and gives way to the activity line; text
that nothing follows is the answer. `shown` decides between the two from the times in the view alone:

    state       a text arrives         a tool starts          the tools end        0.8 s / 0.5 s pass
    idle        buffer it              show the activity      -                    -
    buffering   append                 drop it, activity      -                    show it: streaming
    tool        append, keep activity  show the new activity  drop it, buffering   -
    streaming   append, show it        drop it, activity      -                    -
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Struct

from pilothouse.core.ask import Ask
from pilothouse.core.event import (
    AskChanged,
    Asked,
    EngineEvent,
    MediaProduced,
    Notice,
    Outcome,
    PlanChanged,
    PlanItem,
    PromptAdded,
    ResumeToken,
    SessionChanged,
    SessionStarted,
    TextDelta,
    TextSet,
    ThinkingDelta,
    ToolCall,
    ToolFinished,
    ToolStarted,
    ToolUpdated,
    TurnEnded,
    Usage,
    UsageChanged,
)
from pilothouse.core.failure import Failure
from pilothouse.core.ids import CallId
from pilothouse.core.message import Attachment

FIRST_TEXT_AFTER_S = 0.8
TEXT_AFTER_TOOL_S = 0.5
RECENT_ACTIONS = 5
THINKING_TAIL = 200

Phase = Literal["idle", "buffering", "tool", "ended"]


class Action(Struct, frozen=True):
    """A tool call as people see it: `ok` is None while it runs."""

    id: CallId
    call: ToolCall
    started_at: float
    ok: bool | None = None


class Block(Struct, frozen=True):
    id: str
    text: str


class TurnView(Struct, frozen=True):
    """`draft` is the text since the last tool; `blocks` is all top-level text, which is the answer so far."""

    phase: Phase = "idle"
    started_at: float | None = None
    model: str = ""
    resume: ResumeToken | None = None
    prompts: int = 0
    blocks: tuple[Block, ...] = ()
    draft_ids: tuple[str, ...] = ()
    draft_at: float | None = None
    hold_s: float = FIRST_TEXT_AFTER_S
    thinking: str = ""
    open_actions: tuple[Action, ...] = ()
    recent_actions: tuple[Action, ...] = ()
    steps: int = 0
    plan: tuple[PlanItem, ...] = ()
    asks: tuple[Ask, ...] = ()
    notices: tuple[Notice, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    usage: Usage | None = None
    outcome: Outcome | None = None
    answer: str = ""
    failure: Failure | None = None

    @property
    def text(self) -> str:
        return "\n\n".join(block.text.strip("\n") for block in self.blocks if block.text.strip())

    @property
    def draft(self) -> str:
        wanted = set(self.draft_ids)
        return "\n\n".join(b.text.strip("\n") for b in self.blocks if b.id in wanted and b.text.strip())

    @property
    def activity(self) -> Action | None:
        """The newest thing that runs, or, between tools, the newest that ran."""
        if self.open_actions:
            return self.open_actions[-1]
        return self.recent_actions[-1] if self.recent_actions else None


class Shown(Struct, frozen=True):
    """What a live view shows now: the draft, or, where it is empty, the activity."""

    text: str
    activity: Action | None


def shown(view: TurnView, now: float) -> Shown:
    held = view.draft_at is None or now - view.draft_at < view.hold_s
    if view.phase == "ended":
        return Shown(view.answer, None)
    if view.phase == "tool" or (view.phase == "buffering" and held):
        return Shown("", view.activity)
    return Shown(view.draft, view.activity if not view.draft else None)


def fold(view: TurnView, event: EngineEvent, at: float) -> TurnView:
    """The view after `event`, which happened at `at`."""
    change = msgspec.structs.replace
    match event:
        case SessionStarted(resume=resume, model=model):
            return change(view, started_at=at, model=model, resume=resume)
        case SessionChanged(resume=resume):
            return change(view, resume=resume)
        case PromptAdded():
            return change(view, prompts=view.prompts + 1)
        case TextDelta(block_id=block_id, text=text, parent_id=None):
            return _add_text(view, block_id, text, at)
        case TextSet(block_id=block_id, text=text, parent_id=None):
            return _set_text(view, block_id, text, at)
        case ThinkingDelta(text=text):
            return change(view, thinking=(view.thinking + text)[-THINKING_TAIL:])
        case ToolStarted(call=call):
            return _open(view, Action(call.id, call, at))
        case ToolUpdated(call_id=call_id, title=title) if title is not None:
            return _retitle(view, call_id, title)
        case ToolFinished(call_id=call_id, ok=ok):
            return _close(view, call_id, ok)
        case Asked(ask=ask):
            return change(view, asks=(*view.asks, ask))
        case AskChanged(ask_id=ask_id):
            return change(view, asks=tuple(ask for ask in view.asks if ask.id != ask_id))
        case PlanChanged(items=items):
            return change(view, plan=items)
        case MediaProduced(attachment=attachment):
            return change(view, attachments=(*view.attachments, attachment))
        case Notice():
            return change(view, notices=(*view.notices, event))
        case UsageChanged(usage=usage):
            return change(view, usage=usage)
        case TurnEnded():
            return _end(view, event)
        case _:
            return view


def _add_text(view: TurnView, block_id: str, text: str, at: float) -> TurnView:
    if view.blocks and view.blocks[-1].id == block_id:
        last = view.blocks[-1]
        return _with_blocks(view, (*view.blocks[:-1], Block(block_id, last.text + text)), block_id, at)
    before = next((b.text for b in view.blocks if b.id == block_id), None)
    return _set_text(view, block_id, (before or "") + text, at)


def _set_text(view: TurnView, block_id: str, text: str, at: float) -> TurnView:
    if any(b.id == block_id for b in view.blocks):
        blocks = tuple(Block(block_id, text) if b.id == block_id else b for b in view.blocks)
    else:
        blocks = (*view.blocks, Block(block_id, text))
    return _with_blocks(view, tuple(b for b in blocks if b.text), block_id, at)


def _with_blocks(view: TurnView, blocks: tuple[Block, ...], block_id: str, at: float) -> TurnView:
    known = block_id in view.draft_ids
    return msgspec.structs.replace(
        view,
        phase="buffering" if view.phase == "idle" else view.phase,
        blocks=blocks,
        draft_ids=view.draft_ids if known else (*view.draft_ids, block_id),
        draft_at=at if view.draft_at is None else view.draft_at,
    )


def _open(view: TurnView, action: Action) -> TurnView:
    return msgspec.structs.replace(
        view,
        phase="tool",
        draft_ids=(),
        draft_at=None,
        steps=view.steps + 1,
        open_actions=(*view.open_actions, action),
        recent_actions=(*view.recent_actions, action)[-RECENT_ACTIONS:],
    )


def _retitle(view: TurnView, call_id: CallId, title: str) -> TurnView:
    def again(action: Action) -> Action:
        if action.id != call_id:
            return action
        return msgspec.structs.replace(action, call=msgspec.structs.replace(action.call, title=title))

    return msgspec.structs.replace(
        view,
        open_actions=tuple(map(again, view.open_actions)),
        recent_actions=tuple(map(again, view.recent_actions)),
    )


def _close(view: TurnView, call_id: CallId, ok: bool) -> TurnView:
    still_open = tuple(action for action in view.open_actions if action.id != call_id)
    recent = tuple(
        msgspec.structs.replace(action, ok=ok) if action.id == call_id else action
        for action in view.recent_actions
    )
    if still_open:
        return msgspec.structs.replace(view, open_actions=still_open, recent_actions=recent)
    return msgspec.structs.replace(
        view,
        phase="buffering",
        draft_ids=(),
        draft_at=None,
        hold_s=TEXT_AFTER_TOOL_S,
        open_actions=(),
        recent_actions=recent,
    )


def _end(view: TurnView, event: TurnEnded) -> TurnView:
    return msgspec.structs.replace(
        view,
        phase="ended",
        open_actions=(),
        asks=(),
        usage=event.usage or view.usage,
        resume=event.resume or view.resume,
        outcome=event.outcome,
        answer=event.answer or (view.text if event.outcome == "completed" else ""),
        failure=event.failure,
    )
