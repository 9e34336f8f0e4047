"""What the REST API does with each request, as Discord's does; and what goes wrong when a test says so."""

import io

import anyio
import pytest
from aiohttp import ClientError, FormData
from tests.channels.discord.raw_client import open_raw
from tests.channels.discord.server.cdn import File
from tests.channels.discord.server.faults import ACKNOWLEDGE, EDIT, FOLLOW_UP, REACT, SEND
from tests.channels.discord.server.running import Server, open_server

MESSAGE, DEFERRED, UPDATE, CHOICES, MODAL = 4, 5, 7, 8, 9


def form(text: str, name: str, data: bytes) -> FormData:
    form = FormData()
    form.add_field("payload_json", f'{{"content": "{text}"}}', content_type="application/json")
    form.add_field("files[0]", io.BytesIO(data), filename=name)
    return form


async def test_an_enforced_nonce_makes_one_message(server: Server) -> None:
    async with open_raw(server) as raw:
        general = server.world.general
        server.faults.lose_answer(SEND)
        with pytest.raises(ClientError):
            await raw.send(general.id, "once", nonce="n-1", enforce_nonce=True)
        status, again = await raw.send(general.id, "once", nonce="n-1", enforce_nonce=True)
        assert (status, again["nonce"]) == (200, "n-1")
        assert [post.id for post in server.world.shown(general)] == [int(again["id"])]
        await raw.send(general.id, "twice", nonce="n-2")
        await raw.send(general.id, "twice", nonce="n-2")
    assert server.world.texts(general) == ["once", "twice", "twice"]


async def test_a_message_that_is_dropped_before_it_is_done_is_not_there(server: Server) -> None:
    server.faults.drop(SEND)
    async with open_raw(server) as raw:
        with pytest.raises(ClientError):
            await raw.send(server.world.general.id, "x")
    assert server.world.texts(server.world.general) == []


async def test_a_request_that_was_received_is_acted_on_though_its_client_has_gone(server: Server) -> None:
    """As Discord does: a closed connection takes nothing back."""
    general, held = server.world.general, server.faults.hold(SEND)
    async with open_raw(server) as raw, anyio.create_task_group() as tasks:
        tasks.start_soon(raw.send, general.id, "hello")
        await held.arrived.wait()
        tasks.cancel_scope.cancel()
    held.release()
    await server.world.until(lambda: server.world.texts(general) == ["hello"])


async def test_an_archived_thread_wakes_when_written_to_but_nothing_in_it_changes(server: Server) -> None:
    thread = server.person().make_thread("Plans")
    async with open_raw(server) as raw:
        _, sent = await raw.send(thread.id, "x")
        server.world.archive(thread)
        path = f"/channels/{thread.id}/messages/{sent['id']}"
        status, refused = await raw.call("PATCH", path, {"content": "y"})
        assert (status, refused["code"]) == (400, 50083)
        assert (await raw.send(thread.id, "wake"))[0] == 200
        assert (await raw.call("PATCH", path, {"content": "y"}))[0] == 200
        server.world.archive(thread, locked=True)
        assert (await raw.send(thread.id, "wake"))[0] == 403


async def test_what_is_gone_is_unknown(server: Server) -> None:
    world, ada = server.world, server.person()
    place = world.make_channel("attic")
    async with open_raw(server) as raw:
        _, sent = await raw.send(place.id, "x")
        ada.delete(world.posts[int(sent["id"])])
        gone = await raw.call("PATCH", f"/channels/{place.id}/messages/{sent['id']}", {"content": "y"})
        world.delete_channel(place)
        nowhere = await raw.send(place.id, "x")
        ada.close_dms()
        closed = await raw.send(ada.dm.id, "x")
    assert [(status, body["code"]) for status, body in (gone, nowhere, closed)] == [
        (404, 10008),
        (404, 10003),
        (403, 50007),
    ]


async def test_faults_say_what_discord_says(server: Server) -> None:
    faults, post = server.faults, server.person().say("x")
    path = f"/channels/{post.channel_id}/messages/{post.id}"
    faults.missing_permission(SEND)
    faults.too_old_to_edit(after_s=60)
    faults.thread_archived(REACT)
    async with open_raw(server) as raw:
        asked = [
            await raw.send(post.channel_id, "x"),
            await raw.call("PATCH", path, {"content": "x"}),
            await raw.call("PUT", f"{path}/reactions/%F0%9F%91%8D/@me"),
            await raw.call("PUT", f"{path}/reactions/%F0%9F%91%8D/@me"),
        ]
    said = [(status, body and body["code"]) for status, body in asked]
    assert said == [(403, 50013), (429, 30046), (400, 50083), (204, None)]
    assert post.reactions == ["👍"]


