"""The Discord channel: receives until it is cancelled, renders, and sends one part at a time.

Memory holds only caches: the servers, and which message shows the progress of which turn.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import anyio

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
from pilothouse.channels.skeleton import Connected
from pilothouse.core.channel import ChannelHealth, ChannelHost, Desk
from pilothouse.core.errors import NoThreads, Rejected, Unconfirmed
from pilothouse.core.ids import ChannelId, ConversationId, TurnId
from pilothouse.core.message import Address, Content, MessageRef, Part, conversation_id
from pilothouse.core.view import TurnView

SHOWN = 1000
"""Progress messages whose turn we remember."""


class DiscordChannel:
    id: ChannelId = DISCORD
    type_every_s = 9.0
    finds_views = True
    withdraws_views = True

    def __init__(self, config: DiscordConfig, host: ChannelHost, start: Start = start) -> None:
        self._config = config
        self._start = start
        self._host = host
        self._places = Places()
        self._downloads = Downloads(host.blobs, make_fetch(config.cdn_base))
        self._connected = Connected[Sender](
            DISCORD, host, lambda sender, to, *said: sender.tell(target_of(to), *said)
        )
        self._receiver: Receiver | None = None
        self._progress = ProgressMessages()
        self._turns: dict[str, TurnId] = {}
        self._nonces: dict[TurnId, str] = {}
        """Nonces of unconfirmed progress messages: sent again with the same nonce, Discord returns the same message."""

    async def run(self, desk: Desk) -> None:
        async with anyio.create_task_group() as tasks:
            self._receiver = Receiver(
                self._config,
                self._host,
                desk,
                self._places,
                take_files=self._downloads.take,
                tell=partial(self._connected.tell, tasks),
                turn_of=self._turns.get,
                opened=self._open,
                closed=self._connected.close,
                start=self._start,
            )
            try:
                await self._receiver.run()
            finally:
                self._connected.close()
                tasks.cancel_scope.cancel()

    def health(self) -> ChannelHealth:
        return self._receiver.health() if self._receiver else ChannelHealth()

    # What is said.

    def render(self, content: Content) -> tuple[Part, ...]:
        return render(content, Look(steps=self._config.steps))

    async def send(self, address: Address, part: Part) -> MessageRef:
        sender, channel, payload = await self._connected.sender(), target_of(address), unpack(part)
        turn_id = TurnId(part.data.get("turn_id", ""))
        if replaced := await self._progress.replace(
            part, partial(self._replace_progress, sender, part, payload)
        ):
            return replaced
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

    def file_bytes(self, address: Address) -> int:
        return self._places.upload_bytes(str(target_of(address)))

    async def type(self, address: Address) -> None:
        await (await self._connected.sender()).type(target_of(address))

    async def open_thread(self, address: Address, name: str) -> Address:
        sender, place = await self._connected.sender(), Address(DISCORD, address.place)
        known = self._places.get(address.place)
        if known is not None and known.direct:
            raise NoThreads("there are no threads in private messages: ask for one in a channel of a server")
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
        if not self._progress.is_taken(ref):
            await (await self._connected.sender()).edit(target_of(ref.address), _number(ref), unpack(part))

    async def delete(self, ref: MessageRef) -> None:
        self._turns.pop(ref.native_id, None)
        if await self._progress.leave(ref):
            await (await self._connected.sender()).delete(target_of(ref.address), _number(ref))

    async def react(self, ref: MessageRef, emoji: str) -> None:
        await (await self._connected.sender()).react(target_of(ref.address), _number(ref), emoji)

    # The rest.

    def _note(self, ref: MessageRef, turn_id: TurnId) -> None:
        """Remember which turn a progress message shows, for 🛑 and for `final = "edit"`."""
        self._turns[ref.native_id] = turn_id
        _trim(self._turns)
        if self._config.final == "edit":
            self._progress.put(turn_id, ref)

    async def _replace_progress(self, sender: Sender, part: Part, payload: Payload, ref: MessageRef) -> bool:
        """Edit the answer into its progress message; return false if it needs one of its own, as files do."""
        if not isinstance(payload, Message) or part.attachments or payload.documents:
            return False
        await sender.edit(target_of(ref.address), _number(ref), payload)
        return True

    def _open(self, calls: Calls, pace: Pace) -> None:
        host = self._host
        poster = Poster(calls, host.blobs, host.clock, self._places.upload_bytes, host.log)
        self._connected.open(Sender(calls, poster, pace, host.clock))


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
