"""Telegram's own code (TDLib) says whether it would take a text: its markup, its entities, its length.

`judge(text, entities=…)` or `judge(text, parse_mode="HTML")`; nothing goes over a network, and one call costs about
40 µs. There is no judge of rich Markdown in TDLib: what `sendRichMessage` takes is checked by its size alone.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from msgspec import Struct

TEXT_LIMIT = 4096
CAPTION_LIMIT = 1024

Entity = Mapping[str, Any]

# The Bot API's name of each entity that a bot may send, and TDLib's. The others Telegram finds by itself.
_TD_TYPES: Mapping[str, str] = {
    "bold": "Bold",
    "italic": "Italic",
    "underline": "Underline",
    "strikethrough": "Strikethrough",
    "spoiler": "Spoiler",
    "code": "Code",
    "pre": "Pre",
    "blockquote": "BlockQuote",
    "expandable_blockquote": "ExpandableBlockQuote",
    "text_link": "TextUrl",
    "text_mention": "MentionName",
    "custom_emoji": "CustomEmoji",
    "date_time": "DateTime",
    "mention": "Mention",
    "hashtag": "Hashtag",
    "cashtag": "Cashtag",
    "bot_command": "BotCommand",
    "url": "Url",
    "email": "EmailAddress",
    "phone_number": "PhoneNumber",
}
_API_TYPES = {td: api for api, td in _TD_TYPES.items()} | {"PreCode": "pre"}
_PARSE_MODES: Mapping[str, Mapping[str, Any]] = {
    "html": {"@type": "textParseModeHTML"},
    "markdownv2": {"@type": "textParseModeMarkdown", "version": 2},
    "markdown": {"@type": "textParseModeMarkdown", "version": 1},
}


class Judged(Struct, frozen=True):
    """`why` is empty if Telegram takes it; else it is Telegram's own description of what is wrong."""

    text: str
    entities: tuple[Entity, ...]
    why: str = ""

    @property
    def accepted(self) -> bool:
        return not self.why


def judge(
    text: str,
    *,
    entities: Sequence[Entity] | None = None,
    parse_mode: str | None = None,
    limit: int = TEXT_LIMIT,
    may_be_empty: bool = False,
) -> Judged:
    """What Telegram would show: the text without its markup, and its entities. Entities win over a parse mode."""
    judged = _parse(text, parse_mode) if parse_mode and not entities else _check(text, entities or ())
    if judged.why:
        return judged
    if units(judged.text) > limit:
        return Judged(
            text, (), "message is too long" if limit == TEXT_LIMIT else "message caption is too long"
        )
    if not may_be_empty and not _visible(judged.text):
        return Judged(text, (), "message text is empty")
    return judged


def type_in(text: str) -> Judged:
    """What an app sends of what somebody types: marks such as `**` and backticks become entities."""
    found = _ask({"@type": "parseMarkdown", "text": _formatted(text, ())})
    return Judged(found["text"], _from_td(found["entities"]))


def detect(text: str) -> tuple[Entity, ...]:
    """What Telegram finds in a plain text by itself: mentions, commands, addresses, hashtags."""
    return _from_td(_ask({"@type": "getTextEntities", "text": text})["entities"])


def units(text: str) -> int:
    """Telegram counts, and places entities, in UTF-16 units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _parse(text: str, parse_mode: str) -> Judged:
    mode = _PARSE_MODES.get(parse_mode.lower())
    if mode is None:
        return Judged(text, (), "unsupported parse_mode")
    found = _ask({"@type": "parseTextEntities", "text": text, "parse_mode": mode})
    if found["@type"] == "error":
        return Judged(text, (), _lowered(found["message"]))
    return Judged(found["text"], _from_td(found["entities"]))


def _check(text: str, entities: Sequence[Entity]) -> Judged:
    unknown = [entity["type"] for entity in entities if entity["type"] not in _TD_TYPES]
    if unknown:
        return Judged(text, (), f"can't parse MessageEntity: unsupported type {unknown[0]!r} specified")
    # This request turns entities into Markdown, and checks them as a message's are checked.
    found = _ask({"@type": "getMarkdownText", "text": _formatted(text, entities)})
    if found["@type"] == "error":
        return Judged(text, (), found["message"])
    return Judged(text, tuple(entities))


def _visible(text: str) -> bool:
    return bool(_ask({"@type": "getMarkdownText", "text": _formatted(text, ())}).get("text"))


def _formatted(text: str, entities: Sequence[Entity]) -> dict[str, Any]:
    return {"@type": "formattedText", "text": text, "entities": [_to_td(entity) for entity in entities]}


def _to_td(entity: Entity) -> dict[str, Any]:
    kind: dict[str, Any] = {"@type": f"textEntityType{_TD_TYPES[entity['type']]}"}
    match entity["type"]:
        case "text_link":
            kind["url"] = entity.get("url", "")
        case "text_mention":
            kind["user_id"] = entity["user"]["id"]
        case "pre" if entity.get("language"):
            kind = {"@type": "textEntityTypePreCode", "language": entity["language"]}
        case "custom_emoji":
            kind["custom_emoji_id"] = entity.get("custom_emoji_id", "")
        case "date_time":
            kind["unix_time"] = entity.get("unix_time", 0)
        case _:
            pass
    return {"@type": "textEntity", "offset": entity["offset"], "length": entity["length"], "type": kind}


def _from_td(entities: Sequence[Entity]) -> tuple[Entity, ...]:
    return tuple(_entity(found) for found in entities if _name(found) in _API_TYPES)


def _entity(found: Entity) -> Entity:
    kind = found["type"]
    entity = {"type": _API_TYPES[_name(found)], "offset": found["offset"], "length": found["length"]}
    for key in ("url", "language", "custom_emoji_id", "unix_time"):
        if kind.get(key):
            entity[key] = kind[key]
    if "user_id" in kind:
        entity["user"] = {"id": kind["user_id"], "is_bot": False, "first_name": "Someone"}
    return entity


def _name(found: Entity) -> str:
    return found["type"]["@type"].removeprefix("textEntityType")


def _lowered(message: str) -> str:
    """The Bot API says "can't parse entities" where TDLib begins with a capital."""
    return message[:1].lower() + message[1:]


def _ask(request: Mapping[str, Any]) -> dict[str, Any]:
    return json.loads(_library().td_execute(json.dumps(request).encode()))


@cache
def _library() -> Any:
    import tdjson

    quiet = {"@type": "setLogVerbosityLevel", "new_verbosity_level": 0}
    tdjson.td_execute(json.dumps(quiet).encode())
    return tdjson
