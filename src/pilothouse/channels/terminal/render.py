"""How things look in a terminal: pure, from values to text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from pilothouse.channels.terminal.ink import Ink, fit, hang, wash
from pilothouse.channels.terminal.receive import choices
from pilothouse.channels.text import activity_label, status_line
from pilothouse.core.ask import Ask
from pilothouse.core.event import Notice, PlanItem
from pilothouse.core.message import Attachment, Content, Part, clean_text
from pilothouse.core.view import Action, TurnView

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
PAYLOAD_LINES = 20
NOTHING = "(no text)"
_MARKS = {"done": "✓", "active": "▸", "pending": "·"}


def render(content: Content) -> tuple[Part, ...]:
    """One part: a terminal has no limit. `data` says what it is, and carries an ask whole."""
    data: dict[str, Any] = {"kind": content.kind, "turn_id": content.turn_id or ""}
    text = clean_text(content.text)
    if content.reply_to:
        data["reply_to"] = content.reply_to
    if content.ask:
        data["ask"] = msgspec.json.decode(msgspec.json.encode(content.ask))
        text = text if text.strip() else clean_text(content.ask.title)
    if not text.strip() and not content.attachments:
        text = NOTHING
    return (Part(text, data, content.attachments),)


def bare(text: str) -> str:
    """A reply without its fences: what they keep in columns stays in columns as plain text."""
    return "\n".join(line for line in wash(text).strip("\n").split("\n") if not line.startswith("```"))


def spinner(now: float) -> str:
    return SPINNER[int(now * 10) % len(SPINNER)]


def activity_line(view: TurnView, now: float, width: int) -> str:
    return fit(f"{spinner(now)} {status_line(view, now)}", width - 1)


def closing_line(view: TurnView, at: float, ink: Ink) -> str:
    line = status_line(view, at)
    if view.outcome == "completed":
        return ink.green(line[:1]) + ink.dim(line[1:])
    return ink.red(line) if view.outcome == "failed" else ink.dim(line)


def notice_line(notice: Notice, ink: Ink, width: int) -> str:
    paint = {"info": ink.dim, "warning": ink.yellow, "error": ink.red}[notice.level]
    return paint(hang(notice.text, width))


def step_line(action: Action, ink: Ink, width: int) -> str:
    """What stays on the screen of a step: a changed file, or something that did not work. Else nothing."""
    if action.ok is False:
        what = action.call.title if action.call.kind == "command" else activity_label(action.call).rstrip("…")
        return ink.red("  ✗ ") + ink.dim(f"{fit(what, width - 11)} failed")
    if action.call.kind == "file_change":
        done = activity_label(action.call).replace("Writing", "Wrote", 1).replace("Editing", "Edited", 1)
        return ink.dim(f"  ± {fit(done.rstrip('…'), width - 4)}{_counts(action.call.detail)}")
    return ""


def _counts(detail: dict[str, Any]) -> str:
    counts = [f"{sign}{detail[key]}" for sign, key in (("+", "added"), ("−", "removed")) if key in detail]
    return f"  {' '.join(counts)}" if counts else ""


def plan_lines(before: Sequence[PlanItem], after: Sequence[PlanItem], ink: Ink, width: int) -> str:
    """The whole plan when it is new, and afterwards only what moved."""
    known = {item.text: item.status for item in before}
    changed = [item for item in after if known.get(item.text) != item.status]
    lines = (f"  {_MARKS[item.status]} {fit(item.text, width - 4)}" for item in changed)
    return "\n".join(map(ink.dim, lines))


def ask_text(ask: Ask, ink: Ink, width: int, *, enter: bool = False) -> str:
    """The whole question, exactly what is asked, and the keys that answer it, with `enter` or at once."""
    title = hang(ask.title, width)[2:]
    lines = [ink.yellow("? ") + ink.bold(title), *_payload(ask, ink)]
    found = choices(ask)
    if ask.options and ask.kind != "approval":
        lines += [f"  {ink.bold(choice.key)} {fit(choice.label, width - 4)}" for choice in found]
    elif found:
        lines.append("  " + ink.dim(" · ").join(f"{ink.bold(c.key)} {ink.dim(c.label)}" for c in found))
    if ask.free_text or not found:
        lines.append(ink.dim("  Type your answer, then Enter." if enter else "  Type your answer."))
    elif enter:
        lines.append(ink.dim("  Type one of these, then Enter."))
    return "\n".join(lines)


def _payload(ask: Ask, ink: Ink) -> Iterable[str]:
    """What is asked, value by value; nothing if that is only what the title says."""
    if ask.payload.items() <= {"kind": ask.kind, "title": ask.title}.items():
        return
    for key, value in ask.payload.items():
        words = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        lines = wash(words).split("\n")
        yield f"  {ink.dim(f'{wash(key)}:')} {lines[0]}"
        yield from (f"    {line}" for line in lines[1:PAYLOAD_LINES])
        if len(lines) > PAYLOAD_LINES:
            yield ink.yellow(f"    … and {len(lines) - PAYLOAD_LINES} more lines that are not shown here")


def attachment_line(attachment: Attachment, ink: Ink, width: int) -> str:
    size = f"{attachment.size} B" if attachment.size < 1000 else f"{attachment.size / 1000:.0f} kB"
    return ink.dim("  " + fit(f"+ {attachment.name} ({attachment.media_type}, {size})", width - 2))
