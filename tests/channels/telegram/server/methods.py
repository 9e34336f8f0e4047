"""What a bot may call: method name in lower case → what it does. A refusal has Telegram's own words."""

from collections.abc import Callable, Mapping
from typing import Any

from tests.channels.telegram.server.content import (
    Uploads,
    flag,
    read_caption,
    read_file,
    read_keyboard,
    read_place,
    read_rich,
    read_text,
    whole,
)
from tests.channels.telegram.server.refusal import bad
from tests.channels.telegram.server.world import BOT_ID, Chat, Draft, Json, Post, Topic, World

DOWNLOAD_BYTES = 20 << 20
SHOWN = ("text", "entities", "caption", "caption_entities", "rich_message", "reply_markup")
NOT_MODIFIED = (
    "message is not modified: specified new message content and reply markup are exactly the same "
    "as a current content and reply markup of the message"
)
TOO_OLD = "query is too old and response timeout expired or query ID is invalid"

Method = Callable[[World, Json, Uploads], Any]


# Sending.


def _send(world: World, params: Json, content: Json) -> Json:
    chat, place = read_place(world, params)
    silent = flag(params.get("disable_notification"))
    return world.post(chat, world.bot, silent, **content, **place, **read_keyboard(params)).message


def send_message(world: World, params: Json, uploads: Uploads) -> Json:
    return _send(world, params, read_text(params))


def send_rich_message(world: World, params: Json, uploads: Uploads) -> Json:
    return _send(world, params, read_rich(params))


def _send_file(kind: str) -> Method:
    def send(world: World, params: Json, uploads: Uploads) -> Json:
        world.chat(params["chat_id"])
        content = {**read_file(world, kind, params.get(kind), uploads), **read_caption(params)}
        return _send(world, params, content)

    return send


def send_media_group(world: World, params: Json, uploads: Uploads) -> list[Json]:
    media = params["media"]
    if not 2 <= len(media) <= 10:
        raise bad("group of media must contain 2-10 media")
    if len({"document" if item["type"] == "document" else "visual" for item in media}) > 1:
        raise bad("can't mix documents with other media types")
    group = {"media_group_id": f"1400{world.serial()}"}
    contents = [
        {**read_file(world, item["type"], item["media"], uploads), **read_caption(item), **group}
        for item in media
    ]
    return [_send(world, params, content) for content in contents]


def send_draft(world: World, params: Json, uploads: Uploads) -> bool:
    chat = world.chat(params["chat_id"])
    if chat.type != "private":
        raise bad("drafts can be sent only to private chats")
    if not whole(params["draft_id"]):
        raise bad("DRAFT_ID_INVALID")
    if "rich_message" in params:
        text = read_rich(params)["rich_message"]["blocks"][0].get("text", "")
    else:
        text = read_text(params)["text"] if params.get("text") else ""
    thread = whole(params["message_thread_id"]) if params.get("message_thread_id") else None
    can_stop = flag(params.get("can_stop"))
    world.drafts.append(Draft(chat.id, whole(params["draft_id"]), text, can_stop, thread, world.now()))
    world.wake()
    return True


def send_chat_action(world: World, params: Json, uploads: Uploads) -> bool:
    world.actions.append((world.chat(params["chat_id"]).id, params["action"]))
    world.wake()
    return True


# Changing.


def _own(world: World, params: Json, what: str) -> Post:
    chat = world.chat(params["chat_id"])
    post = world.find(chat.id, whole(params["message_id"]))
    if post is None:
        raise bad(f"message to {what} not found")
    if not post.by_bot:
        raise bad(f"message can't be {what}ed".replace("deleteed", "deleted"))
    return post


def _edit(world: World, params: Json, content: Json, replaced: tuple[str, ...]) -> Json:
    post = _own(world, params, "edit")
    kept = {name: value for name, value in post.message.items() if name not in (*replaced, "reply_markup")}
    changed = {**kept, **content, **read_keyboard(params)}
    if all(changed.get(name) == post.message.get(name) for name in SHOWN):
        raise bad(NOT_MODIFIED)
    world.change(post, changed)
    return post.message


def edit_message_text(world: World, params: Json, uploads: Uploads) -> Json:
    content = read_rich(params) if params.get("rich_message") else read_text(params)
    post = _own(world, params, "edit")
    if "text" not in post.message and "rich_message" not in post.message:
        raise bad("there is no text in the message to edit")
    return _edit(world, params, content, ("text", "entities", "rich_message"))


def edit_message_caption(world: World, params: Json, uploads: Uploads) -> Json:
    return _edit(world, params, read_caption(params), ("caption", "caption_entities"))


def edit_message_reply_markup(world: World, params: Json, uploads: Uploads) -> Json:
    return _edit(world, params, {}, ())


