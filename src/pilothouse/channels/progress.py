"""The progress of a turn: labels for its calls, its last steps as lines, its status line. Shared by every channel.

`ProgressMessages` notes which message shows the progress of which turn, so that an answer may replace it. It is kept in
memory only: after a restart the answer is a new message.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import PurePosixPath

from msgspec import Struct

from pilothouse.core.errors import Rejected
from pilothouse.core.event import ToolCall, ToolKind
from pilothouse.core.ids import CallId, TurnId
from pilothouse.core.message import DoneStep, MessageRef, Part, clean_text
from pilothouse.core.text import format_cost, format_duration
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
_PATH_KEYS = ("path", "file_path", "filePath", "notebook_path", "filename", "file")
_WRITES = ("write", "create", "add", "new")
_SUBJECT_KEYS = ("pattern", "query", "url", "description")
SUBJECT_CHARS = 80
_TITLE_PREFIX = re.compile(r"^\w+: ")
_FINDS = ("glob", "find", "list", "ls")


class Step(Struct, frozen=True):
    """`is_code`: the label is a literal command. `tail`: changed lines, or how long it has been running."""

    mark: str
    label: str
    depth: int = 0
    is_code: bool = False
    tail: str = ""


def last_steps(view: TurnView, now: float) -> Iterator[Step]:
    """Yields the last steps, oldest first, each sub-agent's below its own."""
    for action, depth in _tree(view):
        is_code = action.call.kind == "command" and bool(action.call.title.strip())
        label = one_line(action.call.title) if is_code else _label(action)
        yield Step(MARKS[action.ok], label, depth, is_code, _tail(action, now))


def done_lines(steps: Sequence[DoneStep], most: int) -> tuple[Sequence[Step], int]:
    """Return the steps to list below an answer, and how many more there were."""
    shown = [
        Step(MARKS[step.ok], one_line(label), is_code=step.is_command)
        for step in steps[:most]
        for label in [step.label if step.is_command else f"changed {step.label}"]
    ]
    return shown, len(steps) - len(shown)


def one_line(text: str, limit: int = LINE_CHARS) -> str:
    line = " ".join(clean_text(text).split())
    return line if len(line) <= limit else f"{line[: limit - 1].rstrip()}…"


def running_line(view: TurnView, now: float) -> str:
    """Describes a running turn: its state, the engine, the time and the number of steps."""
    engine = view.resume.engine if view.resume else ""
    took = format_duration(elapsed_s(view, now)) if view.started_at is not None else ""
    step = f"step {view.steps}" if view.steps else ""
    return " · ".join(filter(None, (_state(view, now), engine, took, step)))


def calm(view: TurnView, now: float) -> float:
    """Returns the time to show. While a turn waits for a person it moves in steps of `CALM_S`, to save edits."""
    if not view.asks or view.started_at is None:
        return now
    return now - max(0.0, now - view.started_at) % CALM_S


def plan_line(view: TurnView) -> str:
    """Describes the progress of the plan and its active item; empty if there is none."""
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
    """Lists actions with their depth, parents first: also a running parent that is no longer a recent action."""
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
    """Returns the title without the prefix for its kind."""
    return _PREFIX.sub("", call.title.strip(), count=1)


def _tail(action: Action, now: float) -> str:
    detail = action.call.detail
    counts = [f"{sign}{detail[key]}" for sign, key in (("+", "added"), ("−", "removed")) if key in detail]
    took = now - action.started_at
    if action.denied:
        counts.append("· denied")
    if action.ok is None and took >= SLOW_S:
        counts.append(f"· {format_duration(took)}")
    return " ".join(counts)


def activity_label(call: ToolCall) -> str:
    """Describes a tool call in a few words."""
    match call.kind:
        case "read":
            return f"Reading {short_path(path_of(call)) or 'a file…'}"
        case "file_change":
            return (
                f"{'Writing' if _says(call, _WRITES) else 'Editing'} {short_path(path_of(call)) or 'files…'}"
            )
        case "search":
            return "Finding files…" if _says(call, _FINDS) else "Searching content…"
        case "web":
            return (
                "Fetching URL…" if "url" in call.detail or _says(call, ("fetch",)) else "Searching the web…"
            )
        case "command":
            return "Running command…"
        case "subagent":
            return "Running subtask…"
        case _:
            return f"Running {' '.join(call.title.split())[:60] or 'a tool'}…"