async def test_a_file_of_more_than_ten_mebibytes_is_refused(server: Server) -> None:
    path = f"/channels/{server.world.general.id}/messages"
    async with open_raw(server) as raw:
        assert (await raw.call("POST", path, form("fits", "a.bin", bytes(10 << 20))))[0] == 200
        status, refused = await raw.call("POST", path, form("no", "a.bin", bytes((10 << 20) + 1)))
        (post,) = server.world.shown(server.world.general)
        async with raw.session.get(server.address_of(post, "a.bin")) as response:
            assert await response.read() == bytes(10 << 20)
    assert (status, refused["code"]) == (413, 40005)


async def test_a_held_answer_is_too_late_after_three_seconds_and_after_a_quarter_of_an_hour(
    server: Server,
) -> None:
    ada = server.person()
    async with open_raw(server) as raw:
        row = {"type": 1, "components": [{"type": 2, "style": 1, "label": "Go", "custom_id": "go"}]}
        _, sent = await raw.send(server.world.general.id, "press", components=[row])
        post = server.world.posts[int(sent["id"])]
        late, slow = ada.press(post, "Go"), ada.press(post, "Go")
        assert (await raw.answer(slow, DEFERRED, flags=64))[0] == 204
        held = server.faults.hold(ACKNOWLEDGE)
        async with anyio.create_task_group() as tasks:

            async def acknowledge() -> None:
                status, refused = await raw.answer(late, MESSAGE, content="x")
                assert (status, refused["code"]) == (404, 10062)

            tasks.start_soon(acknowledge)
            await held.arrived.wait()
            server.world.pass_time(4)
            held.release()
        assert (await raw.follow_up(slow, "in time"))[0] == 200
        server.world.pass_time(15 * 60)
        status, refused = await raw.follow_up(slow, "too late")
    assert (status, refused["code"]) == (404, 10015)
    assert (late.kind, slow.text, slow.ephemeral) == ("", "in time", True)
    assert server.called(FOLLOW_UP)[-1].code == 10015


async def test_people_choose_fill_in_command_and_use_menus(server: Server) -> None:
    world, ada = server.world, server.person()
    scope = f"/applications/{world.state.application_id}/guilds/{world.guild.id}"
    options = [{"name": "model", "type": 3, "description": "x", "required": True, "autocomplete": True}]
    sub = {"name": "set", "type": 1, "description": "x", "options": options}
    menu_options = [{"label": label, "value": label.lower()} for label in ("Red", "Blue")]
    menu = {"type": 3, "custom_id": "colour", "options": menu_options, "max_values": 2}
    field = {"type": 4, "custom_id": "why", "label": "Why", "style": 1}
    async with open_raw(server) as raw:
        commands = [
            {"name": "agent", "type": 1, "description": "x", "options": [sub]},
            {"name": "Ask", "type": 3},
        ]
        assert (await raw.call("PUT", f"{scope}/commands", commands))[0] == 200
        _, sent = await raw.send(world.general.id, "choose", components=[{"type": 1, "components": [menu]}])
        chosen = ada.choose(world.posts[int(sent["id"])], "Red", "Blue")
        await raw.answer(
            chosen, MODAL, custom_id="form", title="Form", components=[{"type": 1, "components": [field]}]
        )
        filed = ada.submit(chosen, why="because")
        await raw.answer(filed, MESSAGE, content="thanks", flags=64)
        typed = ada.type_option("agent set", "model", "op")
        await raw.answer(typed, CHOICES, choices=[{"name": "Opus", "value": "opus"}])
        done = ada.command("agent set", model="opus")
        await raw.answer(done, MESSAGE, content="set")
        used = ada.use_on(ada.say("what is this?"), "Ask")
        await raw.answer(used, MESSAGE, content="a question")
    told = [payload["data"] for event, payload in world.events if event == "INTERACTION_CREATE"]
    assert told[0]["values"] == ["red", "blue"]
    assert told[1]["components"][0]["components"][0]["value"] == "because"
    assert told[3]["options"][0]["options"] == [{"name": "model", "type": 3, "value": "opus"}]
    assert next(iter(told[4]["resolved"]["messages"].values()))["content"] == "what is this?"
    assert (filed.text, filed.ephemeral, typed.choices, done.text, used.text) == (
        *("thanks", True),
        *(["Opus"], "set", "a question"),
    )


