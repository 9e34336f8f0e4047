"""The golden chain: a recording's events, its view, and what the in-memory channel shows, in one file each.

`tools/golden` writes them anew; what a vendor changed is then a small diff.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from pilothouse.channels.memory import MemoryChannel, visible_text
from pilothouse.core.event import EngineEvent, TurnEnded
from pilothouse.core.view import TurnView, fold
from pilothouse.runtime.turns.last_message import closing_content

Turns = Sequence[list[EngineEvent]]


def render_turns(turns: Turns) -> str:
    events = [_dumped(event) for turn in turns for event in turn]
    views = [_dumped(_folded(turn)) for turn in turns]
    shown = [text for turn in turns for text in _shown(turn)]
    sections = {"events": events, "view": views, "memory": shown}
    return "".join(
        f"== {title} ==\n" + "".join(f"{row}\n" for row in rows) for title, rows in sections.items()
    )


def write_golden(folder: Path, rendered: dict[str, str]) -> None:
    folder.mkdir(exist_ok=True)
    for stale in set(folder.glob("*.txt")) - {folder / f"{name}.txt" for name in rendered}:
        stale.unlink()
    for name, text in rendered.items():
        (folder / f"{name}.txt").write_text(text)
    print(f"{len(rendered)} golden files in {folder}")


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
