"""Telegram and the real Claude CLI, with nothing between them but the gateway: what people do in the app, what the model
hears of it, and what they see then. The model replies to what was said and done, never to how often it was asked."""

from __future__ import annotations

import base64
import json
import sys
import threading
from pathlib import Path

import pytest
from tests.channels.telegram.claude_house import open_claude
from tests.channels.telegram.gateway_house import GatewayHouse, config_for
from tests.channels.telegram.server.people import Person
from tests.channels.telegram.server.running import Server
from tests.channels.telegram.server.world import Post
from tests.engines.claude import image_server
from tests.engines.claude.api import Reply, Request, Script, ScriptedApi, bash, call, say, wait_for
from tests.engines.claude.image_server import PIXEL

from pilothouse.channels.telegram.config import Trigger
from pilothouse.core.people import Role

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

PICTURE = base64.b64decode(PIXEL)
NAP = "sleep 600"


def answer(request: Request) -> Reply:
    return say(f"I heard: {request.prompt}")


def once_done(deed: Reply) -> Script:
    """Does it, and then tells what came of it."""

    def model(request: Request) -> Reply:
        if not request.tool_results:
            return deed
        return say(f"It came to this: {json.dumps(request.tool_results)}")

    return model


def asked_about(api: ScriptedApi, words: str) -> Request:
    """What the model was asked last when somebody said this."""
    return [request for request in api.main if words in request.prompt][-1]


async def buttons(house: GatewayHouse, chat_id: int, label: str) -> Post:
    posts = house.server.world.shown
    return await house.until(lambda: next((p for p in posts(chat_id) if label in p.buttons), None))


async def test_two_chats_at_once_are_answered_each_in_its_own_session(server: Server, tmp_path: Path) -> None:
    ada, bob = server.person("Ada"), server.person("Bob")
    heard: set[str] = set()
    both = threading.Event()

    def model(request: Request) -> Reply:
        """Neither is answered before the model was asked by both."""
        heard.add(request.prompt)
        if len(heard) == 2:
            both.set()
        return Reply([wait_for(both), *answer(request).blocks])

    with ScriptedApi(model).serving() as api:
        async with open_claude(server, tmp_path, {ada: "owner", bob: "member"}, api) as (house, rig):
            ada.say("what is a gannet?")
            bob.say("what is a puffin?")
            for person, bird in ((ada, "gannet"), (bob, "puffin")):
                post = await house.until_shown(person.id, f"I heard: what is a {bird}?")
                assert not post.silent
                assert len(server.world.texts(person.id)) == 1
            assert "gannet" not in asked_about(api, "puffin").text
            assert "puffin" not in asked_about(api, "gannet").text
    assert rig.leftovers() == []


async def test_a_photo_goes_to_the_model_and_a_tools_picture_comes_back(
    server: Server, tmp_path: Path
) -> None:
    ada = server.person("Ada")
    painter = {"command": sys.executable, "args": [str(image_server.__file__)]}
    servers = json.dumps({"mcpServers": {"images": painter}})
    with ScriptedApi(once_done(call("mcp__images__draw"))).serving() as api:
        async with open_claude(server, tmp_path, {ada: "owner"}, api, mcp_config=[servers]) as (house, rig):
            ada.photo(PICTURE, "draw this anew")
            await house.until_shown(ada.id, "It came to this")
            photo = await house.until(lambda: server.called("sendPhoto"))
            assert photo[0].uploads["file"].data == PICTURE
            said = [m["content"] for m in api.main[0].body["messages"] if m["role"] == "user"]
            blocks = [block for content in said if isinstance(content, list) for block in content]
            assert any("draw this anew" in block.get("text", "") for block in blocks)
            assert [block["source"]["data"] for block in blocks if block["type"] == "image"] == [PIXEL]
    assert rig.leftovers() == []


