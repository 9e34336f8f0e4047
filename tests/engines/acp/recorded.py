"""Dialogues with real ACP agents, as they were recorded by another client."""

from __future__ import annotations

from pathlib import Path

from tests.engines.codex.recorded import split_turns
from tests.engines.golden_chain import render_turns, write_golden

from pilothouse.cli.replay import produced
from pilothouse.core.engine import MediaFound
from pilothouse.core.event import EngineEvent
from pilothouse.core.ids import EngineId
from pilothouse.engines.acp.agents import AGENTS, PLAIN
from pilothouse.engines.acp.replay import AcpReplay
from pilothouse.processes import LineSplitter

HERE = Path(__file__).parent
FOLDER = HERE / "recordings"
GOLDEN = HERE / "golden"
NAMES = sorted(path.stem for path in FOLDER.glob("*.jsonl"))


def read_recording(name: str) -> bytes:
    return (FOLDER / f"{name}.jsonl").read_bytes()


def new_replay(name: str) -> AcpReplay:
    return AcpReplay(EngineId("acp"), AGENTS.get(name.partition("_")[0], PLAIN))


def translate(name: str, portions: list[bytes], exit_code: int = 0) -> list[EngineEvent]:
    """Feed the portions through the splitter that reads real processes."""
    splitter, translator = LineSplitter(), new_replay(name)
    steps: list[EngineEvent | MediaFound] = []
    for portion in portions:
        for line in splitter.feed(portion):
            steps += translator.feed(line.data)
    for line in splitter.end():
        steps += translator.feed(line.data)
    return [produced(step) for step in [*steps, *translator.end(exit_code)]]


def translate_recording(name: str) -> list[EngineEvent]:
    return translate(name, [read_recording(name)])


def render(name: str) -> str:
    return render_turns(split_turns(translate_recording(name)))


def main() -> None:
    write_golden(GOLDEN, {name: render(name) for name in NAMES})


if __name__ == "__main__":
    main()
