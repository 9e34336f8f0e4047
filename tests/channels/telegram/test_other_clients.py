"""A client that we did not write runs on the same server, so that it cannot drift to please ours."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
import telegram
from tests.channels.telegram.server.running import Server


async def on_message(update: Any, context: Any) -> None:
    message = update.effective_message
    if message.photo:
        file = await message.photo[-1].get_file()
        data = bytes(await file.download_as_bytearray())
        await message.reply_document(data, filename="back.bin", caption=f"{len(data)} bytes")
    else:
        button = telegram.InlineKeyboardButton("Again", callback_data="again")
        markup = telegram.InlineKeyboardMarkup([[button]])
        await message.reply_text(f"*{message.text}*", parse_mode="MarkdownV2", reply_markup=markup)


async def on_press(update: Any, context: Any) -> None:
    await update.callback_query.answer("pressed")
    await update.callback_query.edit_message_text("settled")


@asynccontextmanager
async def open_bot(server: Server) -> AsyncIterator[Any]:
    from telegram.ext import ApplicationBuilder, CallbackQueryHandler, MessageHandler, filters

    builder = ApplicationBuilder().token(server.token)
    app: Any = builder.base_url(f"{server.url}/bot").base_file_url(f"{server.url}/file/bot").build()
    app.add_handler(MessageHandler(filters.ALL, on_message))
    app.add_handler(CallbackQueryHandler(on_press))
    async with app:
        await app.start()
        await app.updater.start_polling(poll_interval=0.0, timeout=5)
        try:
            yield app
        finally:
            await app.updater.stop()
            await app.stop()


async def test_a_bot_on_python_telegram_bot_talks_shows_buttons_and_moves_files(server: Server) -> None:
    ada = server.person()
    with anyio.fail_after(60):
        async with open_bot(server) as app:
            ada.say("hello")
            await server.world.until(lambda: server.world.texts(ada.id) == ["hello"])
            (post,) = server.world.shown(ada.id)
            assert post.message["entities"][0]["type"] == "bold"
            query = ada.press(post, "Again")
            await server.world.until(lambda: post.text == "settled")
            assert query.answer == {"text": "pressed", "alert": False}
            ada.photo(b"\xff\xd8" + bytes(5000))
            await server.world.until(lambda: len(server.world.shown(ada.id)) == 2)
            assert server.world.texts(ada.id)[1] == "5002 bytes"
            media = [telegram.InputMediaPhoto(b"a"), telegram.InputMediaPhoto(b"b", caption="two")]
            assert len(await app.bot.send_media_group(ada.id, media)) == 2
            await app.bot.set_message_reaction(ada.id, post.id, "👍")
            await app.bot.send_message_draft(ada.id, 1, "drafting")
            rich = {"chat_id": ada.id, "rich_message": {"markdown": "# Rich"}}
            await app.bot.do_api_request("sendRichMessage", api_kwargs=rich)
    assert post.reactions == ["👍"]
    assert server.world.drafts[0].text == "drafting"
    assert server.world.texts(ada.id)[-1] == "# Rich"


@pytest.mark.filterwarnings("ignore::telegram.warnings.PTBDeprecationWarning")
async def test_python_telegram_bot_understands_how_the_server_refuses(server: Server) -> None:
    from telegram import error

    ada = server.person()
    bot = telegram.Bot(server.token, base_url=f"{server.url}/bot")
    async with bot:
        with pytest.raises(error.BadRequest, match="reserved"):
            await bot.send_message(ada.id, "a.b", parse_mode="MarkdownV2")
        server.faults.too_many("sendMessage", after_s=9)
        with pytest.raises(error.RetryAfter) as flood:
            await bot.send_message(ada.id, "hi")
        assert "9 seconds" in str(flood.value)
        await bot.set_webhook("https://example.org/hook")
        with pytest.raises(error.Conflict):
            await bot.get_updates()
        ada.block()
        with pytest.raises(error.Forbidden):
            await bot.send_message(ada.id, "hi")
        group = ada.make_group("Lab", kind="group")
        new = ada.migrate(group)
        with pytest.raises(error.ChatMigrated) as moved:
            await bot.send_message(group.id, "hi")
        assert moved.value.new_chat_id == new.id
