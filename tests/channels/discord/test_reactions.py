"""Reactions that reach the engine, and those that do not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pilothouse.channels.discord.attachments import Offered
from pilothouse.channels.discord.reactions import (
    OLDEST_S,
    ORIGINAL_CHARS,
    STOP,
    Original,
    PassedOver,
    Reacted,
    Reaction,
    react,
    worth_a_look,
)
from pilothouse.core.ids import ChannelId, UserId
from pilothouse.core.message import Address, Author

ANN = Author(UserId("discord:7"), "Ann")
NOW = 1_000_000.0
FILE = Offered("a.png", "https://cdn.discordapp.com/a.png", 10, "image/png")


def reaction(**changed: Any) -> Reaction:
    return replace(Reaction(Address(ChannelId("discord"), "1", "2"), ANN, "42", "👍", NOW), **changed)


def original(**changed: Any) -> Original:
    return replace(Original("Bob", "Shall I deploy?", NOW - 60), **changed)


def started(reaction: Reaction, original: Original) -> Reacted:
    found = react(reaction, original, switched_on=True)
    assert isinstance(found, Reacted)
    return found


def test_a_reaction_says_who_did_what_to_which_message() -> None:
    found = started(reaction(), original(files=(FILE,)))
    message = found.message
    assert message.kind == "reaction"
    assert message.text == "Ann reacted with 👍 to a message of Bob, with a.png, which is quoted above."
    assert message.quoted == "Shall I deploy?"
    assert (message.reply_to, message.author, message.address.thread) == ("42", ANN, "2")
    assert found.files == (FILE,)


def test_a_message_of_ours_is_yours_to_the_engine() -> None:
    assert "to your message, which" in started(reaction(), original(ours=True)).message.text


def test_a_message_without_words_is_not_quoted() -> None:
    message = started(reaction(), original(text=" ", files=(FILE,))).message
    assert message.text == "Ann reacted with 👍 to a message of Bob, with a.png."
    assert message.quoted is None


@pytest.mark.parametrize(
    ("changed", "about", "on"),
    [
        ({}, {}, False),
        ({"by": Author(UserId("discord:8"), "Bot", is_bot=True)}, {}, True),
        ({"emoji": STOP}, {}, True),
        ({"emoji": f"{STOP}\ufe0f"}, {}, True),
        ({}, {"sent_at": NOW - OLDEST_S - 1}, True),
    ],
    ids=["off", "a bot", "stop", "stop in colour", "old"],
)
def test_what_starts_nothing(changed: dict[str, Any], about: dict[str, Any], on: bool) -> None:
    found = react(reaction(**changed), original(**about), switched_on=on)
    assert isinstance(found, PassedOver)
    assert found.why


def test_whether_the_message_must_be_asked_for_is_known_before() -> None:
    assert worth_a_look(reaction(), switched_on=False)
    assert not worth_a_look(reaction(), switched_on=True)


def test_a_day_is_not_too_old() -> None:
    started(reaction(), original(sent_at=NOW - OLDEST_S))


def test_the_same_reaction_is_the_same_message_and_another_is_another() -> None:
    one = started(reaction(), original()).message.native_id
    assert started(reaction(at=NOW + 5), original(text="edited")).message.native_id == one
    others = (
        reaction(emoji="👎"),
        reaction(message_id="43"),
        reaction(by=Author(UserId("discord:8"), "Ann")),
    )
    assert one not in {started(other, original()).message.native_id for other in others}


@given(
    st.text(max_size=4000), st.text(max_size=300), st.text(min_size=1, max_size=100), st.text(max_size=300)
)
def test_everything_foreign_is_bounded_and_the_sentence_is_one_line(
    text: str, author: str, emoji: str, name: str
) -> None:
    by = Author(UserId("discord:7"), name)
    found = react(reaction(by=by, emoji=emoji), original(text=text, author=author), switched_on=True)
    if isinstance(found, Reacted):
        assert len(found.message.quoted or "") <= ORIGINAL_CHARS
        assert len(found.message.text) <= 400
        assert len(found.message.text.splitlines()) == 1
