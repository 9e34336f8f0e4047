"""Text that can always be stored, words and files that stay apart, and ids that never meet."""

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pilothouse.core.ids import ChannelId, UserId
from pilothouse.core.message import (
    Address,
    Author,
    InboundMessage,
    clean_text,
    conversation_id,
    inbox_key,
    parse_inbox_key,
)

SURROGATES = st.characters(min_codepoint=0xD800, max_codepoint=0xDFFF)
ANY_TEXT = st.text(st.characters() | SURROGATES | st.just("\0"))


@given(ANY_TEXT)
def test_cleaned_text_can_be_stored_and_sent(text: str) -> None:
    clean = clean_text(text)
    clean.encode()
    assert "\0" not in clean
    assert len(clean) == len(text)
    assert clean_text(clean) == clean


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_text_with_nothing_to_clean_is_unchanged(text: str) -> None:
    assert clean_text(text) == text


@given(ANY_TEXT)
def test_only_what_cannot_be_stored_is_replaced(text: str) -> None:
    for before, after in zip(text, clean_text(text), strict=True):
        assert before == after or (after == "�" and (before == "\0" or "\ud800" <= before <= "\udfff"))


@pytest.mark.parametrize(
    ("text", "file_text", "whole"),
    [
        ("  look\n", "", "  look\n"),
        ("look", "a.txt:\nred", "look\n\na.txt:\nred"),
        ("", "a.txt:\nred", "a.txt:\nred"),
    ],
)
def test_the_words_come_before_what_the_files_say(text: str, file_text: str, whole: str) -> None:
    author = Author(UserId("discord:1"), "Ada")
    message = InboundMessage(Address(ChannelId("discord"), "1"), author, "2", text, file_text=file_text)
    assert message.whole_text == whole
    assert msgspec.json.decode(msgspec.json.encode(message), type=InboundMessage) == message


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (Address(ChannelId("telegram"), "-100123"), "telegram:-100123"),
        (Address(ChannelId("telegram"), "-100123", "45"), "telegram:-100123#45"),
        (Address(ChannelId("discord"), "1", ""), "discord:1#"),
        (Address(ChannelId("matrix"), "!room:example.org"), "matrix:!room:example.org"),
        (Address(ChannelId("webhook"), "a/b"), "webhook:a/b"),
        (Address(ChannelId("webhook"), "100%"), "webhook:100%25"),
        (Address(ChannelId("web:2"), "a"), "web%3A2:a"),
    ],
)
def test_a_conversation_id_is_readable_and_lasts(address: Address, expected: str) -> None:
    assert conversation_id(address) == expected


parts = st.text(st.sampled_from("a:#%23"), max_size=4)
addresses = st.builds(Address, st.builds(ChannelId, parts), parts, st.none() | parts)


@given(addresses, addresses)
@example(Address(ChannelId("web"), "a#b"), Address(ChannelId("web"), "a", "b"))
@example(Address(ChannelId("a:b"), "c"), Address(ChannelId("a"), "b:c"))
@example(Address(ChannelId("web"), "a#b"), Address(ChannelId("web"), "a%23b"))
@example(Address(ChannelId("web"), "a"), Address(ChannelId("web"), "a", ""))
def test_two_addresses_are_two_conversations(one: Address, other: Address) -> None:
    assert (one == other) is (conversation_id(one) == conversation_id(other))


@pytest.mark.parametrize(("place", "thread"), [("1", None), ("a|b", "t|u")])
def test_a_key_of_the_inbox_names_the_message(place: str, thread: str | None) -> None:
    id = conversation_id(Address(ChannelId("webhook"), place, thread))
    assert parse_inbox_key(inbox_key(id, "wake:7")) == "wake:7"
