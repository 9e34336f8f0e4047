"""Discord as a platform of the sweep: simcord's rules on real sockets, as the tests have them.

`batch` is a thread, `stop` a private chat, the others are channels; in `tool` we hear our name alone. With `deny` an answer
takes the place of its progress. Discord keeps what was written, and hands no press over twice: whoever sees that one failed
presses again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bench.crashing.platform import PLACES, RETRY, Platform, Shown, Watch, go_on
from simcord.backend.models import Channel
from tests.channels.discord.line import address_of
from tests.channels.discord.server.faults import ACKNOWLEDGE, EDIT, HISTORY, SEND, matches
from tests.channels.discord.server.people import Person
from tests.channels.discord.server.rest import Call
from tests.channels.discord.server.running import Server, open_server
from tests.channels.discord.server.world import Answer, Post

from pilothouse.channels.discord.journal import Marks
from pilothouse.core.message import conversation_id

THREAD, MENTIONED, DIRECT = "batch", "tool", "stop"
HEARTBEAT_MS = 1000
STOP = "Stop"
FORM_FIELD = "words"
NOT_TAKEN = (400, 403)


class DiscordPlatform:
    def __init__(self, server: Server, variant: str) -> None:
        self._server = server
        self._person: Person = server.person("ada")
        self._channels = {place: self._make(place) for place in PLACES}
        self._places = {channel.id: place for place, channel in self._channels.items()}
        self._presses: dict[str, Press] = {}
        self.settings = {
            "token": server.token,
            "api_base": server.api_base,
            "gateway_url": server.gateway_url,
            "cdn_base": server.cdn_base,
            "trigger": {"mode": "all"},
            "per_channel": {str(self._channels[MENTIONED].id): {"mode": "mention"}},
            "final": "new" if variant == "allow" else "edit",
        }
        self.owners = [f"discord:{self._person.id}"]
        self.watch: Watch = go_on
        server.gateway.heartbeat_ms = HEARTBEAT_MS  # the gateway's clock is hasty: see house.py
        server.rest.before, server.rest.after = self._before, self._after

    def _make(self, place: str) -> Channel:
        if place == DIRECT:
            return self._person.dm
        return self._person.make_thread(place) if place == THREAD else self._server.world.make_channel(place)

    async def furnish(self, folder: Path) -> None:
        """A channel that was never seen begins with what is said from then on: these were."""
        marks = Marks(folder / "marks.json", print)
        for place, channel in self._channels.items():
            marks.read_to(str(channel.id), str(channel.id), direct=place == DIRECT)
        await marks.settle()

    def conversation(self, place: str) -> str:
        return conversation_id(address_of(self._channels[place]))

    def say(self, place: str, text: str) -> str:
        named = place == MENTIONED and not text.startswith("/")
        words = f"<@{self._server.world.bot_id}> {text}" if named else text
        return str(self._person.say(words, channel=self._channels[place]).id)

    def edit(self, place: str, native_id: str, text: str) -> None:
        self._person.edit(self._server.world.posts[int(native_id)], text)

    def press(self, place: str, id: str, label: str, words: str) -> bool:
        press = self._presses.setdefault(id, Press(self._server, self._person))
        return press.go_on(self._server.world.posts[int(id)], label, words)

    def buttons(self) -> list[str]:
        standing = [post for post in self._posts() if not post.deleted]
        return [
            f"{label} under {post.text!r}"
            for post in standing
            for label in post.buttons
            if label not in (STOP, RETRY)
        ]

    def shown(self) -> list[Shown]:
        return [
            Shown(self._places[post.channel_id], str(post.id), text, str(post.reply_to or ""))
            for post in self._posts()
            if (text := _first_text(post))
        ]

    def _posts(self) -> list[Post]:
        world = self._server.world
        return [
            post for post in world.posts.values() if post.author_id == world.bot_id and not post.ephemeral
        ]

    def waits(self) -> bool:
        return any(press.waits for press in self._presses.values())

    def complaints(self) -> list[str]:
        refused = [call for call in self._server.calls if call.status in NOT_TAKEN]
        told = [
            f"{call.method} {call.path}: {call.status} {call.code}"
            for call in refused
            if matches(SEND, call.method, call.path) or matches(EDIT, call.method, call.path)
        ]
        return [*self._server.complaints, *told]

    async def until_heard(self) -> None:
        """Until it has a session."""
        before = set(self._server.gateway.sessions)
        await self._server.world.until(
            lambda: any(session.id not in before for session in self._server.gateway.connected)
        )

    async def _before(self, call: Call) -> bool:
        """Whoever asks for something changes nothing; a press is acknowledged."""
        if call.method == "GET":
            return False
        return await self.watch("ack" if matches(ACKNOWLEDGE, call.method, call.path) else "before send")

    async def _after(self, call: Call, result: Any) -> bool:
        read = matches(HISTORY, call.method, call.path) and bool(result)
        return (call.method != "GET" or read) and await self.watch("after send")


class Press:
    """Of one button: again and again, until somebody takes it, and what is in the form where one opens."""

    def __init__(self, server: Server, person: Person) -> None:
        self._server = server
        self._person = person
        self._answer: Answer | None = None
        self._to: set[str] = set()
        self._done = False

    @property
    def waits(self) -> bool:
        return self._answer is not None and not self._done

    def go_on(self, post: Post, label: str, words: str) -> bool:
        listening = {session.id for session in self._server.gateway.connected}
        if self._answer is not None and self._answer.kind == "modal":
            self._do(self._person.submit(self._answer, **{FORM_FIELD: words}), listening)
        elif self._answer is not None and self._answer.kind:
            self._done = True
        elif self._answer is None or not self._to & listening:  # it failed: nobody is there any more
            self._answer = None
            if listening and not post.deleted and label in post.buttons:
                self._do(self._person.press(post, label), listening)
        return self._done

    def _do(self, answer: Answer, listening: set[str]) -> None:
        self._answer, self._to = answer, listening


def _first_text(post: Post) -> str:
    """As it stood there when it was no progress any more; empty if it always was."""
    kept: list[Post] = []
    for version in reversed(post.versions):
        one = Post(post.message, [version])
        if STOP in one.buttons:
            break
        kept.append(one)
    return kept[-1].text if kept else ""


@asynccontextmanager
async def open_platform(variant: str, shared: Path) -> AsyncIterator[Platform]:
    async with open_server() as server:
        yield DiscordPlatform(server, variant)
