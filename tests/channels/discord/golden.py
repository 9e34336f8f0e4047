"""Every scene as text, one golden file each: `python -m tests.channels.discord.golden` writes them anew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec.structs import replace
from tests.channels.telegram.scenes import ASKS, COLOUR, VIEWS, all_contents, asked

from pilothouse.channels.discord.payload import Button, Message, Row, unpack
from pilothouse.channels.discord.progress import render_view
from pilothouse.channels.discord.render import render
from pilothouse.core.ask import Ask, Option
from pilothouse.core.message import Content, Part

FOLDER = Path(__file__).parent / "golden"
SHOWN_LINES = 40

MORE_ASKS: dict[str, Ask] = {
    "words": replace(COLOUR, options=(), free_text=True),
    "list": replace(COLOUR, options=tuple(Option(str(n), f"Colour {n}") for n in range(1, 13))),
    "too many": replace(COLOUR, options=tuple(Option(str(n), f"Colour {n}") for n in range(1, 31))),
}
BREAKING = """\
~~~python
tildes
~~~

````md
```sh
a block in a block
```
````

A ``` alone.

```A block in a line```, and `` ` `` as code.

>>> 1 + 1

#### Deep

> ```sh
> quoted
> ```
"""
MORE_CONTENTS: dict[str, Content] = {
    "breaking": Content(BREAKING, "answer"),
    "closed": Content("✓ Allowed once by Ada: `git push --force`", "closed", ask=COLOUR),
}


def draw(part: Part) -> str:
    return "\n".join(_lines(part)) + "\n"


def _lines(part: Part) -> Iterator[str]:
    payload = unpack(part)
    notes = (
        type(payload).__name__.lower(),
        "silent" if payload.silent else "",
        payload.reply_to and f"to {payload.reply_to}",
    )
    yield f"── {', '.join(filter(None, notes))}"
    lines = payload.text.split("\n")
    yield from lines if len(lines) <= SHOWN_LINES else [*lines[:5], "…", *lines[-5:]]
    if isinstance(payload, Message):
        yield from (f"   [{file.name}, {len(file.text)} characters]" for file in payload.documents)
        for name, file in zip(payload.names, part.attachments, strict=True):
            yield f"   [{name}, {file.size} bytes]"
    yield from (f"   {_row(row)}" for row in payload.rows)


def _row(row: Row) -> str:
    return " ".join(
        f"[{item.label}]({item.key}) {item.style}"
        if isinstance(item, Button)
        else f"[{item.placeholder} {item.min}–{item.max}]({item.key}): "
        + " / ".join(option.label for option in item.options)
        for item in row.items
    )


def all_parts() -> Iterator[tuple[str, Iterable[Part]]]:
    for name, (view, now) in VIEWS.items():
        yield f"view-{name}", [render_view(view, now)]
    for name, ask in (ASKS | MORE_ASKS).items():
        yield f"ask-{name}", render(asked(ask))
    for name, content in (*all_contents(), *MORE_CONTENTS.items()):
        yield f"say-{name}", render(content)


def scenes() -> Iterator[tuple[str, str]]:
    for name, parts in all_parts():
        yield name.replace(" ", "-"), "\n".join(map(draw, parts))


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.txt"):
        old.unlink()
    for name, text in scenes():
        (FOLDER / f"{name}.txt").write_text(text)


if __name__ == "__main__":
    main()
