"""Answers as messages: nothing is lost, no block is left open, nothing is too long, and files hang on the last one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.channels.discord.documents import make_any
from tests.channels.discord.judging import BLOCK, check, check_document, check_written, units

from pilothouse.channels.discord.markdown import to_discord
from pilothouse.channels.discord.payload import Look, Message, Payload, unpack
from pilothouse.channels.discord.render import render
from pilothouse.core.ids import BlobHash, TurnId
from pilothouse.core.message import Attachment, Content, ContentKind
from pilothouse.core.outcome import Usage

KINDS: tuple[ContentKind, ...] = ("answer", "notice", "closed", "reply")
LINES = st.one_of(
    st.sampled_from(["", "```", "```py", "````", "~~~", "> ```", "- ```sh", "  ```", "| a | b |", "|-|-|", ">>> x", ">"]),
    st.text(alphabet="ab `~|>\\*😀é\r", max_size=30),
    st.text(max_size=30),
)  # fmt: skip
TEXTS = st.lists(LINES, max_size=40).map("\n".join)


def shown(text: str, kind: ContentKind = "answer") -> list[Payload]:
    return [unpack(part) for part in render(Content(text, kind))]


def files(count: int, media_type: str = "image/png") -> tuple[Attachment, ...]:
    return tuple(Attachment(f"f{n}.png", media_type, 10, BlobHash(f"{n:064}")) for n in range(count))


def sent(content: Content) -> list[tuple[Message, tuple[Attachment, ...]]]:
    found: list[tuple[Message, tuple[Attachment, ...]]] = []
    for part in render(content):
        payload = unpack(part)
        assert isinstance(payload, Message)
        found.append((payload, part.attachments))
    return found


@pytest.mark.parametrize("start", range(0, 300, 50))
def test_every_document_comes_through_whole(start: int) -> None:
    for seed in range(start, start + 50):
        document, sound = make_any(seed)
        check_document(document, shown(document.source), sound=sound)
        check_written(document, Look().table_width)


@given(TEXTS, st.sampled_from(KINDS))
def test_discord_takes_whatever_is_said(text: str, kind: ContentKind) -> None:
    for payload in shown(text, kind):
        check(payload)


def test_what_needs_no_change_is_not_changed() -> None:
    text = "# A\n\nb `c` **d** @everyone <@1>\n\n```python\nprint('`')\n```\n\n- e\n  - f\n\n> g\n"
    assert to_discord(text, 64) == text.rstrip("\n")
    assert [payload.text for payload in shown(text)] == [text.rstrip("\n")]


def test_four_thousand_emoji_come_through() -> None:
    parts = shown("😀" * 4000)
    assert "".join(part.text for part in parts) == "😀" * 4000
    assert all(units(part.text) <= 1900 for part in parts)


def test_an_answer_of_too_many_messages_is_a_file_with_its_beginning() -> None:
    text = "# Report\n\n" + "A line.\n\n" * 5000
    ((message, _),) = sent(Content(text, "answer"))
    assert message.text.startswith("# Report")
    assert message.documents[0].name == "answer.md"
    assert message.documents[0].text == text
    check(message)


def test_only_the_first_message_makes_a_sound_and_is_the_reply() -> None:
    messages = [message for message, _ in sent(Content("word " * 1000, "answer", reply_to="7"))]
    assert len(messages) > 1
    assert [(m.silent, m.reply_to) for m in messages] == [(False, "7"), *[(True, "")] * (len(messages) - 1)]


def test_a_block_in_a_block_ends_where_the_outer_one_does() -> None:
    (payload,) = shown("````md\n```sh\nls\n```\n````\nAfter.")
    ((language, inner),) = BLOCK.findall(payload.text)
    assert language == "md"
    assert inner.replace("\u200b", "") == "```sh\nls\n```"
    assert payload.text.endswith("\nAfter.")


def test_an_empty_block_does_not_swallow_what_follows() -> None:
    (payload,) = shown("```\n```\n\nwords\n\n```py\nx\n```")
    assert [inner for _, inner in BLOCK.findall(payload.text)] == [" ", "x"]


@pytest.mark.parametrize("length", range(1870, 1910))
def test_a_cut_at_the_end_of_a_block_leaves_no_empty_block(length: int) -> None:
    parts = shown("```py\n" + "x" * length + "\n\n```\n\n" + "word " * 40)
    for part in parts:
        check(part)
        assert all(inner.strip() for _, inner in BLOCK.findall(part.text))
    assert "".join(part.text for part in parts).count("x") == length


def test_files_hang_on_the_last_message_ten_to_each() -> None:
    found = sent(Content("word " * 1000, "answer", files(23)))
    assert [len(attached) for _, attached in found][-3:] == [10, 10, 3]
    assert not any(attached for _, attached in found[:-3])
    names = [name for message, _ in found for name in message.names]
    assert names == [f"image-{n}.png" for n in range(1, 24)]


def test_the_same_file_twice_is_sent_once() -> None:
    ((message, attached),) = sent(Content("Here.", "answer", (*files(2), *files(2))))
    assert attached == files(2)
    assert message.names == ("image-1.png", "image-2.png")


def test_files_have_safe_names_and_no_two_have_one() -> None:
    one = Attachment("../../a\u202e.csv", "text/csv", 1, BlobHash("1"))
    two = Attachment("a.csv", "text/csv", 1, BlobHash("2"))
    ((message, _),) = sent(Content("", "answer", (one, two)))
    assert message.names == ("a.csv", "a-2.csv")
    assert message.text == ""
    hidden = tuple(Attachment(".env", "text/plain", 1, BlobHash(str(n))) for n in range(2))
    assert sent(Content("", "answer", hidden))[0][0].names == (".env", ".env-2")


def test_a_whole_answer_as_a_file_leaves_room_for_nine_more() -> None:
    found = sent(Content("A line.\n\n" * 5000, "answer", files(10)))
    assert [len(message.documents) + len(attached) for message, attached in found] == [10, 1]


def test_what_it_took_is_said_at_the_end_where_it_is_wanted() -> None:
    ((message, _),) = sent(Content("Done.", "answer", turn_id=TurnId("turn-1"), usage=Usage(0.0234, steps=3)))
    assert message.text == "Done.\n-# $0.0234", "the steps that ran are listed, not counted"


def test_what_stands_in_the_place_of_an_ask_is_one_message_without_buttons() -> None:
    ((message, _),) = sent(Content("✓ Allowed. " * 400, "closed"))
    assert not message.rows
    check(message)


def test_files_that_are_too_much_together_are_in_several_messages() -> None:
    large = tuple(Attachment(f"f{n}.bin", "x/y", 9 << 20, BlobHash(f"{n:064}")) for n in range(3))
    found = sent(Content("Three plots.", "answer", attachments=large))
    assert [(message.text, [file.name for file in files]) for message, files in found] == [
        ("Three plots.", ["f0.bin", "f1.bin"]),
        ("", ["f2.bin"]),
    ]


def test_a_file_that_is_large_goes_alone_and_beside_no_answer_that_is_a_file() -> None:
    small, large = files(1)[0], Attachment("f.bin", "x/y", 40 << 20, BlobHash("f" * 64))
    text = "A line.\n\n" * 5000
    found = sent(Content(text, "answer", attachments=(large, small)))
    assert [len(message.documents) for message, _ in found] == [1, 0, 0]
    assert [names for _, names in found] == [(), (large,), (small,)]


@pytest.mark.parametrize("kind", ["notice", "reply", "closed"])
def test_in_the_house_s_own_words_only_code_is_markup(kind: ContentKind) -> None:
    said = "[Yan](https://evil.example) **x** @everyone added me. `pilothouse users` shows who may.\n```\na *b*\n```"
    (found,) = shown(said, kind)
    assert found.text == (
        "\\[Yan\\](https\\://evil.example) \\*\\*x\\*\\* \\@everyone added me. `pilothouse users` shows who may.\n"
        "```\na *b*\n```"
    )
    (engines,) = [unpack(part) for part in render(Content("**so**\n\nStopped.", kind, formatted=True))]
    assert engines.text == "**so**\n\nStopped."
