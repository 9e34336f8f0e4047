"""Telegram as a platform of the sweep: the Bot API server of the tests, judged by aiogram and TDLib.

With `allow` it has drafts and rich messages; with `deny` it is an older one, where progress is a message and a long
answer is several. `tool` is a group, the other places are private chats.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import unescape
from pathlib import Path

from bench.crashing.platform import PLACES, RETRY, Platform, Shown, Watch, go_on
from tests.channels.telegram.server.judge_aiogram import open_judge
from tests.channels.telegram.server.people import Person
from tests.channels.telegram.server.running import Call, Server, open_server
from tests.channels.telegram.server.world import Chat, Post

from pilothouse.core.message import AGAIN_MARK

GROUP = "tool"


class TelegramPlatform:
    def __init__(self, server: Server) -> None:
        self._server = server
        self._people: dict[str, Person] = {place: server.person(place.title()) for place in PLACES}
        self._chats: dict[str, Chat] = {place: person.chat for place, person in self._people.items()}
        self._chats[GROUP] = self._people[GROUP].make_group("Work")
        self._places = {chat.id: place for place, chat in self._chats.items()}
        self._said: dict[str, Post] = {}
        self._confirmed = 0
        self.settings = {"token": server.token, "api_base": server.url}
        self.owners = [f"telegram:{person.id}" for person in self._people.values()]
        self.watch: Watch = go_on
        server.flood.mode = "off"  # the gateway's clock is hasty: see house.py
        server.before, server.after = self._before, self._after

    async def furnish(self, folder: Path) -> None:
        """Telegram itself keeps what nobody has taken."""

    def conversation(self, place: str) -> str:
        return f"telegram:{self._chats[place].id}"

    def say(self, place: str, text: str) -> str:
        words = text if place != GROUP or text.startswith("/") else f"@pilot_test_bot {text}"
        post = self._people[place].say(words, chat=self._chats[place])
        self._said[f"{place} {post.id}"] = post
        return str(post.id)

    def edit(self, place: str, native_id: str, text: str) -> None:
        self._people[place].edit(self._said[f"{place} {native_id}"], text)

    def press(self, place: str, id: str, label: str, words: str) -> bool:
        post = self._server.world.posts[self._chats[place].id, int(id)]
        if label not in post.buttons or post.deleted:
            return False
        self._people[place].press(post, label)
        return True

    def buttons(self) -> list[str]:
        standing = [post for post in self._posts() if not post.deleted]
        return [
            f"{label} under {post.text!r}" for post in standing for label in post.buttons if label != RETRY
        ]

    def shown(self) -> list[Shown]:
        return [self._shown(post) for post in self._posts()]

    def _posts(self) -> list[Post]:
        posts = self._server.world.posts.values()
        return [post for post in posts if post.by_bot and not _is_progress(post)]

    def waits(self) -> bool:
        return bool(self._server.world.pending)

    def complaints(self) -> list[str]:
        return self._server.complaints

    async def until_heard(self) -> None:
        before = len(self._server.calls)
        await self._server.world.until(
            lambda: any(call.method == "getUpdates" for call in self._server.calls[before:])
        )

    def _shown(self, post: Post) -> Shown:
        first = Post(post.versions[:1], post.by_bot, post.at)
        message, text = first.message, first.text
        if "rich_message" in message:
            text = unescape(re.sub(r"<[^>]+>", " ", text))
        elif "document" in message:  # an answer that is a file: what it says, and the mark of a repeat
            mark = AGAIN_MARK if AGAIN_MARK in text else ""
            text = f"{self._server.world.files[message['document']['file_id']].data.decode()} {mark}"
        answered = message.get("reply_to_message") or {}
        return Shown(self._places[post.chat_id], str(post.id), text, str(answered.get("message_id", "")))

    async def _before(self, call: Call) -> bool:
        """A poll is a point where it confirms something."""
        if call.method != "getUpdates":
            return await self.watch("before send")
        offset = int(call.params.get("offset") or 0)
        if offset <= self._confirmed:
            return False
        self._confirmed = offset
        return await self.watch("ack")

    async def _after(self, call: Call, result: object) -> bool:
        """A poll that brought nothing changed nothing."""
        return bool(call.method != "getUpdates" or result) and await self.watch("after send")


def _is_progress(post: Post) -> bool:
    return any("Stop" in str(version.get("reply_markup", "")) for version in post.versions)


@asynccontextmanager
async def open_platform(variant: str, shared: Path) -> AsyncIterator[Platform]:
    async with open_judge(shared) as judge, open_server(judge, rich=variant == "allow") as server:
        yield TelegramPlatform(server)
