"""Dialogues with the app-server of Codex 0.166, as they were recorded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pilothouse.cli.replay import produced
from pilothouse.core.engine import LineTranslator, MediaFound
from pilothouse.core.event import EngineEvent, TurnEnded
from pilothouse.engines.codex.replay import CodexReplay
from pilothouse.processes import LineSplitter

HERE = Path(__file__).parent
FOLDER = HERE / "recordings"
NAMES = sorted(path.stem for path in FOLDER.glob("*.jsonl"))

Step = EngineEvent | MediaFound


def read(name: str) -> bytes:
    return (FOLDER / f"{name}.jsonl").read_bytes()


def translate(
    portions: list[bytes], exit_code: int = 0, replay: Callable[[], LineTranslator] = CodexReplay
) -> list[EngineEvent]:
    """Feed the portions through the splitter that reads real processes."""
    splitter, translator = LineSplitter(), replay()
    steps: list[Step] = []
    for portion in portions:
        for line in splitter.feed(portion):
            steps += translator.feed(line.data)
    for line in splitter.end():
        steps += translator.feed(line.data)
    return [produced(step) for step in [*steps, *translator.end(exit_code)]]


def translate_recording(name: str) -> list[EngineEvent]:
    return translate([read(name)])


def split_turns(events: list[EngineEvent]) -> list[list[EngineEvent]]:
    """Asserts that nothing stands after the last end."""
    turns: list[list[EngineEvent]] = [[]]
    for event in events:
        turns[-1].append(event)
        if isinstance(event, TurnEnded):
            turns.append([])
    assert turns[-1] == []
    return turns[:-1]
