"""The golden chain: a recording's events, its view, and what the in-memory channel shows, in one file each.

`tools/golden` writes them anew; what a vendor changed is then a small diff.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from tests.engines.claude.recorded import HERE, NAMES, split_turns, translate_recording

from pilothouse.channels.memory import MemoryChannel, visible_text
from pilothouse.core.event import EngineEvent, TurnEnded
from pilothouse.core.view import TurnView, fold
from pilothouse.runtime.turns.finish import closing_content

FOLDER = HERE / "golden"


def path_of(name: str) -> Path:
    return FOLDER / f"{name}.txt"


def render(name: str) -> str:
    turns = split_turns(translate_recording(name))
    events = [_dumped(event) for turn in turns for event in turn]
    views = [_dumped(_folded(turn)) for turn in turns]
    shown = [text for turn in turns for text in _shown(turn)]
    sections = {"events": events, "view": views, "memory": shown}
    return "".join(
        f"== {title} ==\n" + "".join(f"{row}\n" for row in rows) for title, rows in sections.items()
    )


def _folded(turn: list[EngineEvent]) -> TurnView:
    view = TurnView()
    for at, event in enumerate(turn):
        view = fold(view, event, float(at))
    return view


def _shown(turn: list[EngineEvent]) -> Iterator[str]:
    view, end = _folded(turn), turn[-1]
    assert isinstance(end, TurnEnded)
    for part in MemoryChannel().render(closing_content(end, view.text, view.attachments)):
        yield f"[{part.data['kind']}] {visible_text(part)}"


def _dumped(value: object) -> str:
    return json.dumps(_compact(msgspec.to_builtins(value)), ensure_ascii=False)


def _compact(value: Any) -> Any:
    """Without what is empty, and with the number of tools for their list."""
    if isinstance(value, list):
        return [_compact(item) for item in value]
    if not isinstance(value, dict):
        return value
    filled = {key: item for key, item in value.items() if item not in (None, "", [], {}, ())}
    return {
        key: len(item) if key == "tools" and not isinstance(item, str) else _compact(item)
        for key, item in filled.items()
    }


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for stale in set(FOLDER.glob("*.txt")) - {path_of(name) for name in NAMES}:
        stale.unlink()
    for name in NAMES:
        path_of(name).write_text(render(name))
    print(f"{len(NAMES)} golden files in {FOLDER}")


if __name__ == "__main__":
    main()
