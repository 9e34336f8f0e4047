"""The recordings of CLI 2.1.325, and what became of each process."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

from pilothouse.cli.replay import produced
from pilothouse.core.engine import MediaFound
from pilothouse.core.event import EngineEvent, TurnEnded
from pilothouse.engines.claude.translate import Translator
from pilothouse.processes import LineSplitter

HERE = Path(__file__).parent
FOLDER = HERE / "recordings"
NAMES = sorted(path.stem for path in FOLDER.glob("*.jsonl"))

Step = EngineEvent | MediaFound


class Exit(NamedTuple):
    code: int
    stderr: str


@cache
def exits() -> dict[str, Exit]:
    rows = json.loads((FOLDER / "exits.json").read_text())
    return {name: Exit(row["exit_code"], row["stderr"]) for name, row in rows.items()}


def read(name: str) -> bytes:
    return (FOLDER / f"{name}.jsonl").read_bytes()


def translate(portions: list[bytes], last: Exit) -> list[EngineEvent]:
    """Whatever the portions, through the splitter that reads real processes."""
    splitter, translator = LineSplitter(), Translator()
    steps: list[Step] = []
    for portion in portions:
        for line in splitter.feed(portion):
            steps += translator.feed(line.data)
    for line in splitter.end():
        steps += translator.feed(line.data)
    return [produced(step) for step in [*steps, *translator.end(last.code, last.stderr)]]


def translate_recording(name: str) -> list[EngineEvent]:
    return translate([read(name)], exits()[name])


def split_turns(events: list[EngineEvent]) -> list[list[EngineEvent]]:
    """Asserts that nothing stands after the last end."""
    turns: list[list[EngineEvent]] = [[]]
    for event in events:
        turns[-1].append(event)
        if isinstance(event, TurnEnded):
            turns.append([])
    assert turns[-1] == []
    return turns[:-1]
