"""What a message shows besides its words: embeds, a poll, the text among its components. Pure, and over the raw JSON.

Bots of CI, of a tracker, of monitoring say nothing else. One part that is odd costs that part, and never the message.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

MOST_CHARS = 4000
MOST_EMBEDS = 10
MOST_FIELDS = 25
MOST_ANSWERS = 10
DEEPEST = 5
TEXT_DISPLAY = 10
WRITTEN = ("rich", "")
"""What a bot wrote itself; all other kinds are previews of a link that stands in the words."""


def shown_in(embeds: Any, components: Any, poll: Any, *, alone: bool) -> str:
    """As text. `alone`: the message has no words, so that a preview of a link is better than nothing."""
    lines = [
        *(line for one in _list(embeds)[:MOST_EMBEDS] if _is_written(one) or alone for line in _embed(one)),
        *_texts(components),
        *_poll(poll),
    ]
    text = "\n".join(line for line in lines if line)
    return text if len(text) <= MOST_CHARS else text[:MOST_CHARS] + "…"


def _is_written(embed: Any) -> bool:
    return _text(embed, "type") in WRITTEN


def _embed(embed: Any) -> Iterator[str]:
    title, url = _text(embed, "title"), _text(embed, "url")
    yield _text(embed, "author", "name")
    yield f"{title} ({url})" if title and url else title or url
    yield _text(embed, "description")
    for field in _list(_get(embed, "fields"))[:MOST_FIELDS]:
        yield ": ".join(part for part in (_text(field, "name"), _text(field, "value")) if part)
    yield _text(embed, "footer", "text")


def _texts(components: Any, depth: int = 0) -> Iterator[str]:
    for one in _list(components) if depth < DEEPEST else ():
        if _get(one, "type") == TEXT_DISPLAY:
            yield _text(one, "content")
        yield from _texts(_get(one, "components"), depth + 1)


def _poll(poll: Any) -> Iterator[str]:
    if question := _text(poll, "question", "text"):
        yield f"[poll] {question}"
        for answer in _list(_get(poll, "answers"))[:MOST_ANSWERS]:
            yield f"- {_text(answer, 'poll_media', 'text') or _text(answer, 'poll_media', 'emoji', 'name')}"


def _get(raw: Any, name: str) -> Any:
    return raw.get(name) if isinstance(raw, dict) else None


def _list(raw: Any) -> list[Any]:
    return raw if isinstance(raw, list) else []


def _text(raw: Any, *path: str) -> str:
    for name in path:
        raw = _get(raw, name)
    return raw.strip() if isinstance(raw, str) else ""
