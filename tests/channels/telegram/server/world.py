"""All that Telegram knows: people, chats, topics, messages, files, button presses, and the updates that wait.

Values are the Bot API's own JSON, so that what a bot reads is what stands here.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tests.channels.telegram.judge_tdlib import units
from tests.channels.telegram.server.refusal import bad, forbidden

Json = dict[str, Any]

BOT_ID = 4_242_424
FIRST_UPDATE = 731_000_001
DRAFT_S = 30.0
"""So long after it was last written a draft is taken away."""
NEEDS_NAMING = ("chat_member", "message_reaction", "message_reaction_count")
"""Updates that come only to those who name them in `allowed_updates`."""


@dataclass
class Topic:
    thread_id: int
    name: str
    closed: bool = False


@dataclass
class Chat:
    id: int
    type: str
    title: str = ""
    is_forum: bool = False
    user: Json | None = None
    members: dict[int, str] = field(default_factory=dict)
    """Status by user id, the bot's among them."""
    topics: dict[int, Topic] = field(default_factory=dict)
    migrated_to: int | None = None
    blocked: bool = False

    def as_json(self) -> Json:
        if self.user is not None:
            names = {
                key: self.user[key] for key in ("first_name", "last_name", "username") if key in self.user
            }
            return {"id": self.id, "type": "private", **names}
        return {
            "id": self.id,
            "type": self.type,
            "title": self.title,
            **({"is_forum": True} if self.is_forum else {}),
        }


@dataclass
class Post:
    """A message and each state that it ever had."""

    versions: list[Json]
    by_bot: bool
    at: float
    deleted: bool = False
    silent: bool = False
    reactions: list[str] = field(default_factory=list)

    @property
    def message(self) -> Json:
        return self.versions[-1]

    @property
    def id(self) -> int:
        return self.message["message_id"]

    @property
    def chat_id(self) -> int:
        return self.message["chat"]["id"]

    @property
    def thread_id(self) -> int | None:
        return self.message.get("message_thread_id")

    @property
    def text(self) -> str:
        """What a person reads: text, caption, or a rich message's source."""
        message = self.message
        rich = message.get("rich_message")
        if rich is not None:
            return "\n".join(block.get("text", "") for block in rich["blocks"])
        return message.get("text") or message.get("caption") or ""

    @property
    def buttons(self) -> dict[str, str]:
        """Label → callback data or address."""
        rows = self.message.get("reply_markup", {}).get("inline_keyboard", ())
        return {
            button["text"]: button.get("callback_data") or button.get("url", "")
            for row in rows
            for button in row
        }


@dataclass
class StoredFile:
    name: str
    data: bytes
    media_type: str

    @property
    def path(self) -> str:
        return f"documents/{self.name}"


@dataclass
class Query:
    """A pressed button, and what the bot said to who pressed it."""

    id: str
    answer: Json | None = None
    expired: bool = False


@dataclass
class Draft:
    chat_id: int
    draft_id: int
    text: str
    can_stop: bool
    thread_id: int | None = None
    at: float = 0.0


