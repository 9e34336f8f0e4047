"""The golden files of OpenCode's recordings."""

from __future__ import annotations

from tests.engines.codex.recorded import split_turns
from tests.engines.golden_chain import render_turns, write_golden
from tests.engines.opencode.recorded import HERE, NAMES, translate_recording

FOLDER = HERE / "golden"


def render(name: str) -> str:
    return render_turns(split_turns(translate_recording(name)))


if __name__ == "__main__":
    write_golden(FOLDER, {name: render(name) for name in NAMES})
