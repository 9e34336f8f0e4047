"""An answer arrives although Telegram refuses its first form, its place or its server; else somebody is told."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.channels.telegram.gateway_house import config_for, open_gateway
from tests.channels.telegram.server.running import Server
from tests.channels.telegram.server.world import Post
from tests.runtime.puppet import Play, Strings

from pilothouse.core.message import AGAIN_MARK
from pilothouse.core.trigger import Trigger

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

NO_VIEW = {"first_view_s": 600.0}
QUICKLY = {"retry_first_s": 0.02, "retry_cap_s": 0.1, "doubt_cap_s": 0.1, **NO_VIEW}


def answering(text: str) -> Play:
    async def play(strings: Strings) -> None:
        await strings.start()
        await strings.end(text)

    return play


async def test_a_storm_of_5xx_loses_no_answer(server: Server, tmp_path: Path) -> None:
    ada = server.person("Ada")
    async with open_gateway(server, tmp_path, {ada: "owner"}, **QUICKLY) as house:
        server.faults.storm("sendMessage", times=12)
        ada.say("hello")
        post = await house.until_shown(ada.id, "you said: hello")
        assert post.text == f"you said: hello\n\n{AGAIN_MARK}"


@pytest.mark.parametrize(
    "why", ["Bad Request: message is too long", "Bad Request: text must be encoded in UTF-8"]
)
async def test_what_is_refused_even_as_plain_text_becomes_a_file(
    server: Server, tmp_path: Path, why: str
) -> None:
    ada = server.person("Ada")
    play = answering("The precious **answer**.")
    async with open_gateway(server, tmp_path, {ada: "owner"}, play, **NO_VIEW) as house:
        server.faults.refuse("sendMessage", 400, why, times=2)
        ada.say("go")
        (post,) = await house.until(lambda: server.world.shown(ada.id))
        assert "document" in post.message
        assert len(server.called("sendMessage")) == 2, "with its look, and without"
        assert server.called("sendDocument")


async def test_a_repeat_is_marked_in_whichever_form_it_comes(server: Server, tmp_path: Path) -> None:
    ada = server.person("Ada")
    async with open_gateway(server, tmp_path, {ada: "owner"}, answering("The answer."), **QUICKLY) as house:
        server.faults.storm("sendMessage", times=1)
        server.faults.refuse("sendMessage", 400, "Bad Request: no", times=1)
        ada.say("go")
        (post,) = await house.until(lambda: server.world.shown(ada.id))
        assert AGAIN_MARK in post.message["caption"]


LOOKS = "# Title\n\n- **bold** and `code`\n- [link](https://example.org)\n\n```python\nprint(1)\n```\n"


def answers_in(server: Server, chat_id: int) -> list[Post]:
    """Without the greeting, which comes when it comes."""
    posts = server.world.shown(chat_id)
    return [post for post in posts if "Title" in post.text or "A word." in post.text]


ENTITIES = {"bold", "code", "text_link", "pre"}


@pytest.mark.parametrize(("words", "messages"), [(1, 1), (700, 2)])
async def test_the_first_answer_on_an_old_server_keeps_its_look(
    server: Server, tmp_path: Path, words: int, messages: int
) -> None:
    server.rich = False
    ada = server.person("Ada")
    group = ada.make_group("Work")
    play = answering(LOOKS + "A word. " * words + "The end.")
    async with open_gateway(server, tmp_path, {ada: "owner"}, play, **NO_VIEW) as house:
        ada.say("@pilot_test_bot go", chat=group)
        await house.until_shown(group.id, "The end.")
        posts = answers_in(server, group.id)
        assert {entity["type"] for entity in posts[0].message["entities"]} >= ENTITIES
        assert len(posts) == messages
        assert server.called("sendDocument") == []


async def test_on_an_old_server_an_answer_takes_the_place_of_its_progress_and_keeps_its_look(
    server: Server, tmp_path: Path
) -> None:
    server.rich = False
    ada, go_on = server.person("Ada"), anyio.Event()
    group = ada.make_group("Work")

    async def play(strings: Strings) -> None:
        await strings.start()
        await strings.tool()
        await go_on.wait()
        await strings.end(LOOKS)

    async with open_gateway(
        server, tmp_path, {ada: "owner"}, play, config=config_for(server, final="edit")
    ) as house:
        ada.say("@pilot_test_bot go", chat=group)
        progress = await house.until_button(group.id, "Stop")
        await house.until(lambda: len(progress.versions) > 1)  # what is changed is known to us by its number
        go_on.set()
        post = await house.until_shown(group.id, "Title")
        assert post.message["message_id"] == progress.message["message_id"]
        assert {entity["type"] for entity in post.message["entities"]} >= ENTITIES


async def test_a_rich_message_that_alone_is_refused_comes_with_entities_and_the_next_is_rich(
    server: Server, tmp_path: Path
) -> None:
    ada = server.person("Ada")
    group = ada.make_group("Work")
    async with open_gateway(server, tmp_path, {ada: "owner"}, answering(LOOKS), **NO_VIEW) as house:
        server.faults.refuse("sendRichMessage", 400, "Bad Request: RICH_MESSAGE_INVALID")
        for count in (1, 2):
            ada.say("@pilot_test_bot go", chat=group)
            await house.until(lambda count=count: len(answers_in(server, group.id)) == count)
        first, second = answers_in(server, group.id)
        assert first.message["entities"]
        assert "entities" not in second.message
        assert len(server.called("sendRichMessage")) == 2


async def test_one_refused_draft_costs_no_other_chat_its_drafts(server: Server, tmp_path: Path) -> None:
    ada, bob = server.person("Ada"), server.person("Bob")
    go_on = anyio.Event()

    async def play(strings: Strings) -> None:
        await strings.start()
        await strings.tool()
        await go_on.wait()
        await strings.end("ok")

    async with open_gateway(server, tmp_path, {ada: "owner", bob: "member"}, play) as house:
        server.faults.refuse("sendRichMessageDraft", 400, "Bad Request: PEER_ID_INVALID", times=1)
        server.faults.refuse("sendMessageDraft", 400, "Bad Request: PEER_ID_INVALID", times=2)
        ada.say("one")
        await house.until(lambda: any("Stop" in post.buttons for post in server.world.shown(ada.id)))
        bob.say("two")
        await house.until(lambda: any(draft.chat_id == bob.id for draft in server.world.drafts))
        go_on.set()


@pytest.mark.parametrize("how", ["topic deleted", "removed"])
async def test_an_answer_that_has_no_place_any_more_is_told_in_private_and_can_be_read_there(
    server: Server, tmp_path: Path, how: str
) -> None:
    ada = server.person("Ada")
    group = ada.make_group("Work", forum=True)
    go_on = anyio.Event()

    async def play(strings: Strings) -> None:
        await strings.start()
        if "private" not in strings.prompt.text:
            await go_on.wait()
        await strings.end("The precious answer.")

    config = config_for(server, chats={str(group.id): Trigger("all")})
    async with open_gateway(server, tmp_path, {ada: "owner"}, play, config=config) as house:
        ada.say("private")
        await house.until_shown(ada.id, "precious")
        topic = ada.make_topic(group, "one")
        ada.say("go", chat=group, topic=topic)
        await house.until(lambda: len(house.rig.engine.turns) == 2)
        if how == "removed":
            ada.remove_bot(group)
        else:
            del group.topics[topic.thread_id]
        go_on.set()
        told = await house.until_shown(ada.id, "Nothing reaches that place any more")
        command = told.text[told.text.index("/show") :].split(" shows")[0]
        before = len(server.world.shown(ada.id))
        ada.say(command)
        await house.until(lambda: len(server.world.shown(ada.id)) > before)
        assert server.world.texts(ada.id)[-1] == "The precious answer."
