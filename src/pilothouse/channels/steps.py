"""Steps of a turn in words: a calm mark, what is done to what, and who does it where a sub-agent does.

Shared by every channel that shows the last steps as lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from pilothouse.channels.text import activity_label, format_duration
from pilothouse.core.event import ToolCall, ToolKind
from pilothouse.core.ids import CallId
from pilothouse.core.message import clean_text
from pilothouse.core.view import Action, TurnView, elapsed_s, shown

LINE_CHARS = 60
MAX_DEPTH = 3
SLOW_S = 10.0
CALM_S = 20.0
MARKS: dict[bool | None, str] = {None: "▸", True: "✓", False: "✗"}
_VERBS: dict[ToolKind, tuple[str, str]] = {
    "search": ("Searching", "Searched"),
    "web": ("Looking up", "Looked up"),
    "subagent": ("Sub-agent:", "Sub-agent:"),
    "tool": ("Using", "Used"),
    "note": ("Noting", "Noted"),
}
_PREFIX = re.compile(r"^[a-z]+: ?")
_PAST = {"Reading": "Read", "Editing": "Edited", "Writing": "Wrote"}


class Step(Struct, frozen=True):
    """`is_code` if the label is a command, letter by letter; `tail` is what it changed, or how long it takes."""

    mark: str
    label: str
    depth: int = 0
    is_code: bool = False
    tail: str = ""


def last_steps(view: TurnView, now: float, *, commands: bool) -> Iterator[Step]:
    """The last steps, oldest first, each sub-agent's below its own."""
    for action, depth in _tree(view):
        is_code = commands and action.call.kind == "command" and bool(action.call.title.strip())
        label = one_line(action.call.title) if is_code else _label(action)
        yield Step(MARKS[action.ok], label, depth, is_code, _tail(action, now))


def one_line(text: str, limit: int = LINE_CHARS) -> str:
    line = " ".join(clean_text(text).split())
    return line if len(line) <= limit else f"{line[: limit - 1].rstrip()}…"


def running_line(view: TurnView, now: float) -> str:
    """What a turn that runs is doing: the state, the engine, for how long, and how far it is."""
    engine = view.resume.engine if view.resume else ""
    took = format_duration(elapsed_s(view, now)) if view.started_at is not None else ""
    step = f"step {view.steps}" if view.steps else ""
    return " · ".join(filter(None, (_state(view, now), engine, took, step)))


def calm(view: TurnView, now: float) -> float:
    """The moment to show. While a turn waits for a person only the clock moves, and then it moves in steps: nobody is rung
    up, and no limit used up, for each second that they take."""
    if not view.asks or view.started_at is None:
        return now
    return now - max(0.0, now - view.started_at) % CALM_S


def plan_line(view: TurnView) -> str:
    """How far the plan is, and what it is at; empty if there is none."""
    if not view.plan:
        return ""
    done = sum(item.status == "done" for item in view.plan)
    active = next((one_line(item.text) for item in view.plan if item.status == "active"), "")
    return " · ".join(filter(None, (f"Plan {done}/{len(view.plan)}", active)))


def _state(view: TurnView, now: float) -> str:
    if view.asks:
        return "Waiting for your answer"
    if view.open_actions:
        return "Working"
    return "Writing" if shown(view, now).text else "Thinking"


def _tree(view: TurnView) -> Sequence[tuple[Action, int]]:
    """Parents before what they started, which may have slipped out of the recent ones while they still run."""
    shown = {action.id: action for action in view.recent_actions}
    older = {action.id: action for action in view.open_actions if action.id not in shown}
    known = {**older, **shown}
    for action in view.recent_actions:
        above = action.call.parent_id
        while above in known and above not in shown:
            shown[above] = known[above]
            above = known[above].call.parent_id
    order = {id: number for number, id in enumerate(known)}
    children: dict[CallId | None, list[Action]] = {}
    for action in sorted(shown.values(), key=lambda action: order[action.id]):
        parent = action.call.parent_id
        children.setdefault(parent if parent in shown and parent != action.id else None, []).append(action)
    found: list[tuple[Action, int]] = []
    waiting = [(action, 0) for action in reversed(children.get(None, []))]
    while waiting:
        action, depth = waiting.pop()
        found.append((action, min(depth, MAX_DEPTH)))
        waiting += [(child, depth + 1) for child in reversed(children.pop(action.id, []))]
    return found


def _label(action: Action) -> str:
    call, done = action.call, action.ok is not None
    if call.kind == "command":
        return "a command"
    if call.kind in ("read", "file_change"):
        label = activity_label(call).removesuffix("…").strip()
        verb, _, rest = label.partition(" ")
        return one_line(f"{_PAST.get(verb, verb) if done else verb} {rest}")
    verb = _VERBS[call.kind][done]
    return one_line(f"{verb} {_object(call)}".strip())


def _object(call: ToolCall) -> str:
    """What a title says without the word for the kind of thing that it is."""
    return _PREFIX.sub("", call.title.strip(), count=1)


def _tail(action: Action, now: float) -> str:
    detail = action.call.detail
    counts = [f"{sign}{detail[key]}" for sign, key in (("+", "added"), ("−", "removed")) if key in detail]
    took = now - action.started_at
    if action.ok is None and took >= SLOW_S:
        counts.append(f"· {format_duration(took)}")
    return " ".join(counts)
