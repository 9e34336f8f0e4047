"""Each method of the client, against a server whose requests and answers aiogram judges and whose texts TDLib does."""

from tests.channels.telegram.posts import (
    edit_caption,
    edit_rich,
    edit_text,
    keyboard,
    send_draft,
    send_file,
    send_message,
    send_rich,
)
from tests.channels.telegram.server.running import Server

from pilothouse.channels.telegram.client import BotClient
from pilothouse.channels.telegram.payload import (
    Button,
    Command,
    Entity,
    FileBytes,
    Scope,
)
from pilothouse.channels.telegram.trouble import Trouble
from pilothouse.channels.telegram.wire import Arrived, Message

PNG = FileBytes("plot.png", "image/png", b"\x89PNG" + bytes(200))


def is_message(result: Message | Trouble) -> Message:
    assert isinstance(result, Message), result
    return result


async def test_it_learns_who_it_is(client: BotClient, server: Server) -> None:
    me = await client.get_me()
    assert not isinstance(me, Trouble)
    assert (me.id, me.username, me.is_bot) == (server.world.bot["id"], "pilot_test_bot", True)


async def test_a_text_arrives_with_its_entities_buttons_and_what_it_answers(
    client: BotClient, server: Server
) -> None:
    ada = server.person()
    question = ada.say("how?")
    buttons = keyboard(Button("Stop", "stop:1"), Button("Go", "go:1"))
    sent = is_message(
        await send_message(
            client,
            ada.id,
            "😀 so",
            entities=(Entity("bold", 3, 2),),
            reply_markup=buttons,
            reply_to=str(question.id),
            silent=True,
        )
    )
    (post,) = server.world.shown(ada.id)
    assert sent.message_id == post.id
    assert post.message["entities"] == [{"type": "bold", "offset": 3, "length": 2}]
    assert post.buttons == {"Stop": "stop:1", "Go": "go:1"}
    assert post.message["reply_to_message"]["message_id"] == question.id
    assert post.silent
    assert server.called("sendMessage")[0].params["link_preview_options"] == {"is_disabled": True}


async def test_an_answer_to_a_deleted_message_is_still_sent(client: BotClient, server: Server) -> None:
    ada = server.person()
    question = ada.say("never mind")
    ada.delete(question)
    is_message(await send_message(client, ada.id, "too late", reply_to=str(question.id)))
    assert server.world.texts(ada.id) == ["too late"]


async def test_a_message_gets_a_reaction_that_telegram_knows(client: BotClient, server: Server) -> None:
    ada = server.person()
    question = ada.say("well?")
    assert await client.set_reaction(ada.id, question.id, "👍") is True
    assert question.reactions == ["👍"]


async def test_texts_captions_and_keyboards_can_be_changed_and_messages_deleted(
    client: BotClient, server: Server
) -> None:
    ada = server.person()
    sent = is_message(await send_message(client, ada.id, "one", reply_markup=keyboard(Button("Stop", "x"))))
    is_message(
        await edit_text(client, ada.id, sent.message_id, "two", reply_markup=keyboard(Button("Go", "y")))
    )
    (post,) = server.world.shown(ada.id)
    assert (post.text, post.buttons) == ("two", {"Go": "y"})
    is_message(await client.edit_keyboard(ada.id, sent.message_id, None))
    assert post.buttons == {}
    photo = is_message(await send_file(client, ada.id, PNG, kind="photo", caption="a plot"))
    is_message(
        await edit_caption(client, ada.id, photo.message_id, "the plot", entities=(Entity("italic", 0, 3),))
    )
    assert server.world.texts(ada.id) == ["two", "the plot"]
    assert await client.delete_message(ada.id, sent.message_id) is True
    assert server.world.texts(ada.id) == ["the plot"]


async def test_rich_messages_are_sent_edited_and_drafted(client: BotClient, server: Server) -> None:
    ada = server.person()
    sent = is_message(await send_rich(client, ada.id, "# One\n\n| a | b |\n|---|---|\n| 1 | 2 |"))
    is_message(await edit_rich(client, ada.id, sent.message_id, "<h1>Two</h1>"))
    assert server.world.texts(ada.id) == ["<h1>Two</h1>"]
    assert await send_draft(client, ada.id, 7, "", html="thinking") is True
    assert await send_draft(client, ada.id, 8, "") is True
    assert [(draft.draft_id, draft.text, draft.can_stop) for draft in server.world.drafts] == [
        (7, "thinking", True),
        (8, "", True),
    ]


