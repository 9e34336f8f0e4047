"""How things look in a terminal: pure, from values to text."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from pilothouse.channels.terminal.ink import Ink, cells, fit, fold_line, hang, wash
from pilothouse.channels.terminal.receive import ENTER_KEEPS, Choice, choices, chosen, explain_key
from pilothouse.channels.text import activity_label, status_line
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
    lines = [ink.yellow("? ") + ink.bold(title), *ask_body(ask_lines(ask), ink, width)]
    found = choices(ask)
    for choice in (choice for choice in found if choice.rule):
        key = choice.key if enter else f"{choice.key} Enter"
        lines += _keyed(key, f"{choice.label}: {choice.rule}", ink, width)
    plain = [choice for choice in found if not choice.rule]
    if enter:
        lines += _key_rows(plain, ink, width)
    else:
        lines += _key_rows([choice for choice in plain if choice.at_once], ink, width)
        lines += _key_rows([choice for choice in plain if not choice.at_once], ink, width, WITH_ENTER)
    for number, option in enumerate(ask.options, 1):
        lines += _keyed(str(number), option.label, ink, width)
    return "\n".join([*lines, *filter(None, [_how(ask, ink, enter=enter)])])


def keep_warning(ask: Ask, typed: str, width: int) -> str:
    """Which rule Enter would keep, exactly, if that is what `typed` says to the ask."""
    choice = chosen(ask, typed)
    if choice is None or not choice.rule:
        return ""
    first, *rest = fold_line(wash(f"{choice.label}: {choice.rule}"), width - 2)
    return "\n".join([f"  {first}", *(f"    {more}" for more in rest), hang(ENTER_KEEPS, width)])


def ask_help(ask: Ask, ink: Ink, width: int) -> str:
    """What each key does, wrapped beside it."""
    found = choices(ask)
    if not found:
        return ink.dim(hang("Type the number of an option, or an answer in words, then Enter.", width))
    rows = (textwrap.wrap(explain_key(ask, choice), width - 5) for choice in found)
    lines = (
        "\n".join(
            [f"  {ink.bold(choice.key)}  {ink.dim(first)}", *(f"     {ink.dim(more)}" for more in rest)]
        )
        for choice, (first, *rest) in zip(found, rows, strict=True)
    )
    return "\n".join(lines)


def _how(ask: Ask, ink: Ink, *, enter: bool) -> str:
    """What to type, where the keys do not say it."""
    if ask.many and ask.options:
        words = ", or your own words" if ask.free_text else ""
        return ink.dim(f"  Type one or several, as in 1,3{words}; then Enter.")
    if ask.free_text or not (choices(ask) or ask.options):
        return ink.dim("  Type your answer, then Enter." if enter else "  Type your answer.")
    if enter or len(ask.options) > 9:
        return ink.dim("  Type one of these, then Enter.")
    return ""


def ask_body(found: Iterable[AskLine], ink: Ink, width: int) -> Iterator[str]:
    """Wrapped, never cut: whoever answers has seen it to the end."""
    for line in found:
        name = f"{wash(line.name)}: " if line.name else "" if line.sort == "diff" else "  "
        paint = _paint(line, ink)
        first, *rest = fold_line(name + wash(line.text), width - 2)
        yield "  " + (ink.dim(name) + paint(first[len(name) :]) if line.name else paint(first))
        yield from (f"    {paint(more)}" for more in rest)


def _paint(line: AskLine, ink: Ink) -> Callable[[str], str]:
    if line.sort == "diff":
        marks = {"+": ink.green, "-": ink.red, "@": ink.dim, "…": ink.yellow}
        return ink.dim if line.text.startswith(("---", "+++")) else marks.get(line.text[:1], str)
    return {"more": ink.yellow, "why": ink.dim, "where": ink.dim}.get(line.sort, str)


def _keyed(key: str, label: str, ink: Ink, width: int) -> list[str]:
    first, *rest = fold_line(" ".join(wash(label).split()), width - 5 - len(key))
    return [f"  {ink.bold(key)} {first}", *(f"    {more}" for more in rest)]


def _key_rows(keys: Sequence[Choice], ink: Ink, width: int, head: str = "") -> list[str]:
    """As many to a row as fit, behind what is said of them all."""
    rows: list[list[Choice]] = []
    used = width
    for choice in keys:
        room = cells(f"{choice.key} {choice.label}") + 3
        if used + room > width - 1:
            used = 0 if rows else cells(head)
            rows.append([])
        rows[-1].append(choice)
        used += room
    lines = [ink.dim(" · ").join(f"{ink.bold(c.key)} {ink.dim(c.label)}" for c in row) for row in rows]
    return [f"  {ink.dim(head)}{line}" if n == 0 else f"  {line}" for n, line in enumerate(lines)]


def attachment_line(attachment: Attachment, ink: Ink, width: int) -> str:
    size = file_size(attachment.size)
    return ink.dim("  " + fit(f"+ {attachment.name} ({attachment.media_type}, {size})", width - 2))