class World:
    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self.now = now
        self.bot: Json = {"id": BOT_ID, "is_bot": True, "first_name": "Pilot", "username": "pilot_test_bot"}
        self.users: dict[int, Json] = {BOT_ID: self.bot}
        self.chats: dict[int, Chat] = {}
        self.posts: dict[tuple[int, int], Post] = {}
        self.files: dict[str, StoredFile] = {}
        self.queries: dict[str, Query] = {}
        self.drafts: list[Draft] = []
        self.commands: dict[str, list[Json]] = {}
        self.actions: list[tuple[int, str]] = []
        self.pending: list[Json] = []
        self.allowed: list[str] = []
        self.news = asyncio.Event()
        self._private_ids = count(1)
        self._group_ids: dict[int, Iterator[int]] = {}
        self._update_ids = count(FIRST_UPDATE)
        self._counter = count(1)

    # Time passes.

    def wake(self) -> None:
        news, self.news = self.news, asyncio.Event()
        news.set()

    async def until(self, seen: Callable[[], object]) -> None:
        """Waits until `seen` holds; it is asked again after everything that happens."""
        while not seen():
            await self.news.wait()

    def serial(self) -> int:
        return next(self._counter)

    # What stands where.

    def shown(self, chat_id: int, thread_id: int | None = None) -> list[Post]:
        """What the bot has said in a chat and what still stands there, oldest first."""
        return [
            post
            for (place, _), post in self.posts.items()
            if place == chat_id and post.by_bot and not post.deleted and post.thread_id == thread_id
        ]

    def texts(self, chat_id: int, thread_id: int | None = None) -> list[str]:
        return [post.text for post in self.shown(chat_id, thread_id)]

    def draft(self, chat_id: int, thread_id: int | None = None) -> Draft | None:
        """What a person sees being written there."""
        here = (one for one in self.drafts if (one.chat_id, one.thread_id) == (chat_id, thread_id))
        return next((one for one in reversed(list(here)) if self.now() - one.at < DRAFT_S), None)

    def find(self, chat_id: int, message_id: int) -> Post | None:
        post = self.posts.get((chat_id, message_id))
        return None if post is None or post.deleted else post

    def chat(self, chat_id: int | str) -> Chat:
        """Where the bot wants to do something, if it may know of it."""
        number = int(chat_id) if str(chat_id).lstrip("-").isdigit() else 0
        chat = self.chats.get(number)
        if chat is None:
            raise bad("chat not found")
        if chat.migrated_to:
            upgraded = "group chat was upgraded to a supergroup chat"
            raise bad(upgraded, migrate_to_chat_id=chat.migrated_to)
        if chat.blocked:
            raise forbidden("bot was blocked by the user")
        if chat.user is None and chat.members.get(BOT_ID) not in ("member", "administrator"):
            how = "was kicked from" if chat.members.get(BOT_ID) == "kicked" else "is not a member of"
            raise forbidden(f"bot {how} the {chat.type} chat")
        return chat

    # What happens.

    def post(self, chat: Chat, sender: Json, silent: bool = False, **content: Any) -> Post:
        """A new message; the ids of a supergroup are its own, those of all other chats are shared."""
        ids = self._private_ids
        if chat.type in ("supergroup", "channel"):
            ids = self._group_ids.setdefault(chat.id, count(1))
        message = {
            "message_id": next(ids),
            "date": int(self.now()),
            "chat": chat.as_json(),
            "from": sender,
            **content,
        }
        post = Post([message], sender["id"] == BOT_ID, self.now(), silent=silent)
        self.posts[chat.id, post.id] = post
        self.wake()
        return post

    def change(self, post: Post, message: Json) -> None:
        post.versions.append({**message, "edit_date": int(self.now())})
        self.wake()

    def push(self, kind: str, value: Json) -> Json:
        """Something that the bot shall hear of, if it wants this kind."""
        update = {"update_id": next(self._update_ids), kind: value}
        if kind in self.allowed or (not self.allowed and kind not in NEEDS_NAMING):
            self.pending.append(update)
            self.wake()
        return update

    def repeat(self, update: Json) -> None:
        """Telegram tells it once more, under the same number, as it does when a confirmation was lost."""
        self.pending.insert(0, update)
        self.wake()

    def reverse(self) -> None:
        """What waits comes in the wrong order."""
        self.pending.reverse()

    def keep(self, name: str, data: bytes, media_type: str = "application/octet-stream") -> Json:
        file_id = f"BQACAgIAAx{self.serial():06d}"
        self.files[file_id] = StoredFile(f"file_{len(self.files)}", data, media_type)
        return {"file_id": file_id, "file_unique_id": f"AgAD{file_id[-6:]}", "file_size": len(data)}

    def clip(self, text: str, limit: int) -> Iterator[str]:
        """As Telegram's apps cut a long paste: in its second half, at a line's end, else a space, else anywhere."""
        while units(text) > limit:
            cut = limit
            while units(text[:cut]) > limit:
                cut -= 1
            seams = [text.rfind(mark, cut // 2, cut) for mark in ("\n", " ")]
            cut = next((seam for seam in seams if seam > 0), cut)
            yield text[:cut]
            text = text[cut:].lstrip("\n ")
        yield text
