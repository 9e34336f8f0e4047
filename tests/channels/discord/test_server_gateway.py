"""What the gateway does with each frame, as Discord's does."""

import discord
import pytest
from tests.channels.discord.raw_client import identify, open_line
from tests.channels.discord.server.gateway import ACK, HEARTBEAT, INVALID, MEMBERS, RECONNECT, RESUME
from tests.channels.discord.server.running import Server


@pytest.mark.parametrize("compress", [False, True])
async def test_whoever_identifies_is_greeted_with_itself_and_its_guilds(
    server: Server, compress: bool
) -> None:
    async with open_line(server, compress=compress) as line:
        await line.say(*identify(server))
        ready = await line.hear_event("READY")
        guild = await line.hear_event("GUILD_CREATE")
        assert ready["d"]["user"]["id"] == str(server.world.bot_id)
        assert (ready["s"], guild["s"]) == (1, 2)
        assert [channel["name"] for channel in guild["d"]["channels"]] == ["general"]
        await line.say(HEARTBEAT, 2)
        assert (await line.hear())["op"] == ACK


async def test_a_wrong_token_closes_with_4004(server: Server) -> None:
    async with open_line(server) as line:
        await line.say(*identify(server, token="x.y.z"))
        assert await line.hear() == {"closed": 4004}


async def test_an_intent_that_the_portal_refuses_closes_with_4014(server: Server) -> None:
    server.refuse_message_content()
    async with open_line(server) as line:
        await line.say(*identify(server))
        assert await line.hear() == {"closed": 4014}


async def test_who_asks_before_identifying_is_closed_with_4003(server: Server) -> None:
    async with open_line(server) as line:
        await line.say(MEMBERS, {"guild_id": str(server.world.guild.id)})
        assert await line.hear() == {"closed": 4003}


async def test_who_identifies_twice_is_closed_with_4005(server: Server) -> None:
    async with open_line(server) as line:
        await line.say(*identify(server))
        await line.hear_event("GUILD_CREATE")
        await line.say(*identify(server))
        assert await line.hear() == {"closed": 4005}


async def test_without_the_intent_content_is_empty_unless_it_speaks_to_the_bot(server: Server) -> None:
    intents = discord.Intents.all()
    intents.message_content = False
    intents.guild_reactions = False
    ada = server.person()
    async with open_line(server) as line:
        await line.say(*identify(server, intents))
        await line.hear_event("GUILD_CREATE")
        heard = []
        for text in ("to nobody", f"<@{server.world.bot_id}> to you"):
            post = ada.say(text)
            ada.react(post, "👀")
            heard.append((await line.hear())["d"]["content"])
        ada.say("private", channel=ada.dm)
        heard.append((await line.hear_event("MESSAGE_CREATE"))["d"]["content"])
    assert heard == ["", f"<@{server.world.bot_id}> to you", "private"]


async def test_a_session_resumes_after_what_was_heard_last(server: Server) -> None:
    ada = server.person()
    async with open_line(server) as line:
        await line.say(*identify(server))
        session_id = (await line.hear_event("READY"))["d"]["session_id"]
        ada.say("one")
        seen = await line.hear_event("MESSAGE_CREATE")
        server.gateway.drop()
        assert "closed" in await line.hear()
    ada.say("two")
    ada.say("three")
    async with open_line(server) as line:
        await line.say(RESUME, {"token": server.token, "session_id": session_id, "seq": seen["s"]})
        frames = [await line.hear() for _ in range(3)]
        assert [frame["t"] for frame in frames] == ["MESSAGE_CREATE", "MESSAGE_CREATE", "RESUMED"]
        assert [frame["d"].get("content") for frame in frames] == ["two", "three", None]
        assert [frame["s"] - seen["s"] for frame in frames] == [1, 2, 3]


async def test_a_session_that_is_unknown_or_not_so_far_does_not_resume(server: Server) -> None:
    async with open_line(server) as line:
        await line.say(RESUME, {"token": server.token, "session_id": "gone", "seq": 1})
        frame = await line.hear()
        assert (frame["op"], frame["d"]) == (INVALID, False)
        await line.say(*identify(server))
        session_id = (await line.hear_event("READY"))["d"]["session_id"]
        server.gateway.drop()
    async with open_line(server) as line:
        await line.say(RESUME, {"token": server.token, "session_id": session_id, "seq": 99})
        assert await line.hear() == {"closed": 4007}


async def test_who_says_good_bye_leaves_no_session(server: Server) -> None:
    async with open_line(server) as line:
        await line.say(*identify(server))
        await line.hear_event("GUILD_CREATE")
        await line.socket.close(code=1000)
    await server.world.until(lambda: not server.gateway.sessions)


async def test_the_server_asks_to_reconnect_and_stops_listening(server: Server) -> None:
    server.gateway.deaf = True
    async with open_line(server) as line:
        await line.say(*identify(server))
        await line.hear_event("GUILD_CREATE")
        await line.say(HEARTBEAT, 1)
        await server.world.until(lambda: server.gateway.received[HEARTBEAT])
        server.gateway.ask_to_reconnect()
        assert (await line.hear())["op"] == RECONNECT


async def test_a_repeated_event_comes_under_a_new_number(server: Server) -> None:
    async with open_line(server) as line:
        await line.say(*identify(server))
        await line.hear_event("GUILD_CREATE")
        post = server.person().say("twice")
        server.gateway.tell("MESSAGE_CREATE", post.wire)
        first, second = [await line.hear_event("MESSAGE_CREATE") for _ in range(2)]
        assert first["d"]["id"] == second["d"]["id"]
        assert second["s"] == first["s"] + 1


async def test_members_are_told_to_who_asks(server: Server) -> None:
    ada = server.person()
    async with open_line(server) as line:
        await line.say(*identify(server))
        await line.say(
            MEMBERS, {"guild_id": str(server.world.guild.id), "query": "ad", "limit": 0, "nonce": "n"}
        )
        chunk = (await line.hear_event("GUILD_MEMBERS_CHUNK"))["d"]
        assert [member["user"]["id"] for member in chunk["members"]] == [str(ada.id)]
        assert chunk["nonce"] == "n"
