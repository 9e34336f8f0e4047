"""What the test server promises to the tests that stand on it."""

import anyio
import pytest
from tests.channels.telegram.posts import send_message
from tests.channels.telegram.server.flood import ALL, GROUP, PRIVATE, Flood
from tests.channels.telegram.server.polling import AGAIN_S, HASTY_S
from tests.channels.telegram.server.refusal import Refusal
from tests.channels.telegram.server.running import Server
from tests.channels.telegram.server.world import Draft

from pilothouse.channels.telegram.client import BotClient
from pilothouse.channels.telegram.trouble import RetryAfter
from pilothouse.channels.telegram.wire import KINDS, Arrived, Message, Update
from pilothouse.testing.clock import FakeClock


@pytest.fixture
def clock(server: Server) -> FakeClock:
    server.polls.clock = clock = FakeClock()
    return clock


async def fetch(client: BotClient, offset: int = 0) -> list[Update]:
    updates = await client.get_updates(offset, timeout_s=0)
    assert isinstance(updates, tuple), updates
    return [one.update for one in updates if isinstance(one, Arrived) and not one.lost]


def messages(updates: list[Update]) -> list[Message]:
    return [update.message for update in updates if update.message]


async def test_an_update_comes_again_until_a_later_offset_confirms_it(
    client: BotClient, server: Server, clock: FakeClock
) -> None:
    ada = server.person()
    ada.say("one")
    ada.say("two")
    first = await fetch(client)
    await clock.advance(HASTY_S)
    assert [update.update_id for update in await fetch(client)] == [update.update_id for update in first]
    rest = await fetch(client, first[0].update_id + 1)
    assert [message.text for message in messages(rest)] == ["two"]
    server.world.repeat(server.world.pending[0])
    await clock.advance(HASTY_S)
    assert len(await fetch(client, rest[0].update_id)) == 2


async def test_whoever_asks_for_the_same_again_too_soon_gets_one_update_or_waits(
    client: BotClient, server: Server, clock: FakeClock
) -> None:
    ada = server.person()
    ada.say("one")
    ada.say("two")
    first, again = await fetch(client), await fetch(client)
    assert (len(first), len(again)) == (2, 1)
    beyond = first[1].update_id + 1
    assert await fetch(client, beyond) == []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(fetch, client, beyond)
        await server.world.until(lambda: server.polls.waiting)
        await clock.advance(AGAIN_S - 0.1)
        assert server.polls.waiting
        await clock.advance(0.1)


async def test_what_waits_can_come_in_the_wrong_order(client: BotClient, server: Server) -> None:
    ada = server.person()
    ada.say("one")
    ada.say("two")
    server.world.reverse()
    assert [message.text for message in messages(await fetch(client))] == ["two", "one"]


async def test_all_that_people_do_is_told_as_telegram_tells_it(
    client: BotClient, server: Server, clock: FakeClock
) -> None:
    """aiogram's models judge every update: the fixture fails on what they would not read."""
    await fetch(client)
    ada, bob = server.person("Ada", username="ada_l"), server.person("Bob")
    said = ada.say("hi @pilot_test_bot https://a.io")
    ada.say("more", reply_to=said, quote="hi")
    ada.say("from bob", forwarded_from=bob)
    ada.photo(b"x" * 100, "a @mention_me")
    ada.album([b"a", b"b"], "both")
    ada.document("../../.ssh/authorized_keys", b"key", media_type="text/plain")
    ada.voice(b"ogg")
    ada.video_note(b"mp4")
    ada.location(52.5, 13.4)
    ada.contact("+49 30 1", "Zoe")
    ada.edit(said, "hi again")
    ada.react(said, "👍")
    ada.block()
    ada.unblock()
    forum = ada.make_group("Forum", bob, forum=True)
    topic = ada.make_topic(forum, "parser")
    bob.say("in a topic", chat=forum, topic=topic)
    bob.join(forum)
    ada.promote_bot(forum)
    ada.migrate(ada.make_group("Old", kind="group"))
    ada.remove_bot(forum)
    ada.stop_draft(Draft(ada.id, 5, "…", can_stop=True))
    await clock.advance(HASTY_S)
    updates = await fetch(client)
    assert [update.update_id for update in updates] == [one["update_id"] for one in server.world.pending]
    told = {kind for update in server.world.pending for kind in update} - {"update_id"}
    assert told == set(KINDS) - {"channel_post", "edited_channel_post", "callback_query"}
    album = [message for message in messages(updates) if message.media_group_id]
    assert [message.caption for message in album] == ["both", None]
    in_topic = next(message for message in messages(updates) if message.text == "in a topic")
    assert in_topic.reply_to_message is not None
    assert in_topic.reply_to_message.message_id == in_topic.message_thread_id == topic.thread_id
    first = messages(updates)[0]
    assert [(one.type, one.offset, one.length) for one in first.entities] == [
        ("mention", 3, 15),
        ("url", 19, 12),
    ]


