"""Addresses that hide behind words, written out: `[words](address)`. Pure.

Telegram counts in UTF-16 units. An entity that does not fit the text is passed over: it costs its address, never a
character of the text.
"""

from __future__ import annotations

from collections.abc import Sequence

from pilothouse.channels.telegram.wire import Entity

_UNIT = 2
"""Bytes of one UTF-16 unit."""


def with_links(text: str, entities: Sequence[Entity]) -> str:
    links = sorted(
        (one for one in entities if one.type == "text_link" and one.url), key=lambda one: one.offset
    )
    if not links:
        return text
    data = text.encode("utf-16-le", "surrogatepass")
    pieces: list[str] = []
    done = 0
    for link in links:
        start, end = link.offset * _UNIT, (link.offset + link.length) * _UNIT
        if done <= start < end <= len(data) and not _halves(data, start) and not _halves(data, end):
            pieces += [_read(data[done:start]), _written(_read(data[start:end]), link.url or "")]
            done = end
    return "".join([*pieces, _read(data[done:])])


def _written(words: str, address: str) -> str:
    """The space around the words stays outside; an address that says itself is not said twice."""
    label = words.strip()
    if label in (address, address.removesuffix("/")):
        return words
    target = f"<{address}>" if any(mark in address for mark in " ()") else address
    if not label:
        return f"{words}<{address}>"
    before, _, after = words.partition(label)
    return f"{before}[{label}]({target}){after}"


def _halves(data: bytes, at: int) -> bool:
    """Whether a cut there would part the two units of one character."""
    units = data[at - _UNIT : at + _UNIT]
    return len(units) == 2 * _UNIT and 0xD8 <= units[1] < 0xDC and 0xDC <= units[3] < 0xE0


def _read(data: bytes) -> str:
    return data.decode("utf-16-le", "surrogatepass")
