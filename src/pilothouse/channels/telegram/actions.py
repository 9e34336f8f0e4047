"""Steps of a turn as lines: a calm mark, what is done to what, and who does it where a sub-agent does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pilothouse.channels.telegram.blocks import Span, Spans, words
from pilothouse.channels.text import activity_label, format_duration
from pilothouse.core.event import ToolCall, ToolKind
from pilothouse.core.ids import CallId
from pilothouse.core.message import clean_text
from pilothouse.core.view import Action, TurnView

LINE_CHARS = 60
MAX_DEPTH = 3
SLOW_S = 10.0
STEP = "\N{EM SPACE}"
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


def action_lines(view: TurnView, now: float, *, commands: bool) -> Iterator[Spans]:
    """The last steps, oldest first, each sub-agent's below its own."""
    for action, depth in _tree(view):
        yield (
            Span(STEP * depth + MARKS[action.ok] + " "),
            *_label(action, commands=commands),
            *_tail(action, now),
        )


def one_line(text: str, limit: int = LINE_CHARS) -> str:
    line = " ".join(clean_text(text).split())
    return line if len(line) <= limit else f"{line[: limit - 1].rstrip()}…"


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


def _label(action: Action, *, commands: bool) -> Spans:
    call, done = action.call, action.ok is not None
    if call.kind == "command":
        return words(one_line(call.title), "code") if commands and call.title.strip() else words("a command")
    if call.kind in ("read", "file_change"):
        label = activity_label(call).removesuffix("…").strip()
        verb, _, rest = label.partition(" ")
        return words(one_line(f"{_PAST.get(verb, verb) if done else verb} {rest}"))
    verb = _VERBS[call.kind][done]
    return words(one_line(f"{verb} {_object(call)}".strip()))


def _object(call: ToolCall) -> str:
    """What a title says without the word for the kind of thing that it is."""
    return _PREFIX.sub("", call.title.strip(), count=1)


def _tail(action: Action, now: float) -> Spans:
    detail = action.call.detail
    counts = [f"{sign}{detail[key]}" for sign, key in (("+", "added"), ("−", "removed")) if key in detail]
    took = now - action.started_at
    if action.ok is None and took >= SLOW_S:
        counts.append(f"· {format_duration(took)}")
    return words(" " + " ".join(counts)) if counts else ()
