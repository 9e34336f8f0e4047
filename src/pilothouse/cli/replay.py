"""`pilothouse replay`: translates an engine's recorded output into events, or shows it as a channel would.

Turns a bug report into a golden file. Nothing runs and nothing is stored; of an image only the hash is kept.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Iterator
from typing import BinaryIO

import click

from pilothouse.channels.memory import MemoryChannel, visible_text
from pilothouse.channels.progress import activity_label, status_line
from pilothouse.cli.errors import BROKEN
from pilothouse.cli.table import cut, plain
from pilothouse.core.engine import LineTranslator, MediaFound
from pilothouse.core.errors import PilothouseError
from pilothouse.core.event import (
    Asked,
    EngineEvent,
    MediaProduced,
    Notice,
    PlanChanged,
    ToolStarted,
    TurnEnded,
    encode_event,
)
from pilothouse.core.ids import BlobHash
from pilothouse.core.message import Attachment
from pilothouse.core.view import TurnView, fold
from pilothouse.plugins import Plugins
from pilothouse.processes import Line, LineSplitter
from pilothouse.runtime.turns.last_message import closing_content

PORTION = 1 << 20
SHORT = 160


@click.command("replay")
@click.argument("engine")
@click.argument("file", type=click.File("rb"))
@click.option("--json", "as_json", is_flag=True, help="Print the events, one JSON object per line.")
@click.option("--view", "as_view", is_flag=True, help="Print what a channel would show.")
@click.pass_context
def command(ctx: click.Context, engine: str, file: BinaryIO, as_json: bool, as_view: bool) -> None:
    """Turn what ENGINE's program printed into events. FILE has one line per event, as printed; - is standard input."""
    if as_json and as_view:
        raise click.UsageError("--json and --view exclude each other; give one")
    translator = find_translator(Plugins(), engine)
    problems: list[str] = []
    events = read_events(translator, read_lines(file), problems)
    for text in show_turns(events) if as_view else (_line(event, as_json) for event in events):
        print(text)
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        ctx.exit(BROKEN)


def find_translator(plugins: Plugins, engine: str) -> LineTranslator:
    spec = plugins.engine(engine)
    if spec.translator is None:
        raise PilothouseError(f'the engine "{spec.id}" has no translator, so its output cannot be replayed')
    return spec.translator()


def read_lines(file: BinaryIO) -> Iterator[Line]:
    splitter = LineSplitter()
    while portion := file.read(PORTION):
        yield from splitter.feed(portion)
    yield from splitter.end()


def read_events(
    translator: LineTranslator, lines: Iterable[Line], problems: list[str] | None = None
) -> Iterator[EngineEvent]:
    """Yields the events of all turns. Lines that could not be understood are described in `problems`."""
    for number, line in enumerate(lines, 1):
        if not line.data.strip():
            continue
        yield from map(produced, translator.feed(line.data))
        if translator.line_problem and problems is not None:
            problems.append(
                f"line {number}: {translator.line_problem}: {cut(plain(line.text[:SHORT]), SHORT)}"
            )
    yield from map(produced, translator.end())


def produced(step: EngineEvent | MediaFound) -> EngineEvent:
    """Turns found media into the event that follows once a store has kept the bytes."""
    if not isinstance(step, MediaFound):
        return step
    blob = BlobHash(hashlib.sha256(step.data).hexdigest())
    return MediaProduced(Attachment(step.name, step.media_type, len(step.data), blob))


def show_turns(events: Iterable[EngineEvent]) -> Iterator[str]:
    """Renders each turn as people would see it: its steps, its answer, its closing line."""
    view, channel = TurnView(), MemoryChannel()
    for event in events:
        view = fold(view, event, 0.0)
        if (line := _step_line(event)) is not None:
            yield line
        if isinstance(event, TurnEnded):
            content = closing_content(event, view.text, view.attachments)
            yield from (f"\n{printable(visible_text(part))}" for part in channel.render(content))
            yield f"\n{status_line(view, 0.0)}\n"
            view = TurnView()


def _step_line(event: EngineEvent) -> str | None:
    match event:
        case ToolStarted(call=call):
            return f"{'  ' if call.parent_id else ''}· {activity_label(call)}  {plain(call.title)}"
        case Notice(level=level, text=text):
            return f"{'·' if level == 'info' else '!'} {plain(text)}"
        case Asked(ask=ask):
            return "\n".join(
                [f"? {plain(ask.title)}", *(f"  {o.key}. {plain(o.label)}" for o in ask.options)]
            )
        case PlanChanged(items=items):
            marks = {"done": "✓", "active": "→", "pending": " "}
            return "\n".join(f"{marks[item.status]} {plain(item.text)}" for item in items)
        case _:
            return None


def _line(event: EngineEvent, as_json: bool) -> str:
    raw = encode_event(event).decode()
    return raw if as_json else cut(plain(raw), SHORT)


def printable(text: str) -> str:
    """Replaces control characters, except newlines and tabs."""
    return "".join(c if c.isprintable() or c in "\n\t" else " " for c in text)
