"""Telegram as the house sees it: receives until it is cancelled, renders purely, sends one part at a time.

What is kept in memory is a cache: what a server can do, and which progress stands where. A restart loses nothing else.
"""

from __future__ import annotations

import anyio
from anyio.abc import TaskGroup

from pilothouse.channels.parts import pack
from pilothouse.channels.progress_message import ProgressMessages
from pilothouse.channels.telegram.addresses import TELEGRAM, chat_of, group
from pilothouse.channels.telegram.client import open_client
from pilothouse.channels.telegram.config import TelegramConfig
from pilothouse.channels.telegram.pace import Gate
from pilothouse.channels.telegram.payload import Look, Message, Payload, Progress, Rich, for_group, unpack
from pilothouse.channels.telegram.posts import Spot
from pilothouse.channels.telegram.receiver import Receiving
from pilothouse.channels.telegram.sender import Powers, Sender, draft_number
from pilothouse.core.channel import ChannelHealth, ChannelHost, Desk
from pilothouse.core.errors import DeliveryError, PilothouseError, Rejected, TryLater, WantsPlainer
from pilothouse.core.ids import ChannelId, TurnId
from pilothouse.core.message import Address, Content, MessageRef, Part
from pilothouse.core.view import TurnView

OPENING_S = 5.0
DRAFT = "draft:"
RENEW_DRAFT_S = 20.0
"""Telegram takes a draft away half a minute after it was last written."""
TELLS = 16
"""How many words that nothing depends on may wait to be said."""