async def test_photos_and_documents_arrive_byte_for_byte(client: BotClient, server: Server) -> None:
    ada = server.person()
    big = FileBytes('we"ird\n näme.bin', "not a type", bytes(range(256)) * 4000)
    photo = is_message(await send_file(client, ada.id, PNG, kind="photo", caption="plot"))
    document = is_message(await send_file(client, ada.id, big))
    assert document.document is not None
    assert await client.download(photo.photo[-1].file_id) == PNG.data
    assert await client.download(document.document.file_id) == big.data
    assert server.world.texts(ada.id) == ["plot", ""]
    assert server.world.files[document.document.file_id].media_type == "application/octet-stream"


async def test_a_press_is_answered_with_a_toast(client: BotClient, server: Server) -> None:
    ada = server.person()
    is_message(await send_message(client, ada.id, "may I?", reply_markup=keyboard(Button("Yes", "k1"))))
    query = ada.press(server.world.shown(ada.id)[0], "Yes")
    updates = await client.get_updates(0, timeout_s=5)
    assert isinstance(updates, tuple), updates
    (arrived,) = updates
    assert isinstance(arrived, Arrived)
    press = arrived.update.callback_query
    assert press is not None
    assert (press.data, press.from_.id) == ("k1", ada.id)
    assert await client.answer_callback(press.id, "Allowed", alert=True) is True
    assert query.answer == {"text": "Allowed", "alert": True}


async def test_typing_is_shown(client: BotClient, server: Server) -> None:
    ada = server.person()
    assert await client.send_typing(ada.id) is True
    assert server.world.actions == [(ada.id, "typing")]


async def test_the_menu_of_commands_is_set_for_each_scope(client: BotClient, server: Server) -> None:
    commands = [Command("stop", "Stop the turn"), Command("new", "Begin anew")]
    assert await client.set_my_commands(commands) is True
    assert await client.set_my_commands(commands[:1], scope=Scope("all_group_chats")) is True
    assert server.world.commands["all_group_chats"] == [{"command": "stop", "description": "Stop the turn"}]
    assert list(server.world.commands) == ["default", "all_group_chats"]


async def test_topics_are_made_and_written_to(client: BotClient, server: Server) -> None:
    ada = server.person()
    group = ada.make_group("Lab", forum=True)
    ada.promote_bot(group)
    topic = await client.create_topic(group.id, "parser")
    assert not isinstance(topic, Trouble)
    assert topic.message_thread_id is not None
    is_message(await send_message(client, group.id, "here", thread=topic.message_thread_id))
    assert server.world.texts(group.id, topic.message_thread_id)[-1] == "here"


async def test_webhooks_are_set_looked_at_and_deleted_without_dropping_anything(
    client: BotClient, server: Server
) -> None:
    assert await client.set_webhook("https://example.org/hook", "s3cret") is True
    info = await client.get_webhook_info()
    assert not isinstance(info, Trouble)
    assert info.url == "https://example.org/hook"
    assert await client.delete_webhook() is True
    assert server.called("deleteWebhook")[0].params == {"drop_pending_updates": False}


async def test_what_aiogram_would_not_send_is_refused_by_the_test_server(
    client: BotClient, server: Server
) -> None:
    ada = server.person()
    post = ada.say("x")
    odd = {"chat_id": ada.id, "message_id": post.id, "reaction": [{"type": "emoji", "emoji": "🧿"}]}
    reacted = await client.call("setMessageReaction", odd, bool)
    nested = await client.call(
        "sendMessage",
        {"chat_id": ada.id, "text": "x", "reply_markup": {"inline_keyboard": [[{"text": "a", "data": "b"}]]}},
        Message,
    )
    missing = await client.call("sendMessage", {"chat_id": ada.id}, Message)
    unknown = await client.call("sendTelepathy", {"chat_id": ada.id}, Message)
    whys = [trouble.text for trouble in (reacted, nested, missing, unknown) if isinstance(trouble, Trouble)]
    assert ["REACTION_INVALID" in whys[0], "reply_markup.inline_keyboard.0.0.data" in whys[1]] == [True, True]
    assert ["text: Field required" in whys[2], "not found" in whys[3]] == [True, True]
    assert len(server.complaints) == 4
    server.complaints.clear()