def delete_message(world: World, params: Json, uploads: Uploads) -> bool:
    post = _own(world, params, "delete")
    post.deleted = True
    world.wake()
    return True


def set_message_reaction(world: World, params: Json, uploads: Uploads) -> bool:
    chat = world.chat(params["chat_id"])
    post = world.find(chat.id, whole(params["message_id"]))
    if post is None:
        raise bad("message to react not found")
    post.reactions = [reaction["emoji"] for reaction in params.get("reaction") or ()]
    world.wake()
    return True


def answer_callback_query(world: World, params: Json, uploads: Uploads) -> bool:
    query = world.queries.get(params["callback_query_id"])
    if query is None or query.expired or query.answer is not None:
        raise bad(TOO_OLD)
    if len(params.get("text") or "") > 200:
        raise bad("MESSAGE_TOO_LONG")
    query.answer = {"text": params.get("text") or "", "alert": flag(params.get("show_alert"))}
    world.wake()
    return True


# Asking.


def get_me(world: World, params: Json, uploads: Uploads) -> Json:
    return {
        **world.bot,
        "can_join_groups": True,
        "can_read_all_group_messages": True,
        "supports_inline_queries": False,
        "has_topics_enabled": False,
    }


def get_file(world: World, params: Json, uploads: Uploads) -> Json:
    file = world.files.get(params["file_id"])
    if file is None:
        raise bad("wrong file_id or the file is temporarily unavailable")
    if len(file.data) > DOWNLOAD_BYTES:
        raise bad("file is too big")
    unique = f"AgAD{params['file_id'][-6:]}"
    return {
        "file_id": params["file_id"],
        "file_unique_id": unique,
        "file_size": len(file.data),
        "file_path": file.path,
    }


# Topics.


def _forum(world: World, params: Json) -> Chat:
    chat = world.chat(params["chat_id"])
    if not chat.is_forum:
        raise bad("the chat is not a forum")
    if chat.members.get(BOT_ID) != "administrator":
        raise bad("not enough rights to create a topic")
    return chat


def create_forum_topic(world: World, params: Json, uploads: Uploads) -> Json:
    chat = _forum(world, params)
    if not 1 <= len(params["name"]) <= 128:
        raise bad("TOPIC_TITLE_EMPTY" if not params["name"] else "TOPIC_TITLE_TOO_LONG")
    created = {"name": params["name"], "icon_color": 7_322_096}
    post = world.post(chat, world.bot, forum_topic_created=created)
    post.versions[-1] |= {"message_thread_id": post.id, "is_topic_message": True}
    chat.topics[post.id] = Topic(post.id, params["name"])
    return {"message_thread_id": post.id, **created}


# The menu.


def _scope(params: Json) -> str:
    scope = params.get("scope") or {"type": "default"}
    numbers = [str(scope[name]) for name in ("chat_id", "user_id") if scope.get(name)]
    return ":".join([scope["type"], *numbers])


def set_my_commands(world: World, params: Json, uploads: Uploads) -> bool:
    if len(params["commands"]) > 100:
        raise bad("BOT_COMMANDS_TOO_MUCH")
    for command in params["commands"]:
        name, words = command["command"].removeprefix("/"), command["description"]
        if not (1 <= len(name) <= 32 and name.replace("_", "a").isalnum() and name == name.lower()):
            raise bad("BOT_COMMAND_INVALID")
        if not 1 <= len(words) <= 256:
            raise bad("BOT_COMMAND_DESCRIPTION_INVALID")
    world.commands[_scope(params)] = params["commands"]
    return True


def get_my_commands(world: World, params: Json, uploads: Uploads) -> list[Json]:
    return world.commands.get(_scope(params), [])


METHODS: Mapping[str, Method] = {
    "sendmessage": send_message,
    "sendrichmessage": send_rich_message,
    "sendphoto": _send_file("photo"),
    "senddocument": _send_file("document"),
    "sendmediagroup": send_media_group,
    "sendmessagedraft": send_draft,
    "sendrichmessagedraft": send_draft,
    "sendchataction": send_chat_action,
    "editmessagetext": edit_message_text,
    "editmessagecaption": edit_message_caption,
    "editmessagereplymarkup": edit_message_reply_markup,
    "deletemessage": delete_message,
    "setmessagereaction": set_message_reaction,
    "answercallbackquery": answer_callback_query,
    "getme": get_me,
    "getfile": get_file,
    "createforumtopic": create_forum_topic,
    "setmycommands": set_my_commands,
    "getmycommands": get_my_commands,
}

RICH = ("sendrichmessage", "sendrichmessagedraft", "sendmessagedraft")
"""What a server before Bot API 10.1 lacks (message drafts came a little earlier)."""
