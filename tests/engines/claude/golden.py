"""The golden files of Claude's recordings."""

from __future__ import annotations

from pathlib import Path

from tests.engines.claude.recorded import HERE, NAMES, split_turns, translate_recording
from tests.engines.golden_chain import render_turns, write_golden

FOLDER = HERE / "golden"


def path_of(name: str) -> Path:
    return FOLDER / f"{name}.txt"


def render(name: str) -> str:
    return render_turns(split_turns(translate_recording(name)))


def main() -> None:
    write_golden(FOLDER, {name: render(name) for name in NAMES})


if __name__ == "__main__":
    main()
