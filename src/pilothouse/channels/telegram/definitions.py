"""Lines such as `[error]: failed` are definitions of links to CommonMark, which drops them: here they stay text.

A definition is kept as one only if a link uses it and Telegram takes its address; each other gets a backslash.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Any

from pilothouse.channels.telegram import links

PASSES = 4
MAX_EVENTS = 10_000
"""No more than this is read: 60 kB of what people write have less, and hostile marks cost time."""
_DEFINITION = re.compile(rb"^[ \t>*+\d.)-]*(?P<label>\[[^\]\n]+\]):", re.MULTILINE)

Parsed = list[tuple[Any, int, int]]
"""pulldown-cmark's events, each with the bytes of the source that it is about."""


def freed(text: str) -> tuple[str, Parsed]:
    """The text in which no definition hides words, and its events; one that is all marks is taken literally."""
    for _ in range(PASSES):
        events = _events(text)
        if len(events) > MAX_EVENTS:
            break
        hiding = _hiding(text, events) if "]:" in text else []
        if not hiding:
            return text, events
        raw, last = text.encode(), 0
        pieces: list[bytes] = []
        for at in hiding:
            pieces += [raw[last:at], b"\\"]
            last = at
        text = b"".join([*pieces, raw[last:]]).decode()
    return text, [({"Text": text}, 0, 0)]


def _events(text: str) -> Parsed:
    import pyromark

    found = pyromark.events_with_range(text, options=_options(), merge_text=True)
    return [(event, where["start"], where["end"]) for event, where in islice(found, MAX_EVENTS + 1)]


def _options() -> Any:
    from pyromark import Options

    return Options.ENABLE_TABLES | Options.ENABLE_STRIKETHROUGH | Options.ENABLE_TASKLISTS


def _hiding(text: str, events: Parsed) -> list[int]:
    """Where definitions begin that are to be text, in bytes. Of two for one label Markdown would drop the second."""
    import pyromark

    defined = pyromark.reference_definitions(text, options=_options())
    if not defined:
        return []
    used = {_folded(event["Start"]["Link"]["id"]) for event, _, _ in events if _is_link(event)}
    kept = {_folded(label) for label, found in defined.items() if links.takes(found["dest"])} & used
    places = {found["span"]["start"] for label, found in defined.items() if _folded(label) not in kept}
    code = [(start, end) for event, start, end in events if _is_code(event)]
    for match in _DEFINITION.finditer(text.encode()):
        label, at = _folded(match["label"][1:-1].decode(errors="replace")), match.start("label")
        if label in kept:
            kept.discard(label)
        elif not any(start <= at < end for start, end in code):
            places.add(at)
    return sorted(places)


def _is_link(event: Any) -> bool:
    tag = event.get("Start") if isinstance(event, dict) else None
    return isinstance(tag, dict) and "Link" in tag


def _is_code(event: Any) -> bool:
    if not isinstance(event, dict):
        return False
    tag = event.get("Start")
    return "Code" in event or "Html" in event or (isinstance(tag, dict) and "CodeBlock" in tag)


def _folded(label: str) -> str:
    return " ".join(label.split()).casefold()
