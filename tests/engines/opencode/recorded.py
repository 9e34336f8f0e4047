"""Dialogues with `opencode serve` 1.18.33, and outputs of `opencode run`, as they were recorded."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tests.engines.codex.recorded import translate

from pilothouse.core.event import EngineEvent
from pilothouse.engines.opencode.replay import OpenCodeReplay

HERE = Path(__file__).parent
NAMES = sorted(path.stem for path in (HERE / "recordings").glob("*.jsonl"))

translate_portions = partial(translate, replay=OpenCodeReplay)


def read(name: str) -> bytes:
    return (HERE / "recordings" / f"{name}.jsonl").read_bytes()


def translate_recording(name: str) -> list[EngineEvent]:
    return translate_portions([read(name)])
