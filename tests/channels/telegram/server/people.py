"""What people do in Telegram, and what the bot hears of it."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tests.channels.telegram.judge_tdlib import (
    CAPTION_LIMIT,
    TEXT_LIMIT,
    Entity,
    Judged,
    detect,
    type_in,
    units,
)
from tests.channels.telegram.server.world import BOT_ID, Chat, Draft, Json, Post, Query, Topic, World

ADMIN_RIGHTS = (
    "can_be_edited",
    "is_anonymous",
    "can_manage_chat",
    "can_delete_messages",
    "can_manage_video_chats",
    "can_restrict_members",
    "can_promote_members",
    "can_change_info",
    "can_invite_users",
    "can_post_stories",
    "can_edit_stories",
    "can_delete_stories",
    "can_send_welcome_messages",
)

ANONYMOUS: Json = {
    "id": 1_087_968_824,
    "is_bot": True,
    "first_name": "Group",
    "username": "GroupAnonymousBot",
}
"""Who Telegram says it was when an administrator speaks as the group. A button is pressed by the person all the same."""
TELEGRAM: Json = {"id": 777_000, "is_bot": False, "first_name": "Telegram"}
"""Who puts a channel's posts into the group where they are discussed."""


def member(user: Json, status: str) -> Json:
    more: Json = {}
    if status == "administrator":
        more = dict.fromkeys(ADMIN_RIGHTS, False) | {"can_manage_chat": True}
    elif status == "creator":
        more = {"is_anonymous": False}
    elif status == "kicked":
        more = {"until_date": 0}
    return {"status": status, "user": user, **more}


