"""The Discord channel: receives until it is cancelled, renders, and sends one part at a time.

Memory holds only caches: the servers, and which message shows the progress of which turn.
"""

from __future__ import annotations

from typing import Any

import anyio
from anyio.abc import TaskGroup

from pilothouse.channels.discord.addresses import DISCORD, target_of
from pilothouse.channels.discord.attachments import Downloads, make_fetch
from pilothouse.channels.discord.client import Start, start
from pilothouse.channels.discord.config import DiscordConfig
from pilothouse.channels.discord.pace import Pace
from pilothouse.channels.discord.payload import Look, Message, Payload, Progress, unpack
from pilothouse.channels.discord.posts import Poster, new_nonce
from pilothouse.channels.discord.progress import render_view
from pilothouse.channels.discord.receiver import Receiver
from pilothouse.channels.discord.render import render
from pilothouse.channels.discord.rest import Calls
from pilothouse.channels.discord.sender import Sender
from pilothouse.channels.discord.servers import Places
from pilothouse.channels.discord.wire import Channel, read
from pilothouse.channels.progress import ProgressMessages
from pilothouse.core.channel import ChannelHealth, ChannelHost, Desk
from pilothouse.core.errors import DeliveryError, Rejected, TryLater, Unconfirmed
from pilothouse.core.ids import ChannelId, ConversationId, TurnId
from pilothouse.core.message import Address, Content, MessageRef, Part, conversation_id
from pilothouse.core.view import TurnView

OPENING_S = 5.0
TELLS = 16
"""How many words that nothing depends on may wait to be said."""
SHOWN = 1000
"""Progress messages whose turn we remember."""


