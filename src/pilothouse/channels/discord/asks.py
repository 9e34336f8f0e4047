"""An ask as one message: exactly what the house says about it, and what answers it.

What a person approves stands in a block of code that nothing in it can end, with hidden characters made visible. A
question and a plan are an engine's prose, and read as Markdown.
"""

from __future__ import annotations

from collections.abc import Iterator

from pilothouse.channels.discord.buttons import ask_rows, is_listed
from pilothouse.channels.discord.limits import FILES_ROOM, TARGET
from pilothouse.channels.discord.look import Look
from pilothouse.channels.discord.markdown import cut, escaped, fenced, to_discord
from pilothouse.channels.discord.payload import Document, Message
from pilothouse.channels.literal import literals, plainly
from pilothouse.channels.text import clip, utf16_units
from pilothouse.core.ask import Ask

HEAD = 1200
"""What is shown of an ask that is too long for a message; a file has all of it."""


def render_ask(ask: Ask, look: Look, *, said: str = "") -> Message:
    """`said` is what the house says about the ask: its title, and what stands around it."""
    said = plainly(said or ask.title)
    text = "\n".join(_blocks(ask, said, look)).strip("\n") or "…"
    if utf16_units(text) <= TARGET - FILES_ROOM:
        return Message(text=text, rows=ask_rows(ask))
    name = f"{ask.id}.txt"
    note = f"**This is not all of it: read {name}.** SHA-256 {ask.payload_hash[:12]}…"
    whole = "\n".join((said, *_options(ask)))
    return Message(
        text=f"{(cut(text, HEAD) or ['…'])[0].rstrip()}\n{note}",
        rows=ask_rows(ask),
        documents=(Document(name, whole),),
    )


def render_closed(text: str) -> Message:
    """What stands in the place of an ask once it is settled: one message, whatever it says."""
    parts = cut(text, TARGET - 2)
    return Message(text=parts[0] + (" …" if len(parts) > 1 else "") if parts else "…")


def _blocks(ask: Ask, said: str, look: Look) -> Iterator[str]:
    title = plainly(ask.title).strip()
    before, _, after = said.partition(title) if title and title in said else ("", "", said)
    if before.strip():
        yield f"*{escaped(' '.join(before.split()))}*"
    if title:
        yield fenced(title) if ask.kind == "approval" else to_discord(title, look.table_width)
    if not title or title in said:
        for found in literals(after):
            yield escaped(found.text) if found.language is None else fenced(found.text, found.language)
    if is_listed(ask):
        yield from map(escaped, _options(ask))


def _options(ask: Ask) -> list[str]:
    return [
        f"{number}. {clip(' '.join(plainly(option.label).split()), 1000)}"
        for number, option in enumerate(ask.options, 1)
    ]