class TelegramChannel:
    id: ChannelId = TELEGRAM
    type_every_s: float = 4.0
    """Telegram takes the sign away after five."""

    def __init__(self, config: TelegramConfig, host: ChannelHost) -> None:
        self._config = config
        self._host = host
        self._gate = Gate(host.clock)
        self._powers = Powers()
        self._sender: Sender | None = None
        self._opened = anyio.Event()
        self._receiving: Receiving | None = None
        self._telling = 0
        self._standing = ProgressMessages()

    async def run(self, desk: Desk) -> None:
        async with open_client(self._config.endpoint) as client, anyio.create_task_group() as tasks:
            self._sender = Sender(client, self._host.blobs, self._gate, self._powers)
            self._opened.set()
            self._receiving = Receiving(
                self._config,
                self._host,
                desk,
                client,
                self._sender,
                tell=lambda address, text, reply_to: self._tell(tasks, address, text, reply_to),
                moved=self._powers.move,
            )
            self._powers.on_moved = lambda old, new: tasks.start_soon(self._tell_moved, desk, old, new)
            try:
                await self._receiving.run()
            finally:
                self._sender, self._opened, self._powers.on_moved = None, anyio.Event(), None
                tasks.cancel_scope.cancel()

    def health(self) -> ChannelHealth:
        return self._receiving.health() if self._receiving else ChannelHealth()

    # What is said.

    def render(self, content: Content) -> tuple[Part, ...]:
        """Markdown, and all that is made of it, is read in with the first message: a start waits for none of it."""
        from pilothouse.channels.telegram.render import render

        return render(content, Look(rich=self._powers.rich))

    def render_plainly(self, content: Content) -> tuple[Part, ...]:
        from pilothouse.channels.telegram.render import render

        return render(content, Look(rich=False))

    async def send(self, address: Address, part: Part) -> MessageRef:
        sender, spot, payload = await self._open(), _spot(address), unpack(part)
        turn_id = TurnId(part.data.get("turn_id", ""))
        if isinstance(payload, Progress):
            return await self._show(sender, address, payload, turn_id)
        stands = self._standing.of(turn_id) if part.data.get("kind") == "answer" and not part.again else None
        if stands is not None:
            taken = await self._take_place(sender, stands, payload)
            self._standing.take(turn_id, taken=taken)
            if taken:
                return stands
        said = for_group(payload) if spot.is_group else payload
        number = await sender.send(spot, said, part.attachments, again=part.again)
        return MessageRef(self._now_at(address), str(number))

    async def type(self, address: Address) -> None:
        await (await self._open()).type(_spot(address))

    async def open_thread(self, address: Address, name: str) -> Address:
        """A topic of the group, whichever of its topics that was said in."""
        number = await (await self._open()).open_topic(_spot(address), name)
        return Address(TELEGRAM, address.place, str(number))

    # What changes.

    def render_view(self, view: TurnView, now: float) -> Part | None:
        from pilothouse.channels.telegram.progress import render_view

        shown = render_view(view, now, Look(rich=self._powers.rich))
        return pack(shown, about={"turn_id": view.turn_id or ""})

    async def edit(self, ref: MessageRef, part: Part) -> None:
        if self._standing.is_taken(ref):
            return
        sender, spot, payload = await self._open(), _spot(ref.address), unpack(part)
        if not ref.native_id.startswith(DRAFT):
            try:
                await sender.replace(spot, int(ref.native_id), payload)
            except WantsPlainer:  # what is short enough to be put in a place is as good without its look
                await sender.replace(
                    spot, int(ref.native_id), Message(text=payload.text, reply_markup=payload.reply_markup)
                )
        elif isinstance(payload, Progress):
            await sender.draft(spot, int(ref.native_id.removeprefix(DRAFT)), payload)

    def renew_view_s(self, ref: MessageRef) -> float | None:
        return RENEW_DRAFT_S if ref.native_id.startswith(DRAFT) else None

    async def delete(self, ref: MessageRef) -> None:
        """A draft goes away by itself when the answer comes."""
        if not ref.native_id.startswith(DRAFT) and await self._standing.leave(ref):
            await (await self._open()).delete(_spot(ref.address), int(ref.native_id))

    # The rest.

    async def _show(self, sender: Sender, address: Address, payload: Progress, turn_id: TurnId) -> MessageRef:
        spot = _spot(address)
        if (
            self._config.final == "new"
            and self._powers.has_drafts(spot.chat)
            and not spot.is_group
            and turn_id
        ):
            number = draft_number(turn_id)
            if await sender.draft(spot, number, payload):
                return MessageRef(address, f"{DRAFT}{number}")
        number = await sender.send(spot, payload)
        ref = MessageRef(self._now_at(address), str(number))
        if self._config.final == "edit" and turn_id:
            self._standing.put(turn_id, ref)
        return ref

    async def _take_place(self, sender: Sender, stands: MessageRef, payload: Payload) -> bool:
        """Whether the answer stands in the place of its progress now."""
        if not isinstance(payload, Message | Rich):
            return False
        spot, number = _spot(stands.address), int(stands.native_id)
        sender.forget(spot, number)
        try:
            await sender.replace(spot, number, payload)
        except Rejected:
            return False
        return True

    def _now_at(self, address: Address) -> Address:
        """Where something that was sent to this address really stands."""
        return Address(TELEGRAM, str(self._powers.spot(_spot(address)).chat), address.thread)

    async def _tell_moved(self, desk: Desk, old: int, new: int) -> None:
        """Whatever is in its way now: the update about it, or the next refusal, tells it again."""
        try:
            await desk.moved(group(old), group(new))
        except PilothouseError as error:
            self._host.log("telegram.move_not_told", level="warning", why=str(error))

    async def _open(self) -> Sender:
        """Nothing was sent yet, so whoever comes too early may come again."""
        with anyio.move_on_after(OPENING_S):
            await self._opened.wait()
        if self._sender is None:
            raise TryLater(OPENING_S, "the Telegram channel is not open yet")
        return self._sender

    async def _tell(self, tasks: TaskGroup, address: Address, text: str, reply_to: str) -> None:
        """Beside what is received: a chat that must wait holds up no update."""
        if self._telling >= TELLS:
            self._host.log("telegram.not_told", level="warning", text=text)
            return
        self._telling += 1
        tasks.start_soon(self._say, address, text, reply_to)

    async def _say(self, address: Address, text: str, reply_to: str) -> None:
        try:
            await (await self._open()).tell(_spot(address), text, reply_to)
        except DeliveryError as error:
            self._host.log("telegram.not_told", text=text, why=str(error))
        finally:
            self._telling -= 1


def _spot(address: Address) -> Spot:
    try:
        return Spot(*chat_of(address))
    except ValueError:
        raise Rejected(f"{address.place!r} is no chat of Telegram's") from None