class DiscordChannel:
    id: ChannelId = DISCORD
    type_every_s = 9.0
    finds_views = True

    def __init__(self, config: DiscordConfig, host: ChannelHost, start: Start = start) -> None:
        self._config = config
        self._start = start
        self._host = host
        self._places = Places()
        self._downloads = Downloads(host.blobs, make_fetch(config.cdn_base))
        self._sender: Sender | None = None
        self._opened = anyio.Event()
        self._receiver: Receiver | None = None
        self._telling = 0
        self._standing = ProgressMessages()
        self._turns: dict[str, TurnId] = {}
        self._nonces: dict[TurnId, str] = {}
        """Nonces of unconfirmed progress messages: sent again with the same nonce, Discord returns the same message."""

    async def run(self, desk: Desk) -> None:
        async with anyio.create_task_group() as tasks:

            async def tell(address: Address, text: str, reply_to: str) -> None:
                self._tell(tasks, address, text, reply_to)

            self._receiver = Receiver(
                self._config,
                self._host,
                desk,
                self._places,
                take_files=self._downloads.take,
                tell=tell,
                turn_of=self._turns.get,
                opened=self._connected,
                closed=self._disconnected,
                start=self._start,
            )
            try:
                await self._receiver.run()
            finally:
                self._disconnected()
                tasks.cancel_scope.cancel()

    def health(self) -> ChannelHealth:
        return self._receiver.health() if self._receiver else ChannelHealth()

    # What is said.

    def render(self, content: Content) -> tuple[Part, ...]:
        return render(content, Look(steps=self._config.steps))

    async def send(self, address: Address, part: Part) -> MessageRef:
        sender, channel, payload = await self._open(), target_of(address), unpack(part)
        turn_id = TurnId(part.data.get("turn_id", ""))
        stands = self._standing.of(turn_id) if part.data.get("kind") == "answer" and not part.again else None
        if stands is not None:
            taken = await self._take_place(sender, stands, payload, part)
            self._standing.take(turn_id, taken=taken)
            if taken:
                return stands
        if isinstance(payload, Progress) and turn_id:
            nonce = self._nonces.setdefault(turn_id, new_nonce())
            _trim(self._nonces)
            ref = MessageRef(address, str(await sender.send(channel, payload, nonce=nonce)))
            self._nonces.pop(turn_id, None)
            self._note(ref, turn_id)
            return ref
        is_notice = part.data.get("kind") == "notice"
        number = await sender.send(channel, payload, part.attachments, is_notice=is_notice)
        return MessageRef(address, str(number))

    async def type(self, address: Address) -> None:
        await (await self._open()).type(target_of(address))

    async def open_thread(self, address: Address, name: str) -> Address:
        sender, place = await self._open(), Address(DISCORD, address.place)
        known = self._places.get(address.place)
        if known is not None and known.direct:
            raise Rejected("there are no threads in private messages: ask for one in a channel of a server")
        if known is not None and known.forum:
            raise Rejected("in a forum each post is a thread of its own: make a new post for it")
        channel = read(await sender.open_thread(target_of(place), name), Channel)
        if isinstance(channel, str):
            raise Unconfirmed(f"Discord's answer about the thread cannot be read: {channel}")
        self._places.put(channel, known.guild if known else None)
        return Address(DISCORD, address.place, channel.id)

    # What changes.

    def render_view(self, view: TurnView, now: float) -> Part | None:
        return render_view(view, now)

    async def edit(self, ref: MessageRef, part: Part) -> None:
        if not self._standing.is_taken(ref):
            await (await self._open()).edit(target_of(ref.address), _number(ref), unpack(part))

    async def delete(self, ref: MessageRef) -> None:
        self._turns.pop(ref.native_id, None)
        if await self._standing.leave(ref):
            await (await self._open()).delete(target_of(ref.address), _number(ref))

    async def react(self, ref: MessageRef, emoji: str) -> None:
        await (await self._open()).react(target_of(ref.address), _number(ref), emoji)

    # The rest.

    def _note(self, ref: MessageRef, turn_id: TurnId) -> None:
        """Remember which turn a progress message shows, for 🛑 and for `final = "edit"`."""
        self._turns[ref.native_id] = turn_id
        _trim(self._turns)
        if self._config.final == "edit":
            self._standing.put(turn_id, ref)

    async def _take_place(self, sender: Sender, stands: MessageRef, payload: Payload, part: Part) -> bool:
        """Edit the answer into its progress message; return whether that worked. Files need a message of their own."""
        if not isinstance(payload, Message) or part.attachments or payload.documents:
            return False
        try:
            await sender.edit(target_of(stands.address), _number(stands), payload)
        except Rejected:
            return False
        return True

    def _connected(self, calls: Calls, pace: Pace) -> None:
        host = self._host
        poster = Poster(calls, host.blobs, host.clock, self._places.upload_bytes, host.log)
        self._sender = Sender(calls, poster, pace, host.clock)
        self._opened.set()

    def _disconnected(self) -> None:
        self._sender, self._opened = None, anyio.Event()

    async def _open(self) -> Sender:
        """Wait a moment for a connection; nothing was sent yet, so the caller may retry."""
        if self._sender is None:
            with anyio.move_on_after(OPENING_S):
                await self._opened.wait()
        if self._sender is None:
            raise TryLater(OPENING_S, "the Discord channel is not open yet")
        return self._sender

    def _tell(self, tasks: TaskGroup, address: Address, text: str, reply_to: str) -> None:
        """Beside what is received: a channel that must wait holds up no message."""
        if self._telling >= TELLS:
            self._host.log("discord.not_told", level="warning", text=text)
            return
        self._telling += 1
        tasks.start_soon(self._say, address, text, reply_to)

    async def _say(self, address: Address, text: str, reply_to: str) -> None:
        try:
            await (await self._open()).tell(target_of(address), text, reply_to)
        except DeliveryError as error:
            self._host.log("discord.not_told", text=text, why=str(error))
        finally:
            self._telling -= 1


def _trim(kept: dict[Any, Any]) -> None:
    while len(kept) > SHOWN:
        del kept[next(iter(kept))]


def _number(ref: MessageRef) -> int:
    try:
        return int(ref.native_id)
    except ValueError:
        raise Rejected(f"{ref.native_id!r} is not a Discord message") from None


LOOK_EVERY_S = 0.05


class DedicatedChannel(DiscordChannel):
    """Discord as one dedicated channel: only what is said there, and in its threads, passes through us.

    It holds only the conversations of that channel: another bot may serve the others.
    """

    def __init__(self, config: DiscordConfig, host: ChannelHost) -> None:
        super().__init__(config, host)
        self._id = config.dedicated

    def holds(self) -> tuple[ConversationId, ...]:
        return (conversation_id(Address(DISCORD, self._id)),)

    async def listening(self) -> None:
        """Returns once the gateway has spoken to us: what is said from now on is heard."""
        while self.health().heard_at is None:
            await anyio.sleep(LOOK_EVERY_S)