def activity_text(call: ToolCall) -> str:
    """Adds to the label the command, search or address, if the label lacks it."""
    subject = " ".join(_subject(call).split())
    return f"{activity_label(call)} {subject[:SUBJECT_CHARS]}".rstrip()


def _subject(call: ToolCall) -> str:
    if call.kind == "command":
        return "" if call.title == "command" else call.title
    if call.kind not in ("search", "web", "subagent"):
        return ""
    if titled := _TITLE_PREFIX.match(call.title):
        return call.title[titled.end() :]
    return next((value for key in _SUBJECT_KEYS if isinstance(value := call.detail.get(key), str)), "")


def short_path(path: str) -> str:
    """Returns the last two parts of a path, short enough for a phone."""
    whole = PurePosixPath(path.replace("\\", "/"))
    short = f"…/{'/'.join(whole.parts[-2:])}"
    return short if len(whole.parts) > 2 and len(short) < len(str(whole)) else str(whole) if path else ""


def path_of(call: ToolCall) -> str:
    """Returns the path that a call reads or changes; empty if it names none."""
    named = next((value for key in _PATH_KEYS if isinstance(value := call.detail.get(key), str)), "")
    words = call.title.split()
    last = words[-1].strip("`'\"") if words else ""
    path = named or (last if "/" in last or "." in last.strip(".") else "")
    return " ".join(path.split())


def _says(call: ToolCall, words: tuple[str, ...]) -> bool:
    named = (call.detail.get("tool"), call.detail.get("name"), call.detail.get("change"), call.title)
    first = [text.split()[0].lower() for text in named if isinstance(text, str) and text.strip()]
    return any(text.startswith(words) for text in first)


def status_line(view: TurnView, now: float) -> str:
    """Describes a turn in one line: what it does now or, once it ended, its steps, time and cost."""
    took = format_duration(elapsed_s(view, now)) if view.started_at is not None else ""
    if view.phase == "ended":
        head = {"completed": "✓", "failed": "✗ failed", "cancelled": "■ stopped", None: "✗"}[view.outcome]
        return " · ".join(filter(None, (head, _steps(view), took, format_cost(view.usage)))).replace(
            "✓ · ", "✓ "
        )
    step = f"step {view.steps}" if view.steps else ""
    return " · ".join(filter(None, (_doing(view), took, step)))


def _doing(view: TurnView) -> str:
    if view.asks:
        return "Waiting for your answer"
    if view.open_actions:
        return activity_text(view.open_actions[-1].call)
    return "Writing…" if view.draft else "Thinking…"


def _steps(view: TurnView) -> str:
    return f"{view.steps} step{'' if view.steps == 1 else 's'}" if view.steps else ""


ANSWER_S = 5.0
"""Seconds that the progress message of an ended turn waits for its answer before it is deleted."""


class _Place:
    def __init__(self) -> None:
        import anyio

        self.settled = anyio.Event()
        self.is_answer = False


class ProgressMessages:
    def __init__(self) -> None:
        self._of_turn: dict[TurnId, MessageRef] = {}
        self._places: dict[MessageRef, _Place] = {}

    def put(self, turn_id: TurnId, ref: MessageRef) -> None:
        self._of_turn[turn_id] = ref
        self._places[ref] = _Place()

    async def replace(self, part: Part, edit: Callable[[MessageRef], Awaitable[bool]]) -> MessageRef | None:
        """Edit the answer into the turn's progress message, and return that; None if there is none, or it does not work.

        Then no later part may use it: that would be above the first."""
        if part.data.get("kind") != "answer" or part.again:
            return None
        turn_id, taken = TurnId(part.data.get("turn_id", "")), False
        ref = self._of_turn.get(turn_id)
        if ref is None:
            return None
        with suppress(Rejected):
            taken = await edit(ref)
        self._of_turn.pop(turn_id, None)
        if (place := self._places.get(ref)) is not None:
            place.is_answer = taken
            place.settled.set()
        return ref if taken else None

    def is_taken(self, ref: MessageRef) -> bool:
        return ref in self._places and self._places[ref].is_answer

    async def leave(self, ref: MessageRef) -> bool:
        """Waits for the answer, then forgets the message; returns true if it is to be deleted."""
        import anyio

        place = self._places.get(ref)
        if place is None:
            return True
        with anyio.move_on_after(ANSWER_S):
            await place.settled.wait()
        self._of_turn = {turn: other for turn, other in self._of_turn.items() if other != ref}
        self._places.pop(ref, None)
        return not place.is_answer
