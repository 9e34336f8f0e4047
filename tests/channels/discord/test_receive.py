"""A message of the wire becomes an `InboundMessage`. Pure."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pilothouse.channels.discord.addresses import Place, Us
from pilothouse.channels.discord.config import DiscordConfig, Heard, Rules, heard_in, problem
from pilothouse.channels.discord.receive import (
    Changed,
    Nothing,
    Said,
    Scene,
    Started,
    changed,
    needs_roles,
    said,
)
from pilothouse.channels.discord.wire import Interaction, Message, inputs, read, sent_at
from pilothouse.core.secret import Secret
from pilothouse.core.trigger import Trigger

US, ADA, ROLE = "100000", "200000", "300000"
HERE = Place("500000", "600000")
FIELDS = ("id", "channel_id", "author", "content", "type", "mentions", "attachments", "referenced_message")
SCENE = Scene(
    HERE, Us(US, frozenset({ROLE})), Heard(), (), lambda id: f"channel-{id}", lambda id: f"role-{id}"
)


def message(content: str = f"<@{US}> hello", **more: Any) -> Message:
    raw: dict[str, Any] = {
        "id": "1571739750191071237",
        "channel_id": HERE.id,
        "guild_id": HERE.guild,
        "content": content,
        "author": {"id": ADA, "username": "ada", "global_name": "Ada"},
        "member": {"roles": []},
        **more,
    }
    found = read(raw, Message)
    assert isinstance(found, Message), found
    return found


def scene(**more: Any) -> Scene:
    return replace(SCENE, **more)


def heard(trigger: Trigger) -> Scene:
    return scene(heard=Heard(trigger))


def test_a_mention_is_heard_and_our_name_is_not_part_of_it() -> None:
    found = said(message(f"<@!{US}> fix   <#7> for <@{ADA}>, <@&9> <:ok:12>"), SCENE)
    assert isinstance(found, Said)
    assert found.message.text == "fix   #channel-7 for @somebody, @role-9 :ok:"
    assert found.message.author.id == f"discord:{ADA}"
    assert found.message.address.place == HERE.id
    assert found.message.sent_at == pytest.approx(sent_at(found.message.native_id))
    assert found.to_us


def test_people_who_are_mentioned_have_the_name_that_they_have_here() -> None:
    people = [{"id": "8", "username": "bob", "global_name": "Bob", "member": {"nick": "Bobby"}}]
    found = said(message(f"<@{US}> ask <@8>", mentions=people), SCENE)
    assert isinstance(found, Said)
    assert found.message.text == "ask @Bobby"


def test_the_role_that_discord_made_for_us_is_our_name_too() -> None:
    found = said(message(f"<@&{ROLE}> hello", mention_roles=[ROLE]), SCENE)
    assert isinstance(found, Said)
    assert found.message.text == "hello"


@pytest.mark.parametrize(
    ("trigger", "content", "is_heard"),
    [
        (Trigger("mention"), "hello", False),
        (Trigger("mention"), "@everyone hello", False),
        (Trigger("reply"), f"<@{US}> hello", False),
        (Trigger("all"), "hello", True),
        (Trigger("pattern", "^pilot"), "Pilot, go", True),
        (Trigger("pattern", "^pilot"), "go, pilot", False),
    ],
)
def test_triggers(trigger: Trigger, content: str, is_heard: bool) -> None:
    assert isinstance(said(message(content), heard(trigger)), Said) == is_heard


def test_an_answer_to_us_is_heard_and_quotes_what_it_answers() -> None:
    answered = {"id": "7", "channel_id": HERE.id, "content": "an <@8> old answer", "author": {"id": US}}
    found = said(message("go on", type=19, referenced_message=answered), heard(Trigger("reply")))
    assert isinstance(found, Said)
    assert (found.message.reply_to, found.message.quoted) == ("7", "an @somebody old answer")


@pytest.mark.parametrize(
    ("content", "author", "fetched"),
    [
        (f"<@{US}> what is this?", "8", ["mine.png", "error.png"]),
        (f"<@{US}> /ask what is this?", "8", ["mine.png", "error.png"]),
        (f"<@{US}> make it blue", US, ["mine.png"]),
        (f"<@{US}> /stop", "8", ["mine.png"]),
    ],
)
def test_whoever_answers_a_picture_shows_it_to_us_unless_it_is_ours(
    content: str, author: str, fetched: list[str]
) -> None:
    error, mine = (
        {"id": id, "filename": f"{name}.png", "size": 9} for id, name in [("1", "error"), ("2", "mine")]
    )
    answered = {"id": "7", "channel_id": HERE.id, "attachments": [error], "author": {"id": author}}
    found = said(message(content, type=19, referenced_message=answered, attachments=[mine]), SCENE)
    assert isinstance(found, Said)
    assert found.message.quoted == "[error.png]"
    assert [file.filename for file in found.files] == fetched


@pytest.mark.parametrize("kind", [1, 6, 7, 8, 18, 46])
def test_what_discord_itself_says_is_nothing(kind: int) -> None:
    assert isinstance(said(message(type=kind), heard(Trigger("all"))), Nothing)


def test_what_a_thread_hangs_on_is_kept_for_its_first_message() -> None:
    origin = {"id": "7", "channel_id": "4", "content": "a bug", "author": {"id": "8"}}
    found = said(message("", type=21, referenced_message=origin), SCENE)
    assert found == Started(HERE.address, "a bug")


def test_we_bots_and_hooks_are_not_heard_unless_listed_and_naming_us() -> None:
    everything = heard(Trigger("all"))
    bot = {"id": "9", "username": "bot", "bot": True}
    assert isinstance(said(message(author={"id": US}), everything), Nothing)
    assert isinstance(said(message(author=bot), everything), Nothing)
    assert isinstance(said(message(webhook_id="77"), everything), Nothing)
    listed = replace(everything, bots=("9", "77"))
    assert isinstance(said(message("hello", author=bot), listed), Nothing)
    assert isinstance(said(message(author=bot), listed), Said)
    assert isinstance(said(message(webhook_id="77"), listed), Said)


def test_a_listed_bot_is_heard_nowhere_else_than_people_are() -> None:
    bot = {"id": "9", "username": "bot", "bot": True}
    here = scene(heard=Heard(Trigger("all")), bots=("9",))
    assert isinstance(said(message(author=bot), here), Said)
    elsewhere = replace(here, heard=Heard(Trigger("all"), muted=True))
    assert isinstance(said(message(author=bot), elsewhere), Nothing)
    private = Place("5", direct=True)
    assert isinstance(said(message(author=bot), replace(elsewhere, place=private)), Said)
    dedicated = replace(elsewhere, heard=Heard(Trigger("all"), muted=True, dedicated=True))
    assert isinstance(said(message(author=bot), replace(dedicated, place=private)), Nothing)


def test_in_private_everything_is_heard() -> None:
    found = said(message("hello"), scene(place=Place("5", direct=True)))
    assert isinstance(found, Said)
    assert found.message.private


def test_lists_of_people_and_roles_say_who_is_heard() -> None:
    listed = scene(heard=Heard(Trigger("all"), users=("1",), roles=("2",)))
    assert isinstance(said(message(), listed), Nothing)
    assert isinstance(said(message(member={"roles": ["2"]}), listed), Said)
    past = replace(message(), member=None)
    assert needs_roles(past, listed)
    assert isinstance(said(past, listed, ("2",)), Said)
    assert isinstance(said(past, listed, ()), Nothing)
    assert isinstance(said(message(author={"id": "1"}), listed), Said)


def test_files_stickers_and_what_was_forwarded_are_told() -> None:
    file = {"id": "1", "filename": "a.png", "size": 3, "url": "https://cdn.discordapp.com/a.png"}
    forwarded = [{"message": {"content": "look", "attachments": [{**file, "filename": "b.png"}]}}]
    whole = scene(heard=Heard(Trigger("all")))
    found = said(
        message("", attachments=[file], sticker_items=[{"name": "wave"}], message_snapshots=forwarded), whole
    )
    assert isinstance(found, Said)
    assert found.message.text == "[sticker: wave]\n[forwarded] look"
    assert [one.filename for one in found.files] == ["a.png", "b.png"]
    bare = said(message("", attachments=[file]), whole)
    assert isinstance(bare, Said)
    assert bare.message.text == "[a.png]"


EMBED = {
    "type": "rich",
    "author": {"name": "CI"},
    "title": "Build #42 failed",
    "url": "https://ci/42",
    "description": "test_foo: AssertionError",
    "fields": [{"name": "branch", "value": "main"}],
    "footer": {"text": "after 3 minutes"},
}
SHOWN = "CI\nBuild #42 failed (https://ci/42)\ntest_foo: AssertionError\nbranch: main\nafter 3 minutes"


def words(content: str = "", **more: Any) -> str:
    found = said(message(content, **more), heard(Trigger("all")))
    assert isinstance(found, Said)
    return found.message.text


def test_what_a_bot_shows_in_an_embed_is_quoted_by_who_answers_it() -> None:
    answered = {"id": "7", "channel_id": HERE.id, "content": "", "embeds": [EMBED], "author": {"id": "8"}}
    found = said(message("why?", type=19, referenced_message=answered), heard(Trigger("all")))
    assert isinstance(found, Said)
    assert found.message.quoted == SHOWN


def test_the_preview_of_a_link_is_told_only_where_nothing_else_is() -> None:
    preview = {"type": "article", "title": "A page"}
    assert words("https://page", embeds=[preview]) == "https://page"
    assert words(embeds=[preview]) == "A page"


def test_a_poll_is_its_question_and_its_answers() -> None:
    answers = [
        {"answer_id": 1, "poll_media": {"text": "Postgres"}},
        {"poll_media": {"emoji": {"name": "🪶"}}},
    ]
    assert (
        words(poll={"question": {"text": "Which?"}, "answers": answers}) == "[poll] Which?\n- Postgres\n- 🪶"
    )


def test_text_among_components_is_read_also_within_a_container() -> None:
    rows = [{"type": 17, "components": [{"type": 10, "content": "deployed"}, {"type": 2, "label": "Undo"}]}]
    assert words(components=rows) == "deployed"


def test_what_is_forwarded_is_told_with_its_embeds_and_stickers() -> None:
    forwarded = [{"message": {"content": "", "embeds": [EMBED], "sticker_items": [{"name": "wave"}]}}]
    assert words(message_snapshots=forwarded) == f"[forwarded] {SHOWN}\n[sticker: wave]"


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=9),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(tuple(EMBED)), inner, max_size=4)
        ),
        max_leaves=12,
    )
)
def test_an_odd_embed_costs_no_message(odd: Any) -> None:
    assert words("hello", embeds=odd, components=odd, poll=odd).startswith("hello")
    assert words("hello", embeds=[odd], components=[odd], poll=odd).startswith("hello")


def test_embeds_have_a_bound() -> None:
    endless = {"type": "rich", "description": "x" * 100_000}
    assert len(words(embeds=[endless] * 20)) < 5000


@pytest.mark.parametrize(
    ("written", "text"),
    [("/ask  what is up?", "what is up?"), ("/Ask this", "this"), ("/ask", "/ask"), ("/asking", "/asking")],
)
def test_ask_may_be_written_as_a_message(written: str, text: str) -> None:
    assert words(written) == text
    edited = changed(message(written, edited_timestamp="2026-11-16T04:00:00+00:00"), SCENE)
    assert isinstance(edited, Changed)
    assert edited.edit.text == text


def test_only_an_edit_of_words_is_an_edit() -> None:
    assert isinstance(changed(message(), SCENE), Nothing)
    edited = changed(message(edited_timestamp="2026-11-16T04:00:00+00:00"), SCENE)
    assert isinstance(edited, Changed)
    assert edited.edit.text == "hello"


def test_a_thread_has_its_channels_rules_until_it_has_its_own() -> None:
    config = DiscordConfig(
        channels=("500000", "700000"),
        per_channel={"500000": Rules(mode="all", users=("1",)), "510000": Rules(reactions=True)},
    )
    thread = heard_in(config, "510000", "500000")
    assert (thread.trigger.mode, thread.users, thread.reactions, thread.muted) == ("all", ("1",), True, False)
    assert heard_in(config, "800000").muted
    assert heard_in(config, "700000").trigger.mode == "mention"


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"token": Secret("")}, "DISCORD_TOKEN"),
        ({"token": Secret("not a token")}, "does not look like one"),
        ({"api_base": "discord.com"}, "https://"),
        ({"gateway_url": "https://x"}, "wss://"),
        ({"users": ("ada",)}, "Copy ID"),
        ({"per_channel": {"general": Rules()}}, "Copy ID"),
        ({"trigger": Trigger("pattern")}, "pattern is missing"),
        ({"per_channel": {"500000": Rules(mode="pattern", pattern="(")}}, "regular expression"),
        ({"message_content": False, "dedicated": "500000"}, "Message Content Intent"),
        ({"message_content": False, "trigger": Trigger("all")}, "Message Content Intent"),
        ({"message_content": False, "per_channel": {"500000": Rules(mode="all")}}, "per_channel.500000"),
        ({"message_content": False}, ""),
        ({}, ""),
    ],
)
def test_a_configuration_that_cannot_work_says_why(changes: dict[str, Any], word: str) -> None:
    config = DiscordConfig(token=Secret("a" * 24 + ".b.c"))
    found = problem(replace(config, **changes))
    assert word in found
    assert bool(found) == bool(word)


@given(st.text(max_size=200))
def test_whatever_is_written_can_be_read(content: str) -> None:
    found = said(message(f"<@{US}>{content}"), SCENE)
    assert isinstance(found, Said)
    assert f"<@{US}>" not in found.message.text


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=9),
        lambda inner: st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
        max_leaves=12,
    )
)
def test_what_is_no_message_is_told_as_a_reason(raw: Any) -> None:
    assert isinstance(read(raw, Message), str | Message)


def test_what_is_written_into_a_form_is_found_wherever_it_stands() -> None:
    raw: list[dict[str, Any]] = [
        {"type": 1, "components": [{"type": 4, "custom_id": "a", "value": "one"}]},
        {"type": 18, "component": {"type": 4, "custom_id": "b", "value": "two"}},
    ]
    found = read({"id": "1", "token": "t", "type": 5, "data": {"components": raw}}, Interaction)
    assert isinstance(found, Interaction)
    assert inputs(found.data.components) == {"a": "one", "b": "two"}
    assert "token" not in repr(replace(found, token="secret-token"))
