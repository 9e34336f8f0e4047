"""Renders values as terminal text. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from pilothouse.channels.progress import activity_label, activity_text, path_of, status_line
from pilothouse.channels.terminal.style import Palette, cells, fit, indent, relative_path, sanitize
from pilothouse.core.event import HARMLESS_TOOLS, Notice, PlanItem, ToolCall
from pilothouse.core.message import Attachment, Content, Part, clean_text
from pilothouse.core.text import file_size, reveal_hidden
from pilothouse.core.view import Action, TurnView

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
NOTHING = "(no text)"
_PAST = {"Reading": "Read", "Editing": "Edited", "Writing": "Wrote"}
_MARKS = {"done": "✓", "active": "▸", "pending": "·"}


def render(content: Content) -> tuple[Part, ...]:
    """Returns one part: a terminal has no limit. `data` has its kind, and an ask in full."""
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
    """Returns a reply without its fences; columns in them stay aligned in plain text."""
    return "\n".join(line for line in sanitize(text).strip("\n").split("\n") if not line.startswith("```"))


def spinner(now: float) -> str:
    return SPINNER[int(now * 10) % len(SPINNER)]


def activity_line(view: TurnView, now: float, width: int) -> str:
    return fit(f"{spinner(now)} {status_line(view, now)}", width - 1)


def tail_line(text: str, now: float, width: int) -> str:
    """Renders the last words of an answer that is being written, for a screen with one live line."""
    words, line = text.split(), ""
    while words and cells(f"{words[-1]} {line}") < width - 4:
        line = f"{words.pop()} {line}"
    return fit(f"{spinner(now)} {'…' if words else ''}{line}", width - 1)


def closing_line(view: TurnView, at: float, palette: Palette) -> str:
    line = status_line(view, at)
    if view.outcome == "completed":
        return palette.green(line[:1]) + palette.dim(line[1:])
    return palette.red(line) if view.outcome == "failed" else palette.dim(line)


def notice_line(notice: Notice, palette: Palette, width: int) -> str:
    paint = {"info": palette.dim, "warning": palette.yellow, "error": palette.red}[notice.level]
    return paint(indent(notice.text, width))


def step_line(action: Action, ok: bool, folder: str, palette: Palette, width: int) -> str:
    """Renders a command that ran, a changed file or any failed step; empty for a step that only looked."""
    call, depth = action.call, "    " if action.call.parent_id else "  "
    what = _step_name(call, folder)
    if not ok:
        return f"{depth}{palette.red('✗')} {palette.dim(f'{fit(what, width - 13)} failed')}"
    if call.kind in HARMLESS_TOOLS:
        return ""
    mark = {"command": "$", "file_change": "±"}.get(call.kind, "·")
    return palette.dim(f"{depth}{mark} {fit(what, width - 6 - cells(tail := _counts(call.detail)))}{tail}")


def _step_name(call: ToolCall, folder: str) -> str:
    path = path_of(call)
    match call.kind:
        case "command":
            return reveal_hidden(call.title)
        case "file_change" | "read" if path:
            verb = activity_label(call).partition(" ")[0]
            return f"{_PAST.get(verb, verb)} {relative_path(path, folder)}"
        case _:
            return activity_text(call).replace("… ", " ").removesuffix("…")


def _counts(detail: dict[str, Any]) -> str:
    counts = [f"{sign}{detail[key]}" for sign, key in (("+", "added"), ("−", "removed")) if key in detail]
    return f"  {' '.join(counts)}" if counts else ""


def plan_lines(before: Sequence[PlanItem], after: Sequence[PlanItem], palette: Palette, width: int) -> str:
    """Renders a new plan in full, later only the items that changed."""
    known = {item.text: item.status for item in before}
    changed = [item for item in after if known.get(item.text) != item.status]
    lines = (f"  {_MARKS[item.status]} {fit(item.text, width - 4)}" for item in changed)
    return "\n".join(map(palette.dim, lines))


def attachment_line(attachment: Attachment, palette: Palette, width: int) -> str:
    size = file_size(attachment.size)
    return palette.dim("  " + fit(f"+ {attachment.name} ({attachment.media_type}, {size})", width - 2))
