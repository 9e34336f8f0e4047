"""A client that we did not write and do not use runs on the same server, so that it cannot drift to please ours."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import hikari
import pytest
from tests.channels.discord.server.cdn import File
from tests.channels.discord.server.running import Server

DEADLINE_S = 100

pytestmark = pytest.mark.slow


async def on_message(event: hikari.MessageCreateEvent) -> None:
    message = event.message
    if message.author.is_bot:
        return
    if message.attachments:
        data = await message.attachments[0].read()
        await message.respond(f"{len(data)} bytes", attachment=hikari.Bytes(data, "back.bin"))
        return
    row = hikari.impl.MessageActionRowBuilder()
    row.add_interactive_button(hikari.ButtonStyle.PRIMARY, "again", label="Again")
    answer = await message.respond(f"you said {message.content}", component=row, reply=True)
    await answer.edit(f"you did say {message.content}")
    await message.add_reaction("👍")


async def on_press(event: hikari.InteractionCreateEvent) -> None:
    interaction = event.interaction
    assert isinstance(interaction, hikari.ComponentInteraction)
    await interaction.create_initial_response(hikari.ResponseType.DEFERRED_MESSAGE_UPDATE)
    await interaction.edit_initial_response("settled", components=[])


@asynccontextmanager
async def open_bot(server: Server) -> AsyncIterator[hikari.GatewayBot]:
    intents = hikari.Intents.ALL_UNPRIVILEGED | hikari.Intents.MESSAGE_CONTENT
    bot = hikari.GatewayBot(server.token, rest_url=server.api_base, intents=intents, banner=None, logs=None)
    bot.subscribe(hikari.MessageCreateEvent, on_message)
    bot.subscribe(hikari.InteractionCreateEvent, on_press)
    await bot.start(check_for_updates=False)
    try:
        yield bot
    finally:
        with anyio.CancelScope(shield=True):
            await bot.close()


async def test_a_bot_on_hikari_talks_shows_buttons_and_moves_files(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    world, ada = server.world, server.person()
    with anyio.fail_after(DEADLINE_S), caplog.at_level(logging.ERROR):
        async with open_bot(server):
            asked = ada.say("hello")
            await world.until(lambda: asked.reactions == ["👍"])
            (post,) = world.shown(world.general)
            assert post.texts == ["you said hello", "you did say hello"]
            assert post.reply_to == asked.id
            pressed = ada.press(post, "Again")
            await world.until(lambda: post.text == "settled")
            assert (pressed.kind, post.buttons) == ("deferred_update", {})
            ada.say("", files=[File("in.bin", bytes(5000))])
            await world.until(lambda: "5000 bytes" in world.texts(world.general))
            assert world.file(world.shown(world.general)[-1], "back.bin") == bytes(5000)
            ada.say("and in private", channel=ada.dm)
            await world.until(lambda: world.texts(ada.dm) == ["you did say and in private"])
    assert [record.getMessage() for record in caplog.records] == []


async def test_hikari_resumes_and_hears_what_it_missed(server: Server) -> None:
    world, ada = server.world, server.person()
    with anyio.fail_after(DEADLINE_S):
        async with open_bot(server):
            server.gateway.drop()
            await world.until(lambda: not server.gateway.connected)
            ada.say("missed")
            await world.until(lambda: world.texts(world.general) == ["you did say missed"])


async def test_hikari_understands_how_the_server_refuses(server: Server) -> None:
    rest = hikari.RESTApp(url=server.api_base)
    await rest.start()
    try:
        async with rest.acquire(server.token, hikari.TokenType.BOT) as client:
            with pytest.raises(hikari.BadRequestError) as refused:
                await client.create_message(server.world.general.id, "x" * 2001)
            assert refused.value.code == 50035
            with pytest.raises(hikari.NotFoundError) as unknown:
                await client.create_message(1234567890123, "x")
            assert unknown.value.code == 10003
        async with rest.acquire("wrong", hikari.TokenType.BOT) as client:
            with pytest.raises(hikari.UnauthorizedError):
                await client.fetch_my_user()
    finally:
        await rest.close()