async def test_a_command_that_is_denied_never_runs_and_a_reason_goes_on_with_the_turn(
    server: Server, tmp_path: Path
) -> None:
    ada, bob = server.person("Ada"), server.person("Bob")
    with ScriptedApi(once_done(bash("touch made.txt"))).serving() as api:
        people: dict[Person, Role] = {ada: "owner", bob: "owner"}
        async with open_claude(server, tmp_path, people, api, mode="minimal") as (house, rig):
            ada.say("make it")
            bob.say("make it as well")
            post = await buttons(house, ada.id, "Deny")
            ada.press(post, "Deny")
            await house.until_shown(ada.id, "Stopped")
            await house.until(lambda: "Denied by Ada" in post.text and not post.buttons)

            other = await buttons(house, bob.id, "Deny and say why")
            bob.press(other, "Deny and say why")
            await house.until_shown(bob.id, "Tell me within a minute")
            bob.say("not on a Friday")
            told = await house.until_shown(bob.id, "It came to this")
            assert "not on a Friday" in told.text
            await house.until(lambda: "Denied by" in other.text and not other.buttons)
            assert not (rig.workspace / "made.txt").exists()
            assert not any(r.tool_results for r in api.main if r.prompt == "make it"), "a plain no ends it"


async def test_a_message_during_a_turn_waits_and_goes_on_in_the_same_session(
    server: Server, tmp_path: Path
) -> None:
    ada, go_on = server.person("Ada"), threading.Event()

    def model(request: Request) -> Reply:
        if "in blue" in request.prompt:
            return say("Blue it is.")
        return Reply([{"text": "Painting."}, wait_for(go_on)])

    with ScriptedApi(model).serving() as api:
        async with open_claude(server, tmp_path, {ada: "owner"}, api) as (house, _):
            ada.say("paint the door")
            await house.until(lambda: api.main)
            ada.say("in blue, please")
            await house.until_shown(ada.id, "still busy")
            go_on.set()
            await house.until_shown(ada.id, "Painting.")
            await house.until_shown(ada.id, "Blue it is.")
            assert "paint the door" in asked_about(api, "in blue").text


async def test_a_reply_to_an_old_answer_goes_on_in_its_session(server: Server, tmp_path: Path) -> None:
    ada = server.person("Ada")
    with ScriptedApi(answer).serving() as api:
        async with open_claude(server, tmp_path, {ada: "owner"}, api) as (house, _):
            ada.say("my cat is called Tabby")
            first = await house.until_shown(ada.id, "I heard: my cat")
            ada.say("/new")
            await house.until_shown(ada.id, "starts a new session")
            ada.say("my dog is called Rex")
            await house.until_shown(ada.id, "I heard: my dog")
            assert "Tabby" not in asked_about(api, "my dog").text
            ada.say("who was that again?", reply_to=first)
            await house.until(lambda: [r for r in api.main if "who was that" in r.prompt])
            heard = asked_about(api, "who was that").body["messages"]
            said = [json.dumps(message) for message in heard if message["role"] == "user"]
            assert any("Tabby" in text and "who was that" not in text for text in said)
            assert "Rex" not in json.dumps(heard)


async def test_a_topic_is_a_session_of_its_own(server: Server, tmp_path: Path) -> None:
    ada = server.person("Ada")
    group = ada.make_group("Work", forum=True)
    config = config_for(server, chats={str(group.id): Trigger("all")})
    with ScriptedApi(answer).serving() as api:
        async with open_claude(server, tmp_path, {ada: "owner"}, api, config=config) as (house, _):
            one, two = ada.make_topic(group, "one"), ada.make_topic(group, "two")
            ada.say("build the bridge", chat=group, topic=one)
            await house.until_shown(group.id, "build the bridge", one.thread_id)
            ada.say("dig the tunnel", chat=group, topic=two)
            await house.until_shown(group.id, "dig the tunnel", two.thread_id)
            assert "bridge" not in asked_about(api, "tunnel").text
            ada.say("how far is it?", chat=group, topic=one)
            await house.until_shown(group.id, "how far is it?", one.thread_id)
            heard = asked_about(api, "how far").text
            assert "bridge" in heard and "tunnel" not in heard
