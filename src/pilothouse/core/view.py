"""The view of a turn: all that a channel may show of it. Only `fold` changes a view, by one event.

Text that is followed by a tool was narration and gives way to the activity line; text that nothing follows is the
answer. `shown` decides between the two from the times in the view alone:

    state       a text arrives         a tool starts          the tools end        0.8 s / 0.5 s pass
    idle        buffer it              show the activity      -                    -
    buffering   append                 drop it, activity      -                    show it: streaming
    tool        append, keep activity  show the new activity  drop it, buffering   -
    streaming   append, show it        drop it, activity      -                    -
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec
from msgspec import Struct, field

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
from pilothouse.core.ids import CallId, TurnId
from pilothouse.core.message import Attachment
from pilothouse.core.outcome import Failure

FIRST_TEXT_AFTER_S = 0.8
TEXT_AFTER_TOOL_S = 0.5
RECENT_ACTIONS = 5
RECENT_NOTICES = 20
THINKING_TAIL = 200

Phase = Literal["idle", "buffering", "tool", "ended"]


class Action(Struct, frozen=True, omit_defaults=True):
    """A tool call for display; `ok` is None while it runs."""

    id: CallId
    call: ToolCall
    started_at: float
    ok: bool | None = None
    denied: str = ""
    """Why it was not run, if a rule denied it."""


class Block(Struct, frozen=True):
    """One block of text. The part after `cut` belongs to the view's draft number `draft`."""

    id: str
    text: str
    draft: int = 0
    cut: int = 0


class TurnView(Struct, frozen=True):
    """`draft` is the text since the last tool; `blocks` is all top-level text, which is the answer so far."""

    phase: Phase = "idle"
    started_at: float | None = None
    ended_at: float | None = None
    model: str = ""
    resume: ResumeToken | None = None
    prompts: int = 0
    blocks: Mapping[str, Block] = field(default_factory=dict)
    """By id, in the order in which they began."""
    drafts: int = 0
    """Number of drafts dropped so far. A block with this number is in the current draft."""
    draft_at: float | None = None
    """Arrival of the draft's first visible text; None while there is none."""
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
    turn_id: TurnId | None = None
    """The turn, if known: a stop button must never stop another turn."""

    @property
    def text(self) -> str:
        return join_blocks(block.text for block in self.blocks.values())

    @property
    def draft(self) -> str:
        return join_blocks(
            block.text[block.cut :] for block in self.blocks.values() if block.draft == self.drafts
        )

    @property
    def activity(self) -> Action | None:
        """The newest running tool call, or between calls the newest finished one."""
        if self.open_actions:
            return self.open_actions[-1]
        return self.recent_actions[-1] if self.recent_actions else None


class Shown(Struct, frozen=True):
    """The visible part of a live view: the draft or, if that is empty, the activity."""

    text: str
    activity: Action | None


def elapsed_s(view: TurnView, now: float) -> float:
    """Duration of the turn so far; never negative, even if the wall clock was set back."""
    if view.started_at is None:
        return 0.0
    return max(0.0, (now if view.ended_at is None else view.ended_at) - view.started_at)


def shown(view: TurnView, now: float) -> Shown:
    if view.phase == "ended":
        return Shown(view.answer, None)
    if view.phase == "tool" or view.draft_at is None or now - view.draft_at < view.hold_s:
        return Shown("", view.activity)
    return Shown(view.draft, None)


def fold(view: TurnView, event: EngineEvent, at: float) -> TurnView:
    """Return the view after `event`, which happened at `at`."""
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
        case ToolFinished(call_id=call_id, ok=ok, denied=why):
            return _close(view, call_id, ok, why)
        case Asked(ask=ask):
            return change(view, asks=(*view.asks, ask))
        case AskChanged(ask_id=ask_id):
            return change(view, asks=tuple(ask for ask in view.asks if ask.id != ask_id))
        case PlanChanged(items=items):
            return change(view, plan=items)
        case MediaProduced(attachment=attachment):
            return change(view, attachments=(*view.attachments, attachment))
        case Notice():
            return change(view, notices=(*view.notices, event)[-RECENT_NOTICES:])
        case UsageChanged(usage=usage):
            return change(view, usage=usage)
        case TurnEnded():
            return _end(view, event, at)
        case _:
            return view


def join_blocks(texts: Iterable[str]) -> str:
    """Join the blocks of an answer into one text."""
    return "\n\n".join(text.strip("\n") for text in texts if text.strip())


def _add_text(view: TurnView, block_id: str, text: str, at: float) -> TurnView:
    if not text:
        return view
    old = view.blocks.get(block_id, Block(block_id, "", view.drafts))
    cut = old.cut if old.draft == view.drafts else len(old.text)
    new = Block(block_id, old.text + text, view.drafts, cut)
    begins = view.draft_at is None and text.strip() != ""
    return msgspec.structs.replace(
        view,
        phase="buffering" if view.phase == "idle" and begins else view.phase,
        blocks={**view.blocks, block_id: new},
        draft_at=at if begins else view.draft_at,
    )


def _set_text(view: TurnView, block_id: str, text: str, at: float) -> TurnView:
    """Set a block's text. A text that extends the old one counts as added; any other corrects it and starts no draft."""
    old = view.blocks.get(block_id)
    if old is None or text.startswith(old.text):
        return _add_text(view, block_id, text[len(old.text) :] if old else text, at)
    new = msgspec.structs.replace(old, text=text, cut=min(old.cut, len(text)))
    blocks = {**view.blocks, block_id: new}
    if not text:
        del blocks[block_id]
    view = msgspec.structs.replace(view, blocks=blocks)
    first_at = at if view.draft_at is None else view.draft_at
    return msgspec.structs.replace(view, draft_at=first_at if view.draft else None)


def _open(view: TurnView, action: Action) -> TurnView:
    return msgspec.structs.replace(
        view,
        phase="tool",
        drafts=view.drafts + 1,
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


def _close(view: TurnView, call_id: CallId, ok: bool, denied: str) -> TurnView:
    still_open = tuple(action for action in view.open_actions if action.id != call_id)
    if len(still_open) == len(view.open_actions):
        return view
    recent = tuple(
        msgspec.structs.replace(action, ok=ok, denied=denied) if action.id == call_id else action
        for action in view.recent_actions
    )
    if still_open:
        return msgspec.structs.replace(view, open_actions=still_open, recent_actions=recent)
    return msgspec.structs.replace(
        view,
        phase="buffering",
        drafts=view.drafts + 1,
        draft_at=None,
        hold_s=TEXT_AFTER_TOOL_S,
        open_actions=(),
        recent_actions=recent,
    )


def _end(view: TurnView, event: TurnEnded, at: float) -> TurnView:
    return msgspec.structs.replace(
        view,
        phase="ended",
        ended_at=at,
        open_actions=(),
        asks=(),
        usage=event.usage or view.usage,
        resume=event.resume or view.resume,
        outcome=event.outcome,
        answer=event.answer or (view.text if event.outcome == "completed" else ""),
        failure=event.failure,
    )
