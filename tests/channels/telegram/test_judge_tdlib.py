"""The judge must refuse what Telegram refuses, or it proves nothing."""

import pytest
from tests.channels.telegram.judge_tdlib import CAPTION_LIMIT, detect, judge, units


def entity(kind: str, offset: int, length: int, **more: object) -> dict[str, object]:
    return {"type": kind, "offset": offset, "length": length, **more}


@pytest.mark.parametrize(
    ("text", "entities", "why"),
    [
        ("a😀c", [entity("bold", 2, 1)], "begins in a middle of a UTF-16 symbol"),
        ("a😀c", [entity("bold", 1, 1)], "ends in a middle of a UTF-16 symbol"),
        ("abc", [entity("bold", 0, 4)], "ends after the end of the text"),
        ("abc", [entity("text_link", 0, 3, url="./x")], "Host is invalid"),
        ("abc", [entity("text_link", 0, 3, url="http://localhost:8000/x")], "Wrong HTTP URL"),
        ("abc", [entity("glow", 0, 3)], "unsupported type"),
        ("😀" * 2049, [], "message is too long"),
        (" \n ", [], "message text is empty"),
    ],
)
def test_what_telegram_refuses_is_refused_with_its_reason(
    text: str, entities: list[dict[str, object]], why: str
) -> None:
    assert why in judge(text, entities=entities).why


def test_entities_that_telegram_takes_come_back_as_given() -> None:
    given = [
        entity("bold", 0, 3),
        entity("pre", 4, 2, language="py"),
        entity("text_link", 4, 1, url="https://a.io"),
    ]
    judged = judge("abc 😀", entities=given)
    assert judged.accepted, judged.why
    assert list(judged.entities) == given


def test_markup_is_parsed_by_telegrams_rules() -> None:
    assert "Character '.' is reserved" in judge("a.b", parse_mode="MarkdownV2").why
    assert judge("<b>a", parse_mode="HTML").why.startswith("can't parse entities")
    judged = judge('<b>a</b> <a href="https://a.io/x">b</a>', parse_mode="HTML")
    assert judged.text == "a b"
    assert [e["type"] for e in judged.entities] == ["bold", "text_link"]
    assert judge("a", parse_mode="BBCode").why == "unsupported parse_mode"


def test_length_counts_after_parsing_and_captions_are_shorter() -> None:
    assert judge("<b>" + "x" * 4096 + "</b>", parse_mode="HTML").accepted
    assert judge("x" * 1025, limit=CAPTION_LIMIT).why == "message caption is too long"
    assert judge("", limit=CAPTION_LIMIT, may_be_empty=True).accepted
    assert units("a😀") == 3


def test_telegram_finds_mentions_commands_and_addresses_by_itself() -> None:
    found = [(e["type"], e["offset"], e["length"]) for e in detect("😀 @alice_b /stop@my_bot a.io")]
    assert found == [("mention", 3, 8), ("bot_command", 12, 12), ("url", 25, 4)]
