"""Receives updates until it is cancelled: learns who we are, publishes the command menus, then polls or serves a webhook.

A refused token or a network outage is waited out and reported once. A poller that is long overdue is restarted; its
updates are still at Telegram. The channel is healthy while updates can reach us: by a successful poll, or by a webhook
that Telegram can call.

An update is confirmed only when it was handled for good or is on the disk (law 1). An offset confirms everything
before it, so a poll starts when all earlier updates are safe: usually a moment later. Pieces wait beside the poll
(`UpdateQueues.run`), because Telegram delays a repeated offset by three seconds, and a second poll ends the first.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from pilothouse.channels.intake_queue import Failures
from pilothouse.channels.receipts import Tell
from pilothouse.channels.telegram.accept import Acceptor, Presses
from pilothouse.channels.telegram.account import publish_menus, report_membership
from pilothouse.channels.telegram.client import POLL_S, Backoff, BotClient
from pilothouse.channels.telegram.config import VARIABLE, TelegramConfig
from pilothouse.channels.telegram.content import TELEGRAM, bot_with, chat_of, group_address
from pilothouse.channels.telegram.payload import (
    Target,
)
from pilothouse.channels.telegram.receive import Happening, Membership, Moved, Pressed, Stopped
from pilothouse.channels.telegram.sender import Sender
from pilothouse.channels.telegram.trouble import Conflict, NotTelegram, Trouble
from pilothouse.channels.telegram.updates import UpdateJournal, UpdateQueues
from pilothouse.channels.telegram.wire import Arrived, Me
from pilothouse.core.channel import ChannelHealth, ChannelHost, Desk
from pilothouse.core.clock import Clock, until_next
from pilothouse.core.message import Address
from pilothouse.core.secret import token_place
from pilothouse.core.trigger import Trigger

if TYPE_CHECKING:
    from pilothouse.channels.telegram.webhook import WebhookReceiver


CONFIRM_S = 2.0
AGAIN_S = 1.0
"""Pause before asking again for an update that neither store nor disk took. Within half a second Telegram would
return that update alone."""


STUCK_S = 180.0
"""A poller that is overdue for this long is restarted. A poll takes at most 65 s."""
CHECK_EVERY_S = 15.0


class Poller:
    """Polls for ever. `backoff` may outlive a poller: a trouble does not end with it."""

    def __init__(
        self,
        client: BotClient,
        queues: UpdateQueues,
        clock: Clock,
        log: Callable[..., None],
        backoff: Backoff,
    ) -> None:
        self._client = client
        self._queues = queues
        self._clock = clock
        self._log = log
        self._backoff = backoff
        self._next = 0
        self._asked = 0
        """The offset of the last poll: everything before it is confirmed."""
        self.due_at = clock.monotonic()
        """When the last round began or the next is to begin; a poller that is long overdue is stuck."""
        self.succeeded_at: float | None = None
        """Monotonic time of the last successful poll."""

    async def run(self) -> None:
        try:
            async with anyio.create_task_group() as tasks:
                await self._queues.restore()
                tasks.start_soon(self._queues.run, tasks)
                while True:
                    await self._round(tasks)
        finally:
            with anyio.move_on_after(CONFIRM_S, shield=True):
                if self._offset != self._asked:
                    await self._client.get_updates(self._offset, timeout_s=0, limit=1)

    async def _round(self, tasks: TaskGroup) -> None:
        self.due_at = self._clock.monotonic()
        await self._queues.wait_until_safe(AGAIN_S)
        self._asked = self._offset
        answer = await self._client.get_updates(self._asked, timeout_s=POLL_S if self._is_well else 0)
        if isinstance(answer, Trouble):
            await self._back_off(answer)
            return
        numbers = [one.update.update_id for one in answer if isinstance(one, Arrived)]
        if answer and not numbers:
            await self._back_off(NotTelegram("the answer holds no updates"))
            return
        self.succeeded_at = self._clock.monotonic()
        self._backoff.succeeded()
        self._queues.add(answer)
        self._queues.start_ready(tasks)  # without waiting for the journal
        self._next = max(numbers, default=self._next - 1) + 1

    @property
    def _is_well(self) -> bool:
        """The next poll may hang. After a failure an immediate answer shows whether polling works again."""
        return self.succeeded_at is not None and not self._backoff.is_failing

    @property
    def _offset(self) -> int:
        return self._queues.oldest(self._next)

    async def _back_off(self, trouble: Trouble) -> None:
        self._asked = 0  # the poll may not have arrived
        if isinstance(trouble, Conflict) and trouble.webhook:
            deleted = await self._client.delete_webhook()
            if isinstance(deleted, Trouble):
                trouble = deleted
            else:
                self._log("telegram.webhook_deleted", level="warning", why="we are set to poll")
        wait_s = self._backoff.wait_s(trouble)
        self.due_at = self._clock.monotonic() + wait_s
        await self._clock.sleep(wait_s)


class Receiver:
    def __init__(
        self,
        config: TelegramConfig,
        host: ChannelHost,
        desk: Desk,
        client: BotClient,
        sender: Sender,
        *,
        tell: Tell,
        moved: Callable[[int, int], object],
    ) -> None:
        self._config = config
        self._host = host
        self._desk = desk
        self._client = client
        self._tell = tell
        self._moved = moved
        self._presses = Presses(desk, client, sender, host.log)
        folder = Path(host.state_dir)
        self._journal = UpdateJournal(folder, host.log)
        self._failures = Failures(folder / "failed-updates.jsonl", "telegram.update", host.clock, host.log)
        place = token_place(config.token, VARIABLE)
        self._backoff = Backoff(host.clock, host.log, self._alarm, place=place)
        self._me = Me(0)
        self._source: Poller | WebhookReceiver | None = None
        self._heard_at: float | None = None
        self._trouble = ""
        self._trouble_at = float("-inf")

    async def run(self) -> None:
        me = self._me = await self._identify()
        self._host.log("telegram.connected", bot=me.username or str(me.id), mode=self._config.mode)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(
                publish_menus, self._client, self._host.commands, self._host.clock, self._host.log
            )
            if self._config.mode == "webhook":
                await self._receive_by_webhook(me)
            else:
                await self._receive_by_polling(me)

    def health(self) -> ChannelHealth:
        clock, heard = self._host.clock, self._last_heard()
        trouble = "" if heard is not None and heard > self._trouble_at else self._trouble
        return ChannelHealth(
            None if heard is None else clock.now() - (clock.monotonic() - heard),
            trouble or self._backoff.rival or self._journal.trouble or self._failures.trouble,
        )

    def _last_heard(self) -> float | None:
        times = [self._heard_at, self._source.succeeded_at if self._source else None]
        return max((at for at in times if at is not None), default=None)

    async def _identify(self) -> Me:
        while True:
            me = await self._client.get_me()
            if not isinstance(me, Trouble):
                self._backoff.succeeded()
                return me
            await self._host.clock.sleep(self._backoff.wait_s(me))

    async def _receive_by_polling(self, me: Me) -> None:
        clock = self._host.clock
        while True:
            poller = Poller(self._client, self._queues(me), clock, self._host.log, self._backoff)
            self._heard_at, self._source = self._last_heard(), poller
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(poller.run)
                while clock.monotonic() - poller.due_at < STUCK_S:
                    await clock.sleep(until_next(CHECK_EVERY_S, clock.monotonic()))
                self._host.log("telegram.poller_stuck", level="error", after_s=STUCK_S)
                tasks.cancel_scope.cancel()

    async def _receive_by_webhook(self, me: Me) -> None:
        """Serve the webhook, whose modules are imported only here: most bots poll."""
        from pilothouse.channels.telegram.webhook import WebhookReceiver, WebhookWatch

        hook, clock, log = self._config.webhook, self._host.clock, self._host.log
        webhook = self._source = WebhookReceiver(hook, self._queues(me), clock)

        def heard() -> None:
            if not webhook.refuses:
                self._heard_at = clock.monotonic()

        watch = WebhookWatch(
            self._client,
            hook,
            clock,
            log,
            self._backoff,
            called_at=lambda: webhook.called_at,
            heard=heard,
            alarm=self._alarm,
        )
        async with anyio.create_task_group() as tasks:

            def opened(port: int) -> None:
                log("telegram.listening", host=hook.host, port=port)
                tasks.start_soon(watch.run)

            await webhook.run(opened)

    def _queues(self, me: Me) -> UpdateQueues:
        clock, log = self._host.clock, self._host.log
        acceptor = Acceptor(
            self._desk,
            self._client,
            self._host.blobs,
            bot_with(me, self._host.commands),
            clock,
            reactions=self._config.reactions,
            trigger_of=self._trigger_of,
            tell=self._tell,
            others=self._handle_other,
            log=log,
        )
        wait_s = self._config.forward_wait_s
        return UpdateQueues(acceptor, clock, log, self._journal, self._failures, forward_wait_s=wait_s)

    async def _trigger_of(self, address: Address) -> Trigger:
        """Return the trigger chosen by `/trigger`, else the configured one, also by a number that the group had before."""
        if not Target(*chat_of(address)).is_group:
            return self._config.trigger
        found = await self._desk.settings_of(address)
        if found.trigger is not None:
            return found.trigger
        places = (address.place, *(before.place for before in found.former))
        named = (self._config.chats.get(place) for place in places)
        return next(filter(None, named), self._config.trigger)

    async def _handle_other(self, happening: Happening) -> None:
        match happening:
            case Pressed():
                await self._presses.pressed(happening)
            case Stopped(stop=stop):
                thread = str(stop.message_thread_id) if stop.message_thread_id else None
                await self._presses.stopped(happening, Address(TELEGRAM, str(stop.chat.id), thread))
            case Moved(old=old, new=new):
                self._moved(old, new)
                await self._desk.moved(group_address(old), group_address(new))
                self._host.log("telegram.group_moved", level="warning", old=old, new=new)
            case Membership(change=change):
                await report_membership(change, self._me, self._desk, self._trigger_of, self._host.log)
            case _:
                pass

    def _alarm(self, text: str) -> None:
        self._trouble, self._trouble_at = text, self._host.clock.monotonic()
        self._host.log("telegram.trouble", level="error", text=text)