async def test_a_long_paste_comes_in_pieces_that_hold_all_of_it(client: BotClient, server: Server) -> None:
    ada = server.person()
    text = " ".join(f"word{n}😀" for n in range(1500))
    pieces = [post.text for post in ada.paste(text)]
    assert len(pieces) > 3
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert [message.text for message in messages(await fetch(client))] == pieces


async def test_reactions_come_only_to_those_who_name_them(
    client: BotClient, server: Server, clock: FakeClock
) -> None:
    ada = server.person()
    post = ada.say("x")
    ada.react(post, "👍")
    assert [update.message_reaction for update in await fetch(client)] == [None]
    ada.react(post, "🔥")
    await clock.advance(HASTY_S)
    assert [bool(update.message_reaction) for update in await fetch(client)] == [False, True]


class Clock:
    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


def test_published_limits_are_watched_for_each_chat_and_for_all() -> None:
    clock = Clock()
    flood = Flood(clock)
    flood.count("sendMessage", 7)
    clock.at += 0.95
    flood.count("editMessageText", 7)
    assert flood.violations == []
    clock.at += 0.5
    flood.count("sendMessage", 7)
    assert flood.violations == [], "a new message may follow an edit within the second"
    clock.at += 0.5
    flood.count("editMessageText", 7)
    flood.count("sendMessage", 7)
    flood.count("sendChatAction", 7)
    assert [violation.method for violation in flood.violations] == ["editMessageText", "sendMessage"]
    assert {violation.rule for violation in flood.violations} == {PRIVATE}
    flood.violations.clear()
    for _ in range(21):
        clock.at += 2
        flood.count("sendMessage", -100)
    assert [violation.rule for violation in flood.violations] == [GROUP]
    flood.violations.clear()
    clock.at += 60
    for chat_id in range(1, 32):
        flood.count("sendMessage", chat_id)
    assert [violation.rule for violation in flood.violations] == [ALL]


def test_enforced_limits_say_how_long_to_wait_and_count_nothing() -> None:
    clock = Clock()
    flood = Flood(clock, "enforce")
    for _ in range(20):
        flood.count("sendMessage", -100)
    clock.at += 20
    with pytest.raises(Refusal) as refused:
        flood.count("sendMessage", -100)
    assert refused.value.parameters == {"retry_after": 40}
    clock.at += 40
    flood.count("sendMessage", -100)


async def test_a_client_that_sends_too_fast_is_told_to_wait(client: BotClient, server: Server) -> None:
    ada = server.person()
    server.flood.mode = "enforce"
    server.flood.now = Clock()
    assert isinstance(await send_message(client, ada.id, "one"), Message)
    refused = await send_message(client, ada.id, "two")
    assert isinstance(refused, RetryAfter)
    assert refused.after_s == 1.0


async def test_a_request_that_was_received_is_acted_on_though_its_client_has_gone(
    client: BotClient, server: Server
) -> None:
    """As Telegram does: a closed connection takes nothing back."""
    ada, held = server.person(), server.faults.hold("sendMessage")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send_message, client, ada.id, "hello")
        await held.arrived.wait()
        tasks.cancel_scope.cancel()
    held.release()
    await server.world.until(lambda: [post.text for post in server.world.shown(ada.id)] == ["hello"])