async def test_files_may_lie(server: Server) -> None:
    ada, elsewhere = server.person(), f"{server.cdn_base}/elsewhere"
    slow = File("slow.bin", b"abcd", slow=True)
    files = [
        File("small.bin", b"x", told_bytes=1 << 30),
        File("empty.bin", b"xx", served=b""),
        File("moved.bin", b"x", redirect_to=elsewhere),
        File("endless.bin", b"x", endless=True),
        File("gone.bin", b"x", status=404),
        slow,
    ]
    post = ada.say("look", files=files)
    told = {file["filename"]: file for file in post.wire["attachments"]}
    assert told["small.bin"]["size"] == 1 << 30
    async with open_raw(server) as raw:

        async def fetch(name: str) -> tuple[int, bytes]:
            async with raw.session.get(server.address_of(post, name), allow_redirects=False) as response:
                return response.status, await response.content.read(3)

        assert await fetch("small.bin") == (200, b"x")
        assert await fetch("empty.bin") == (200, b"")
        assert (await fetch("moved.bin"))[0] == 302
        assert (await fetch("endless.bin"))[0] == 200
        assert (await fetch("gone.bin"))[0] == 404
        assert (await fetch("slow.bin"))[0] == 200
        assert slow.asked.is_set()


async def test_what_simcord_cannot_do_is_complained_about() -> None:
    async with open_server() as server, open_raw(server) as raw:
        assert (await raw.call("GET", "/channels/1/no-such-thing"))[0] == 501
        body = {"content": "x", "no_such_field": 1}
        assert (await raw.call("POST", f"/channels/{server.world.general.id}/messages", body))[0] == 501
        assert len(server.complaints) == 2


async def test_the_bot_hears_of_others_bots_webhooks_and_roles(server: Server) -> None:
    world, role = server.world, server.world.make_role("crew")
    ada, other = server.person(), server.person("other", bot=True)
    ada.give_role(role)
    other.say(f"<@{world.bot_id}> hi")
    server.hook(world.general).say("news", username="Gazette")
    ada.say("hello")
    heard = [payload for event, payload in world.events if event == "MESSAGE_CREATE"]
    assert [payload["author"]["bot"] for payload in heard] == [True, True, False]
    assert [payload["author"]["username"] for payload in heard] == ["other", "Gazette", "ada"]
    assert heard[1]["webhook_id"]
    assert heard[2]["member"]["roles"] == [str(role.id)]
    assert server.called(EDIT) == []


async def test_buttons_work_in_private_and_in_threads_and_only_where_they_are(server: Server) -> None:
    world, ada = server.world, server.person()
    thread = ada.make_thread("Plans", at=ada.say("let us plan"))
    row = {"type": 1, "components": [{"type": 2, "style": 1, "label": "Go", "custom_id": "go"}]}
    async with open_raw(server) as raw:
        for place in (ada.dm, thread):
            _, sent = await raw.send(place.id, "press", components=[row])
            post = world.posts[int(sent["id"])]
            await raw.answer(ada.press(post, "Go"), UPDATE, content="done", components=[])
            assert (post.text, post.buttons) == ("done", {})
            with pytest.raises(AssertionError, match="no button"):
                ada.press(post, "Go")
    told = [payload for event, payload in world.events if event == "INTERACTION_CREATE"]
    assert [payload.get("guild_id") for payload in told] == [None, str(world.guild.id)]
    assert [payload["channel_id"] for payload in told] == [str(ada.dm.id), str(thread.id)]


async def test_what_a_command_names_is_told_in_full(server: Server) -> None:
    world, ada, bob = server.world, server.person(), server.person("bob")
    scope = f"/applications/{world.state.application_id}/guilds/{world.guild.id}"
    kinds = {"who": 6, "where": 7, "what": 11}
    options = [{"name": name, "type": kind, "description": "x"} for name, kind in kinds.items()]
    commands = [
        {"name": "send", "type": 1, "description": "x", "options": options},
        {"name": "Greet", "type": 2},
    ]
    label = {"type": 18, "label": "Why", "component": {"type": 4, "custom_id": "why", "style": 2}}
    async with open_raw(server) as raw:
        await raw.call("PUT", f"{scope}/commands", commands)
        file = File("a.txt", b"abc")
        sent = ada.command("send", who=bob, where=world.general, what=file)
        await raw.answer(sent, MODAL, custom_id="form", title="Form", components=[label])
        ada.submit(sent, why="because")
        ada.use_on(bob, "Greet")
    told = [payload["data"] for event, payload in world.events if event == "INTERACTION_CREATE"]
    resolved = told[0]["resolved"]
    assert resolved["users"][str(bob.id)]["username"] == "bob"
    assert resolved["channels"][str(world.general.id)]["name"] == "general"
    assert [one["filename"] for one in resolved["attachments"].values()] == ["a.txt"]
    assert told[1]["components"][0]["component"]["value"] == "because"
    assert (told[2]["target_id"], told[2]["type"]) == (str(bob.id), 2)
