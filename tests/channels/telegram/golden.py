"""Every scene as text, one golden file each: `python -m tests.channels.telegram.golden` writes them anew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.channels.telegram.scenes import ASKS, CONTENTS, VIEWS, all_contents, asked

from pilothouse.channels.telegram.payload import (
    Entity,
    File,
    Look,
    Message,
    Payload,
    Progress,
    Rich,
    Upload,
    unpack,
)
from pilothouse.channels.telegram.progress import render_view
from pilothouse.channels.telegram.render import render

FOLDER = Path(__file__).parent / "golden"
SHOWN_LINES = 40


def draw(payload: Payload) -> str:
    """What a person would see, then what makes it look so."""
    return "\n".join(_lines(payload)) + "\n"


def _lines(payload: Payload) -> Iterator[str]:
    notes = [
        type(payload).__name__.lower(),
        "silent" if payload.silent else "",
        payload.reply_to and f"to {payload.reply_to}",
    ]
    yield f"── {', '.join(filter(None, notes))}"
    if isinstance(payload, File):
        yield f"[{payload.name}, {len(payload.text)} characters]"
        yield from payload.caption.split("\n")
        yield from _entities(payload.caption, payload.caption_entities)
    else:
        if isinstance(payload, Upload):
            yield f"[{payload.kind}]"
        lines = payload.text.split("\n")
        yield from lines if len(lines) <= SHOWN_LINES else [*lines[:5], "…", *lines[-5:]]
        yield from _entities(payload.text, () if isinstance(payload, Rich) else payload.entities)
    if isinstance(payload, Message) and payload.in_group:
        yield f"   in a group: {payload.in_group}"
    if isinstance(payload, Rich | Progress) and payload.html:
        yield f"   html {payload.html}"
    if payload.reply_markup:
        for row in payload.reply_markup.inline_keyboard:
            yield "   " + " ".join(f"[{button.text}]({button.callback_data})" for button in row)


def _entities(text: str, entities: Iterable[Entity]) -> Iterator[str]:
    raw = text.encode("utf-16-le")
    for entity in entities:
        inner = raw[entity.offset * 2 : (entity.offset + entity.length) * 2].decode("utf-16-le")
        shown = inner if len(inner) <= 60 else f"{inner[:28]}…{inner[-28:]}"
        yield f"   {' '.join(filter(None, (entity.type, entity.language, repr(shown), entity.url)))}"


def scenes() -> Iterator[tuple[str, str]]:
    plain, rich = Look(), Look(rich=True)
    for name, (view, now) in VIEWS.items():
        look = rich if name == "working" else plain
        yield f"view-{name}", draw(render_view(view, now, look))
    for name, ask in ASKS.items():
        yield f"ask-{name}", "\n".join(draw(unpack(part)) for part in render(asked(ask), plain))
    for name, content in all_contents():
        yield f"say-{name}", "\n".join(draw(unpack(part)) for part in render(content, plain))
    yield "say-answer-rich", "\n".join(draw(unpack(part)) for part in render(CONTENTS["answer"], rich))


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.txt"):
        old.unlink()
    for name, text in scenes():
        (FOLDER / f"{name.replace(' ', '-')}.txt").write_text(text)


if __name__ == "__main__":
    main()
