"""The story of a message for `pilothouse trace`: inbox row, turn, events, asks and outbox parts as steps. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from pilothouse.cli.table import cut
from pilothouse.core.ask import AskRow
from pilothouse.core.channel import LoggedEvent
from pilothouse.core.event import (
    AskChanged,
    Asked,
    EngineEvent,
    MediaProduced,
    Notice,
    PlanChanged,
    PromptAdded,
    SessionChanged,
    SessionStarted,
    TextDelta,
    TextSet,
    ThinkingDelta,
    ToolFinished,
    ToolStarted,
    ToolUpdated,
    TurnEnded,
    UsageChanged,
)
from pilothouse.core.ids import AskId
from pilothouse.core.queue import PartRow, QueueRow
from pilothouse.core.turn import Turn

STREAMS: dict[type[EngineEvent], str] = {
    TextDelta: "text.streamed",
    ThinkingDelta: "thinking.streamed",
    ToolUpdated: "tool.updated",
}

MAX_TOLD = 500


class Step(Struct, frozen=True):
    """`what` is `noun.verb_past`; `text` is for people."""

    at: float
    what: str
    text: str


class Sending(Struct, frozen=True):
    row: QueueRow
    parts: list[PartRow]


class Story(Struct, frozen=True):
    """Everything the store has about one turn, or about a message that never became one."""

    turn: Turn | None
    inbox: list[QueueRow]
    events: list[LoggedEvent]
    asks: list[AskRow]
    outbox: list[Sending]


RANKS = {
    noun: rank
    for rank, nouns in enumerate(
        (
            ("message.accepted",),
            ("turn.made",),
            ("turn.started",),
            ("",),
            ("turn.ended", "turn.due"),
            ("message",),
            ("reply.stored",),
            ("part",),
            ("reply",),
        )
    )
    for noun in nouns
}
"""Orders steps of the same time: all rows of one transaction have the same time."""


def tell(story: Story) -> list[Step]:
    """Returns the steps by time, which never runs backwards: logged events keep their order, whatever the clock did."""
    steps = [step for row in story.inbox for step in _tell_inbox(row)]
    steps += _tell_turn(story.turn) if story.turn else []
    steps += [step for sending in story.outbox for step in _tell_outbox(sending)]
    asks = {row.ask.id: row for row in story.asks}
    logged = list(_tell_events(story.events, asks))
    told = {step.text.split()[0] for step in logged if step.what == "ask.stored"}
    steps += [step for row in story.asks if row.ask.id not in told for step in _tell_ask(row)]
    timed = [*_never_back(logged), *((step.at, step) for step in steps)]
    in_order = sorted(timed, key=lambda pair: (pair[0], _rank(pair[1])))
    return [msgspec.structs.replace(step, at=at) for at, step in in_order]


def _never_back(steps: Sequence[Step]) -> Iterator[tuple[float, Step]]:
    latest = float("-inf")
    for step in steps:
        latest = max(latest, step.at)
        yield latest, step


def _rank(step: Step) -> int:
    return RANKS.get(step.what, RANKS.get(step.what.partition(".")[0], RANKS[""]))


def _tell_inbox(row: QueueRow) -> Iterator[Step]:
    body = _body(row)
    author = body.get("author")
    who = author.get("name") or author.get("id") if isinstance(author, dict) else ""
    by = f" from {who}" if who else ""
    yield Step(
        row.created_at, "message.accepted", f"{row.id} in {row.conversation_id}{by}: {body.get('text', '')}"
    )
    yield from _tell_end(row, "message")


def _tell_end(row: QueueRow, noun: str) -> Iterator[Step]:
    why, tries = f" ({row.why})" if row.why else "", "attempt" if row.attempts == 1 else "attempts"
    if row.ended_at is not None:
        yield Step(row.ended_at, f"{noun}.{row.status}", f"{row.id}{why}")
    elif row.why or row.attempts > 1:
        yield Step(row.created_at, f"{noun}.{row.status}", f"{row.id} after {row.attempts} {tries}{why}")


def _tell_turn(turn: Turn) -> Iterator[Step]:
    yield Step(turn.created_at, "turn.made", f"{turn.id} for {turn.engine}, cause: {turn.cause}")
    if turn.started_at is not None:
        node = f" on node {turn.epoch}" if turn.epoch is not None else ""
        yield Step(turn.started_at, "turn.started", f"attempt {turn.attempts or 1}{node}")
    if turn.ended_at is not None:
        why = f": {turn.failure.kind}: {turn.failure.text}" if turn.failure else ""
        yield Step(turn.ended_at, "turn.ended", f"{turn.status}{why}")
    elif turn.retry_at is not None:
        yield Step(turn.retry_at, "turn.due", f"{turn.status} until then")


def _tell_events(events: Sequence[LoggedEvent], asks: Mapping[AskId, AskRow]) -> Iterator[Step]:
    """Joins a run of deltas into one step. Puts the row of an ask before the event that shows it."""
    run: list[LoggedEvent] = []
    for logged in events:
        if run and type(run[-1].event) is not type(logged.event):
            yield _tell_run(run)
            run = []
        if type(logged.event) in STREAMS:
            run.append(logged)
        else:
            yield from _tell_row_of(logged.event, asks)
            yield Step(logged.at, *_name(logged.event))
    if run:
        yield _tell_run(run)


def _tell_row_of(event: EngineEvent, asks: Mapping[AskId, AskRow]) -> Iterator[Step]:
    match event:
        case Asked(ask=ask) if ask.id in asks:
            yield from _stored(asks[ask.id])
        case AskChanged(ask_id=ask_id) if ask_id in asks:
            yield from _answered(asks[ask_id])
        case _:
            pass


def _tell_run(run: Sequence[LoggedEvent]) -> Step:
    text = "".join(getattr(logged.event, "text", "") or "" for logged in run)
    took = run[-1].at - run[0].at
    many = f"{len(run)} pieces in {took:.1f}s: " if len(run) > 1 else ""
    return Step(run[0].at, STREAMS[type(run[0].event)], f"{many}{text}")


def _name(event: EngineEvent) -> tuple[str, str]:
    match event:
        case SessionStarted():
            return "session.started", f"{event.model or 'model not told'} in {event.cwd or 'no folder'}"
        case PromptAdded():
            return "prompt.added", event.text
        case TextSet():
            return "text.set", event.text or "(withdrawn)"
        case ToolStarted():
            return "tool.started", f"{event.call.kind}: {event.call.title}"
        case ToolFinished():
            return "tool.finished", f"{'ok' if event.ok else 'failed'}: {event.output}"
        case Asked():
            return "ask.shown", event.ask.title
        case AskChanged():
            said = event.said or event.state
            return "ask.changed", f"{said}{f', by {event.by}' if event.by else ''}"
        case PlanChanged():
            done = sum(item.status == "done" for item in event.items)
            return "plan.changed", f"{done} of {len(event.items)} done"
        case Notice():
            return "notice.given", f"{event.level}: {event.text}"
        case TurnEnded():
            why = f": {event.failure.kind}: {event.failure.text}" if event.failure else ""
            return "engine.ended", f"{event.outcome}{why}"
        case UsageChanged():
            spent = event.usage.cost_usd
            return "usage.changed", "cost not reported" if spent is None else f"${spent:.4f}"
        case MediaProduced():
            return "media.produced", f"{event.attachment.name}, {event.attachment.size} bytes"
        case SessionChanged():
            return "session.changed", event.resume.value
        case _:
            return "event.seen", type(event).__name__


def _tell_ask(row: AskRow) -> Iterator[Step]:
    yield from _stored(row)
    yield from _answered(row)


def _stored(row: AskRow) -> Iterator[Step]:
    yield Step(row.asked_at, "ask.stored", f"{row.ask.id} {row.subject}: {row.ask.title}")


def _answered(row: AskRow) -> Iterator[Step]:
    if row.answered_at is not None:
        said = f": {row.decision.verdict}" if row.decision else ""
        by = f" by {row.decision.by}" if row.decision and row.decision.by else ""
        yield Step(row.answered_at, f"ask.{row.state}", f"{row.ask.id}{said}{by}")


def _tell_outbox(sending: Sending) -> Iterator[Step]:
    row = sending.row
    yield Step(
        row.created_at, "reply.stored", f"{row.id} to {row.conversation_id}: {_body(row).get('text', '')}"
    )
    for part in sending.parts:
        again = f", {part.sends} sends" if part.sends > 1 else ""
        place = f" as {part.ref.native_id}" if part.ref else ""
        at = row.ended_at or row.created_at
        yield Step(at, f"part.{part.state}", f"{part.index + 1} of {len(sending.parts)}{place}{again}")
    yield from _tell_end(row, "reply")


def _body(row: QueueRow) -> dict[str, Any]:
    """Decodes the item, which may have a text and an author; empty if it is not a JSON object."""
    try:
        body = msgspec.json.decode(row.body)
    except msgspec.DecodeError:
        return {}
    return body if isinstance(body, dict) else {}


def render_story(steps: Iterable[Step]) -> list[tuple[str, str, str]]:
    """Returns table rows, with times relative to the first step."""
    rows: list[tuple[str, str, str]] = []
    first: float | None = None
    for step in steps:
        first = step.at if first is None else first
        rows.append((f"+{step.at - first:.2f}s", step.what, cut(step.text, MAX_TOLD)))
    return rows
