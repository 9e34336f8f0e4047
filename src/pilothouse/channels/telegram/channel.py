"""The Telegram channel: receives until it is cancelled, renders purely, sends one part at a time.

Its memory is a cache of what the server supports and which messages show progress. A restart loses nothing else.
"""

from __future__ import annotations

from functools import partial

import anyio

from pilothouse.channels.parts import pack
from pilothouse.channels.progress import ProgressMessages
from pilothouse.channels.skeleton import Connected, ProgressCalls
from pilothouse.channels.telegram.client import open_client
from pilothouse.channels.telegram.config import TelegramConfig
from pilothouse.channels.telegram.content import TELEGRAM, chat_of, group_address
from pilothouse.channels.telegram.pace import Gate
from pilothouse.channels.telegram.payload import (
    Look,
    Message,
    Payload,
    Progress,
    Rich,
    Target,
    for_group,
    unpack,
)
from pilothouse.channels.telegram.receiver import Receiver
from pilothouse.channels.telegram.sender import Sender, ServerState, draft_number
from pilothouse.core.channel import ChannelHealth, ChannelHost, Desk
from pilothouse.core.errors import PilothouseError, Rejected, WantsPlainer
from pilothouse.core.ids import ChannelId, TurnId
from pilothouse.core.message import Address, Content, MessageRef, Part
from pilothouse.core.view import TurnView

DRAFT = "draft:"
RENEW_DRAFT_S = 20.0
"""Telegram removes a draft 30 seconds after its last update."""


class TelegramChannel:
    id: ChannelId = TELEGRAM
    withdraws_views = True
    type_every_s: float = 4.0
    """Telegram hides the typing indicator after five seconds."""

    def __init__(self, config: TelegramConfig, host: ChannelHost) -> None:
        self._config = config
        self._host = host
        self._gate = Gate(host.clock)
        self._server = ServerState()
        self._connected = Connected[Sender](
            TELEGRAM, host, lambda sender, to, *said: sender.tell(_target(to), *said)
        )
        self._receiving: Receiver | None = None
        self._progress = ProgressMessages()

    async def run(self, desk: Desk) -> None:
        async with open_client(self._config.endpoint) as client, anyio.create_task_group() as tasks:
            calls = ProgressCalls(tasks, self._host.clock)
            sender = Sender(client, self._host.blobs, self._gate, self._server, calls)
            self._connected.open(sender)
            self._receiving = Receiver(
                self._config,
                self._host,
                desk,
                client,
                sender,
                tell=partial(self._connected.tell, tasks),
                moved=self._server.record_move,
            )
            self._server.on_moved = lambda old, new: tasks.start_soon(self._report_move, desk, old, new)
            try:
                await self._receiving.run()
            finally:
                self._connected.close()
                self._server.on_moved = None
                tasks.cancel_scope.cancel()

    def health(self) -> ChannelHealth:
        return self._receiving.health() if self._receiving else ChannelHealth()

    # Messages.

    def render(self, content: Content) -> tuple[Part, ...]:
        """Render a message. The Markdown modules are imported with the first one, which keeps the start fast."""
        from pilothouse.channels.telegram.render import render

        return render(content, Look(rich=self._server.rich, steps=self._config.steps))

    def render_plainly(self, content: Content) -> tuple[Part, ...]:
        from pilothouse.channels.telegram.render import render

        return render(content, Look(rich=False, steps=self._config.steps))

    async def send(self, address: Address, part: Part) -> MessageRef:
        sender, target, payload = await self._connected.sender(), _target(address), unpack(part)
        turn_id = TurnId(part.data.get("turn_id", ""))
        if isinstance(payload, Progress):
            return await self._show_progress(sender, address, payload, turn_id)
        replace = partial(self._replace_progress, sender, payload)
        if replaced := await self._progress.replace(part, replace):
            return replaced
        said = for_group(payload) if target.is_group else payload
        number = await sender.send(target, said, part.attachments, again=part.again)
        return MessageRef(self._current_address(address), str(number))

    async def type(self, address: Address) -> None:
        await (await self._connected.sender()).type(_target(address))

    async def open_thread(self, address: Address, name: str) -> Address:
        """Open a topic of the group; `address` may be any of its topics."""
        number = await (await self._connected.sender()).open_topic(_target(address), name)
        return Address(TELEGRAM, address.place, str(number))

    # Progress and edits.

    def render_view(self, view: TurnView, now: float) -> Part | None:
        from pilothouse.channels.telegram.progress import render_view

        shown = render_view(view, now, Look(rich=self._server.rich))
        return pack(shown, about={"turn_id": view.turn_id or ""})

    async def edit(self, ref: MessageRef, part: Part) -> None:
        if self._progress.is_taken(ref):
            return
        sender, target, payload = await self._connected.sender(), _target(ref.address), unpack(part)
        if not ref.native_id.startswith(DRAFT):
            try:
                await sender.replace(target, int(ref.native_id), payload)
            except WantsPlainer:  # an edit is short, so plain text will do
                await sender.replace(
                    target, int(ref.native_id), Message(text=payload.text, reply_markup=payload.reply_markup)
                )
        elif isinstance(payload, Progress):
            await sender.draft(target, int(ref.native_id.removeprefix(DRAFT)), payload)

    def renew_view_s(self, ref: MessageRef) -> float | None:
        return RENEW_DRAFT_S if ref.native_id.startswith(DRAFT) else None

    async def delete(self, ref: MessageRef) -> None:
        """Delete a message. A draft needs no deletion: Telegram removes it when the answer arrives."""
        if not ref.native_id.startswith(DRAFT) and await self._progress.leave(ref):
            await (await self._connected.sender()).delete(_target(ref.address), int(ref.native_id))

    async def react(self, ref: MessageRef, emoji: str) -> None:
        await (await self._connected.sender()).react(_target(ref.address), int(ref.native_id), emoji)

    async def _show_progress(
        self, sender: Sender, address: Address, payload: Progress, turn_id: TurnId
    ) -> MessageRef:
        target = _target(address)
        if (
            self._config.final == "new"
            and self._server.has_drafts(target.chat)
            and not target.is_group
            and turn_id
        ):
            number = draft_number(turn_id)
            if await sender.draft(target, number, payload):
                return MessageRef(address, f"{DRAFT}{number}")
        number = await sender.send(target, payload)
        ref = MessageRef(self._current_address(address), str(number))
        if self._config.final == "edit" and turn_id:
            self._progress.put(turn_id, ref)
        return ref

    async def _replace_progress(self, sender: Sender, payload: Payload, ref: MessageRef) -> bool:
        """Edit the progress message into the answer; return false if it cannot be one."""
        if not isinstance(payload, Message | Rich):
            return False
        target, number = _target(ref.address), int(ref.native_id)
        sender.forget(target, number)
        await sender.replace(target, number, payload)
        return True

    def _current_address(self, address: Address) -> Address:
        """Return the address with the group's current number."""
        return Address(TELEGRAM, str(self._server.current(_target(address)).chat), address.thread)

    async def _report_move(self, desk: Desk, old: int, new: int) -> None:
        """Report a moved group. A failure is only logged: an update or the next refusal reports the move again."""
        try:
            await desk.moved(group_address(old), group_address(new))
        except PilothouseError as error:
            self._host.log("telegram.move_not_told", level="warning", why=str(error))


def _target(address: Address) -> Target:
    try:
        return Target(*chat_of(address))
    except ValueError:
        raise Rejected(f"{address.place!r} is not a Telegram chat number") from None
