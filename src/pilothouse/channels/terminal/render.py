"""Renders values as terminal text. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from pilothouse.channels.steps import activity_label, status_line
from pilothouse.channels.terminal.receive import ENTER_KEEPS, Choice, choices, chosen, explain_key
from pilothouse.channels.terminal.style import Palette, cells, fit, fold_line, indent, sanitize
from pilothouse.core.ask import Ask
from pilothouse.core.ask_view import AskLine, ask_lines
from pilothouse.core.event import Notice, PlanItem
from pilothouse.core.message import Attachment, Content, Part, clean_text
from pilothouse.core.text import file_size
from pilothouse.core.view import Action, TurnView

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
NOTHING = "(no text)"
WITH_ENTER = "with Enter: "
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


def closing_line(view: TurnView, at: float, palette: Palette) -> str:
    line = status_line(view, at)
    if view.outcome == "completed":
        return palette.green(line[:1]) + palette.dim(line[1:])
    return palette.red(line) if view.outcome == "failed" else palette.dim(line)


def notice_line(notice: Notice, palette: Palette, width: int) -> str:
    paint = {"info": palette.dim, "warning": palette.yellow, "error": palette.red}[notice.level]
    return paint(indent(notice.text, width))


def step_line(action: Action, palette: Palette, width: int) -> str:
    """Renders a changed file or a failed step; empty for any other step."""
    if action.ok is False:
        what = action.call.title if action.call.kind == "command" else activity_label(action.call).rstrip("…")
        return palette.red("  ✗ ") + palette.dim(f"{fit(what, width - 11)} failed")
    if action.call.kind == "file_change":
        done = activity_label(action.call).replace("Writing", "Wrote", 1).replace("Editing", "Edited", 1)
        return palette.dim(f"  ± {fit(done.rstrip('…'), width - 4)}{_counts(action.call.detail)}")
    return ""


def _counts(detail: dict[str, Any]) -> str:
    counts = [f"{sign}{detail[key]}" for sign, key in (("+", "added"), ("−", "removed")) if key in detail]
    return f"  {' '.join(counts)}" if counts else ""


def plan_lines(before: Sequence[PlanItem], after: Sequence[PlanItem], palette: Palette, width: int) -> str:
    """Renders a new plan in full, later only the items that changed."""
    known = {item.text: item.status for item in before}
    changed = [item for item in after if known.get(item.text) != item.status]
    lines = (f"  {_MARKS[item.status]} {fit(item.text, width - 4)}" for item in changed)
    return "\n".join(map(palette.dim, lines))


def ask_text(ask: Ask, palette: Palette, width: int, *, enter: bool = False) -> str:
    """Renders the question, exactly what is asked, and the keys that answer it, with `enter` or at once."""
    title = indent(ask.title, width)[2:]
    lines = [palette.yellow("? ") + palette.bold(title), *ask_body(ask_lines(ask), palette, width)]
    found = choices(ask)
    for choice in (choice for choice in found if choice.rule):
        key = choice.key if enter else f"{choice.key} Enter"
        lines += _keyed(key, f"{choice.label}: {choice.rule}", palette, width)
    plain = [choice for choice in found if not choice.rule]
    if enter:
        lines += _key_rows(plain, palette, width)
    else:
        lines += _key_rows([choice for choice in plain if choice.at_once], palette, width)
        lines += _key_rows([choice for choice in plain if not choice.at_once], palette, width, WITH_ENTER)
    for number, option in enumerate(ask.options, 1):
        lines += _keyed(str(number), option.label, palette, width)
    return "\n".join([*lines, *filter(None, [_how(ask, palette, enter=enter)])])


def keep_warning(ask: Ask, typed: str, width: int) -> str:
    """Shows the exact rule that Enter would keep after `typed`; empty if none."""
    choice = chosen(ask, typed)
    if choice is None or not choice.rule:
        return ""
    first, *rest = fold_line(sanitize(f"{choice.label}: {choice.rule}"), width - 2)
    return "\n".join([f"  {first}", *(f"    {more}" for more in rest), indent(ENTER_KEEPS, width)])


def ask_help(ask: Ask, palette: Palette, width: int) -> str:
    """Lists what each key does."""
    found = choices(ask)
    if not found:
        return palette.dim(indent("Type the number of an option, or an answer in words, then Enter.", width))
    rows = (textwrap.wrap(explain_key(ask, choice), width - 5) for choice in found)
    lines = (
        "\n".join(
            [
                f"  {palette.bold(choice.key)}  {palette.dim(first)}",
                *(f"     {palette.dim(more)}" for more in rest),
            ]
        )
        for choice, (first, *rest) in zip(found, rows, strict=True)
    )
    return "\n".join(lines)


def _how(ask: Ask, palette: Palette, *, enter: bool) -> str:
    """Says what to type if the keys do not."""
    if ask.many and ask.options:
        words = ", or your own words" if ask.free_text else ""
        return palette.dim(f"  Type one or several, as in 1,3{words}; then Enter.")
    if ask.free_text or not (choices(ask) or ask.options):
        return palette.dim("  Type your answer, then Enter." if enter else "  Type your answer.")
    if enter or len(ask.options) > 9:
        return palette.dim("  Type one of these, then Enter.")
    return ""


def ask_body(found: Iterable[AskLine], palette: Palette, width: int) -> Iterator[str]:
    """Wraps and never cuts: the person who answers must see all of it."""
    for line in found:
        name = f"{sanitize(line.name)}: " if line.name else "" if line.sort == "diff" else "  "
        paint = _paint(line, palette)
        first, *rest = fold_line(name + sanitize(line.text), width - 2)
        yield "  " + (palette.dim(name) + paint(first[len(name) :]) if line.name else paint(first))
        yield from (f"    {paint(more)}" for more in rest)


def _paint(line: AskLine, palette: Palette) -> Callable[[str], str]:
    if line.sort == "diff":
        marks = {"+": palette.green, "-": palette.red, "@": palette.dim, "…": palette.yellow}
        return palette.dim if line.text.startswith(("---", "+++")) else marks.get(line.text[:1], str)
    return {"more": palette.yellow, "why": palette.dim, "where": palette.dim}.get(line.sort, str)


def _keyed(key: str, label: str, palette: Palette, width: int) -> list[str]:
    first, *rest = fold_line(" ".join(sanitize(label).split()), width - 5 - len(key))
    return [f"  {palette.bold(key)} {first}", *(f"    {more}" for more in rest)]


def _key_rows(keys: Sequence[Choice], palette: Palette, width: int, head: str = "") -> list[str]:
    """Puts as many keys on a row as fit, after `head`."""
    rows: list[list[Choice]] = []
    used = width
    for choice in keys:
        room = cells(f"{choice.key} {choice.label}") + 3
        if used + room > width - 1:
            used = 0 if rows else cells(head)
            rows.append([])
        rows[-1].append(choice)
        used += room
    lines = [
        palette.dim(" · ").join(f"{palette.bold(c.key)} {palette.dim(c.label)}" for c in row) for row in rows
    ]
    return [f"  {palette.dim(head)}{line}" if n == 0 else f"  {line}" for n, line in enumerate(lines)]


def attachment_line(attachment: Attachment, palette: Palette, width: int) -> str:
    size = file_size(attachment.size)
    return palette.dim("  " + fit(f"+ {attachment.name} ({attachment.media_type}, {size})", width - 2))
