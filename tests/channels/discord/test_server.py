"""An unmodified discord.py in a process of its own runs on our Discord: what it sees is what Discord would show it."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio.abc import Process
from tests.channels.discord.server.cdn import File
from tests.channels.discord.server.faults import EDIT, SEND
from tests.channels.discord.server.gateway import IDENTIFY, RESUME
from tests.channels.discord.server.limits import bucket
from tests.channels.discord.server.running import Server
from tests.channels.discord.server.world import Post

DEADLINE_S = 100
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


@asynccontextmanager
async def open_bot(server: Server, token: str = "") -> AsyncIterator[Process]:
    command = [sys.executable, "-m", "tests.channels.discord.bare_bot"]
    places = [server.api_base, server.gateway_url, token or server.token]
    with anyio.fail_after(DEADLINE_S):
        async with await anyio.open_process(
            [*command, *places], cwd=ROOT, stdout=None, stderr=None
        ) as process:
            try:
                yield process
            finally:
                if process.returncode is None:
                    process.kill()


@pytest.fixture
async def bot(server: Server) -> AsyncIterator[None]:
    async with open_bot(server):
        await server.world.until(lambda: server.world.texts(server.world.general))
        yield


async def heard(server: Server, *texts: str) -> Post:
    """Waits until the bot has said these, whatever else it said; gives the last."""
    general = server.world.general
    await server.world.until(lambda: set(texts) <= set(server.world.texts(general)))
    return next(post for post in server.world.shown(general) if post.text == texts[-1])


@pytest.mark.usefixtures("bot")
async def test_a_bot_logs_in_says_types_replies_reacts_and_branches(server: Server) -> None:
    world, ada = server.world, server.person()
    assert world.texts(world.general) == ["ready 1"]
    asked = ada.say("echo hello")
    answer = await heard(server, "hello")
    await world.until(lambda: asked.reactions == ["👍"])
    assert answer.reply_to == asked.id
    assert world.typed(world.general) >= 1
    ada.say("hi", channel=ada.dm)
    await world.until(lambda: world.texts(ada.dm) == ["heard hi"])
    ada.say("branch Plans")
    await world.until(lambda: any(post.text == "in here" for post in world.posts.values()))
    (place,) = {post.channel_id for post in world.posts.values() if post.text == "in here"}
    thread = world.state.get_channel(place)
    assert (thread.name, thread.parent_id) == ("Plans", world.general.id)
    ada.say("more", channel=thread)
    await world.until(lambda: "heard more" in world.texts(thread))


@pytest.mark.usefixtures("bot")
async def test_files_cards_buttons_and_commands_work_and_what_is_too_long_is_refused(server: Server) -> None:
    world, ada = server.world, server.person()
    ada.say("upload ünïcode")
    post = await heard(server, "here")
    assert world.file(post, "note.txt").decode() == "ünïcode"
    ada.say("download", files=[File("my note.txt", b"as it was")])
    ada.say("card")
    ada.say("too-much")
    await heard(server, "read as it was", "in a card", "refused 400 50035")
    ada.say("offer")
    post = await heard(server, "press")
    pressed = await world.answered(ada.press(post, "Go"))
    assert (pressed.kind, post.texts, post.buttons) == ("update", ["press", "pressed"], {})
    await world.until(lambda: world.state.commands)
    thought = ada.command("slow", what="tea")
    await world.until(lambda: thought.text == "then tea")
    assert thought.post
    assert thought.post.texts[-2:] == ["first tea", "then tea"]


@pytest.mark.usefixtures("bot")
async def test_a_bot_stays_within_its_bucket_and_tries_again_after_502_and_429(server: Server) -> None:
    server.limits.set(EDIT, 5, 0.5)
    ada = server.person()
    ada.say("rewrite 12")
    await heard(server, "rewritten")
    (post,) = [post for post in server.world.shown(server.world.general) if len(post.versions) > 1]
    assert sorted(post.texts, key=int) == [str(n) for n in range(13)]
    assert server.limits.fullest[bucket("PATCH", f"/channels/{post.channel_id}/messages/{post.id}")] <= 5
    server.faults.storm(SEND)
    server.faults.too_many(SEND, after_s=0.05, times=2)
    server.faults.too_many(SEND, after_s=0.05, everywhere=True)
    ada.say("again")
    await heard(server, "heard again")
    assert server.faults.waiting == []


@pytest.mark.usefixtures("bot")
async def test_what_was_missed_is_told_when_a_session_resumes(server: Server) -> None:
    world, ada = server.world, server.person()
    server.gateway.drop()
    await world.until(lambda: not server.gateway.connected)
    ada.say("while you were away")
    await heard(server, "resumed", "heard while you were away")
    assert server.gateway.received[RESUME] >= 1
    server.gateway.ask_to_reconnect()
    await world.until(lambda: world.texts(world.general).count("resumed") >= 2)
    assert server.gateway.received[IDENTIFY] == 1


@pytest.mark.usefixtures("bot")
async def test_a_session_that_is_forgotten_begins_anew_and_history_fills_the_gap(server: Server) -> None:
    """More than one page of it: discord.py asks for a hundred at a time."""
    world, quiet = server.world, server.world.make_channel("quiet")
    ada = server.person()
    first = ada.say("first", channel=quiet)
    server.gateway.forget()
    for n in range(120):
        ada.say(f"line {n}", channel=quiet)
    server.gateway.drop()
    await world.until(lambda: server.gateway.connected)
    ada.say(f"recall {first.id}", channel=quiet)
    await world.until(lambda: "recalled 121 from line 0 to line 119" in world.texts(quiet))
    assert not any(text.startswith("heard line") for text in world.texts(quiet))
    assert server.gateway.received[IDENTIFY] >= 2


async def test_a_wrong_token_is_refused(server: Server) -> None:
    async with open_bot(server, token="x.y.z") as process:
        assert await process.wait() != 0
    assert [call.status for call in server.calls] == [401]