class Person:
    """Somebody with the app. `chat` is the private one with the bot, unless another is named."""

    def __init__(
        self, world: World, first_name: str = "Ada", *, username: str = "", started: bool = True
    ) -> None:
        self.world = world
        self.id = 10_000 + world.serial()
        self.user: Json = {"id": self.id, "is_bot": False, "first_name": first_name, "language_code": "en"}
        if username:
            self.user["username"] = username
        world.users[self.id] = self.user
        self.chat = Chat(self.id, "private", user=self.user)
        if started:
            world.chats[self.id] = self.chat

    # Saying.

    def say(self, text: str, *, chat: Chat | None = None, **more: Any) -> Post:
        """`topic`, `reply_to`, `quote`, `forwarded_from`, `anonymous` as in the app."""
        return self._send(chat, _words("text", "entities", text), **more)

    def paste(self, text: str, *, chat: Chat | None = None, **more: Any) -> list[Post]:
        """A text of any length, which the app sends in pieces."""
        typed = type_in(text)
        posts: list[Post] = []
        start = 0
        for piece in self.world.clip(typed.text, TEXT_LIMIT):
            start = typed.text.index(piece, start)
            part = Judged(piece, tuple(_within(typed.entities, units(typed.text[:start]), units(piece))))
            posts.append(self._send(chat, _told("text", "entities", part), **more))
        return posts

    def photo(self, data: bytes, caption: str = "", *, chat: Chat | None = None, **more: Any) -> Post:
        return self._send(chat, {**self._photo(data), **_caption(caption)}, **more)

    def document(
        self,
        name: str,
        data: bytes,
        caption: str = "",
        *,
        media_type: str = "application/octet-stream",
        chat: Chat | None = None,
        **more: Any,
    ) -> Post:
        file = {**self.world.keep(name, data, media_type), "file_name": name, "mime_type": media_type}
        return self._send(chat, {"document": file, **_caption(caption)}, **more)

    def album(
        self, pictures: Sequence[bytes], caption: str = "", *, chat: Chat | None = None, **more: Any
    ) -> list[Post]:
        """One message in the app, several for the bot; the caption is the first one's."""
        group = {"media_group_id": f"1300{self.world.serial()}"}
        return [
            self._send(chat, {**self._photo(data), **_caption("" if n else caption), **group}, **more)
            for n, data in enumerate(pictures)
        ]

    def voice(self, data: bytes, *, chat: Chat | None = None, **more: Any) -> Post:
        file = {**self.world.keep("voice.oga", data, "audio/ogg"), "duration": 3, "mime_type": "audio/ogg"}
        return self._send(chat, {"voice": file}, **more)

    def video_note(self, data: bytes, *, chat: Chat | None = None, **more: Any) -> Post:
        file = {**self.world.keep("note.mp4", data, "video/mp4"), "duration": 3, "length": 240}
        return self._send(chat, {"video_note": file}, **more)

    def location(self, latitude: float, longitude: float, *, chat: Chat | None = None) -> Post:
        return self._send(chat, {"location": {"latitude": latitude, "longitude": longitude}})

    def contact(self, phone: str, first_name: str, *, chat: Chat | None = None) -> Post:
        return self._send(chat, {"contact": {"phone_number": phone, "first_name": first_name}})

    def send(self, content: Json, *, chat: Chat | None = None, **more: Any) -> Post:
        """Anything else that the app can send: a checklist, a story."""
        return self._send(chat, content, **more)

    def publish(self, text: str, *, discussed_in: Chat) -> Post:
        """A post of their channel, as Telegram forwards it to the group that is linked with it."""
        channel = {"id": -(1_000_000_000_000 + self.world.serial()), "type": "channel", "title": "News"}
        origin = {"type": "channel", "date": int(self.world.now()), "chat": channel, "message_id": 5}
        content: Json = {**_words("text", "entities", text), "sender_chat": channel}
        content |= {"is_automatic_forward": True, "forward_origin": origin}
        post = self.world.post(discussed_in, TELEGRAM, **content)
        self.world.push("message", post.message)
        return post

    def edit(self, post: Post, text: str) -> Post:
        """The new words bring entities of their own, and none of the old ones."""
        kept = {name: value for name, value in post.message.items() if not name.endswith("entities")}
        words = _words("text", "entities", text) if "text" in kept else _caption(text)
        self.world.change(post, {**kept, **words})
        self.world.push("edited_message", post.message)
        return post

    def delete(self, post: Post) -> None:
        """Bots are not told."""
        post.deleted = True
        self.world.wake()

    # Pressing.

    def press(self, post: Post, label: str, *, inaccessible: bool = False) -> Query:
        """`inaccessible`: of the message Telegram tells no more than where it is, and not even the topic."""
        found = [data for text, data in post.buttons.items() if text == label]
        assert found, f"there is no button {label!r} among {list(post.buttons)}"
        return self.forge(post, found[0], inaccessible=inaccessible)

    def forge(self, post: Post, data: str, *, inaccessible: bool = False) -> Query:
        """A press of a button that is not there, as a hostile app could send it."""
        query = Query(f"98{self.world.serial():012d}")
        self.world.queries[query.id] = query
        known = {name: post.message[name] for name in ("chat", "message_id")}
        value = {
            "id": query.id,
            "from": self.user,
            "message": {**known, "date": 0} if inaccessible else post.message,
            "chat_instance": "-77",
            "data": data,
        }
        self.world.push("callback_query", value)
        return query

    def react(self, post: Post, *emoji: str) -> None:
        old = [{"type": "emoji", "emoji": one} for one in post.reactions]
        post.reactions = list(emoji)
        new = [{"type": "emoji", "emoji": one} for one in emoji]
        value = {
            "chat": post.message["chat"],
            "message_id": post.id,
            "date": int(self.world.now()),
            "user": self.user,
            "old_reaction": old,
            "new_reaction": new,
        }
        self.world.push("message_reaction", value)

    def stop_draft(self, draft: Draft, *, as_text: bool = False, names_topic: bool = True) -> None:
        """`as_text`: some servers write the number of a draft in quotes; not each of them names its topic."""
        thread = {"message_thread_id": draft.thread_id} if draft.thread_id and names_topic else {}
        number = str(draft.draft_id) if as_text else draft.draft_id
        value = {"chat": self.chat.as_json(), "draft_id": number, **thread}
        self.world.push("stopped_message_generation", value)

    def block(self) -> None:
        self.chat.blocked = True
        self._bot_became("kicked", "member", self.chat)

    def unblock(self) -> None:
        self.chat.blocked = False
        self._bot_became("member", "kicked", self.chat)

    # Groups.

    def make_group(
        self, title: str, *others: "Person", kind: str = "supergroup", forum: bool = False
    ) -> Chat:
        """A group with the bot in it, which is told so."""
        number = -(1_000_000_000_000 + self.world.serial()) if kind == "supergroup" else -self.world.serial()
        chat = Chat(number, kind, title, forum)
        chat.members = {self.id: "creator", **{other.id: "member" for other in others}}
        self.world.chats[number] = chat
        self.add_bot(chat)
        return chat

    def add_bot(self, chat: Chat) -> None:
        before, chat.members[BOT_ID] = chat.members.get(BOT_ID, "left"), "member"
        self._bot_became("member", before, chat)
        self.world.push("message", self._service(chat, new_chat_members=[self.world.bot]).message)

    def remove_bot(self, chat: Chat) -> None:
        before, chat.members[BOT_ID] = chat.members[BOT_ID], "kicked"
        self._bot_became("kicked", before, chat)

    def promote_bot(self, chat: Chat) -> None:
        before, chat.members[BOT_ID] = chat.members[BOT_ID], "administrator"
        self._bot_became("administrator", before, chat)

    def join(self, chat: Chat) -> None:
        chat.members[self.id] = "member"
        self.world.push("message", self._service(chat, new_chat_members=[self.user]).message)

    def make_topic(self, chat: Chat, name: str) -> Topic:
        post = self._service(chat, forum_topic_created={"name": name, "icon_color": 7_322_096})
        topic = Topic(post.id, name)
        chat.topics[topic.thread_id] = topic
        post.versions[-1] |= {"message_thread_id": topic.thread_id, "is_topic_message": True}
        self.world.push("message", post.message)
        return topic

    def migrate(self, chat: Chat) -> Chat:
        """The group becomes a supergroup with another id; the bot is told on both sides."""
        new = Chat(-(1_000_000_000_000 + self.world.serial()), "supergroup", chat.title, members=chat.members)
        self.world.chats[new.id] = new
        self.world.push("message", self._service(chat, migrate_to_chat_id=new.id).message)
        chat.migrated_to = new.id
        self.world.push("message", self._service(new, migrate_from_chat_id=chat.id).message)
        return new

    # Within.

    def _send(
        self,
        chat: Chat | None,
        content: Json,
        *,
        topic: Topic | None = None,
        reply_to: Post | None = None,
        quote: str = "",
        forwarded_from: "Person | None" = None,
        anonymous: bool = False,
    ) -> Post:
        chat = chat or self.chat
        if chat is self.chat and self.id not in self.world.chats:
            self.world.chats[self.id] = chat
        content = {**content, **self._context(chat, topic, reply_to)}
        if quote:
            content["quote"] = {"text": quote, "position": 0, "is_manual": True}
        if forwarded_from is not None:
            content["forward_origin"] = {
                "type": "user",
                "date": int(self.world.now()) - 60,
                "sender_user": forwarded_from.user,
            }
        sender = self.user
        if anonymous:
            assert chat.members.get(self.id) in ("creator", "administrator"), "only those may be anonymous"
            sender, content["sender_chat"] = ANONYMOUS, chat.as_json()
        post = self.world.post(chat, sender, **content)
        if chat.user is not None or BOT_ID in chat.members:
            self.world.push("message", post.message)
        return post

    def _context(self, chat: Chat, topic: Topic | None, reply_to: Post | None) -> Json:
        """In a topic every message that answers nothing seems to answer the message that made the topic."""
        context: Json = {}
        if topic is not None:
            context = {"message_thread_id": topic.thread_id, "is_topic_message": True}
            root = self.world.find(chat.id, topic.thread_id)
            if root is not None:
                context["reply_to_message"] = _without_reply(root.message)
        if reply_to is not None:
            context["reply_to_message"] = _without_reply(reply_to.message)
        return context

    def _photo(self, data: bytes) -> Json:
        small = {**self.world.keep("small.jpg", data[: max(1, len(data) // 4)]), "width": 90, "height": 67}
        return {
            "photo": [
                small,
                {**self.world.keep("photo.jpg", data, "image/jpeg"), "width": 1280, "height": 960},
            ]
        }

    def _service(self, chat: Chat, **content: Any) -> Post:
        return self.world.post(chat, self.user, **content)

    def _bot_became(self, now: str, before: str, chat: Chat) -> None:
        value = {
            "chat": chat.as_json(),
            "from": self.user,
            "date": int(self.world.now()),
            "old_chat_member": member(self.world.bot, before),
            "new_chat_member": member(self.world.bot, now),
        }
        self.world.push("my_chat_member", value)


def _within(entities: Iterable[Entity], start: int, length: int) -> Iterator[Json]:
    """What is left of them where an app cuts a text."""
    for one in entities:
        begin = max(one["offset"], start)
        end = min(one["offset"] + one["length"], start + length)
        if begin < end:
            yield {**one, "offset": begin - start, "length": end - begin}


def _words(name: str, entities: str, text: str) -> Json:
    return _told(name, entities, type_in(text))


def _told(name: str, entities: str, typed: Judged) -> Json:
    """With what Telegram finds by itself, but for what is code."""
    found = list(typed.entities)
    found += [
        one
        for one in detect(typed.text)
        if not any(
            _overlap(one, other) for other in typed.entities if other["type"] in ("code", "pre", "text_link")
        )
    ]
    found.sort(key=lambda one: (one["offset"], -one["length"]))
    return {name: typed.text, **({entities: found} if found else {})}


def _overlap(one: Entity, other: Entity) -> bool:
    return (
        one["offset"] < other["offset"] + other["length"] and other["offset"] < one["offset"] + one["length"]
    )


def _caption(caption: str) -> Json:
    assert len(caption) <= CAPTION_LIMIT
    return _words("caption", "caption_entities", caption) if caption else {}


def _without_reply(message: Json) -> Json:
    return {name: value for name, value in message.items() if name != "reply_to_message"}
