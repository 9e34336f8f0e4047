"""One run of whoever receives: learns who we are, puts up the menu, and takes updates until it is cancelled.

A token that is refused, or a network that is down, is waited out and told once. A poller that has not even tried for a
while is started anew: its updates are still at Telegram's. Heard is what shows that updates reach us: a poll that went
well, or a webhook that Telegram can call.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from pilothouse.channels.failures import Failures
from pilothouse.channels.telegram.addressing import TELEGRAM, chat_of, group
from pilothouse.channels.telegram.arriving import take_membership
from pilothouse.channels.telegram.client import BotClient
from pilothouse.channels.telegram.config import VARIABLE, TelegramConfig
from pilothouse.channels.telegram.keeping import Keeping
from pilothouse.channels.telegram.lanes import Lanes
from pilothouse.channels.telegram.menu import put_up_menu
from pilothouse.channels.telegram.poll import Poller
from pilothouse.channels.telegram.posting import Spot
from pilothouse.channels.telegram.presses import Presses
from pilothouse.channels.telegram.receive import Happening, Membership, Moved, Pressed, Stopped
from pilothouse.channels.telegram.sending import Sender
from pilothouse.channels.telegram.setbacks import Setbacks
from pilothouse.channels.telegram.taking import Taker
from pilothouse.channels.telegram.trigger import us_with
from pilothouse.channels.telegram.trouble import Trouble
from pilothouse.channels.telegram.wire import Me
from pilothouse.channels.telling import Tell
from pilothouse.channels.tokens import place_of
from pilothouse.core.channel import ChannelHealth, ChannelHost, Desk
from pilothouse.core.message import Address
from pilothouse.core.trigger import Trigger

if TYPE_CHECKING:
    from pilothouse.channels.telegram.hooked import Hooked

STUCK_S = 180.0
"""A poll waits for 65 s at most. A pause between two is as long as it was meant to be."""
LOOK_EVERY_S = 15.0


class Receiving:
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
        self._keeping = Keeping(folder, host.log)
        self._failures = Failures(folder / "failed-updates.jsonl", "telegram.update", host.clock, host.log)
        place = place_of(config.token, VARIABLE)
        self._setbacks = Setbacks(host.clock, host.log, self._alarm, place=place)
        self._me = Me(0)
        self._source: Poller | Hooked | None = None
        self._heard_at: float | None = None
        self._trouble = ""
        self._trouble_at = float("-inf")

    async def run(self) -> None:
        me = self._me = await self._meet()
        self._host.log("telegram.connected", bot=me.username or str(me.id), mode=self._config.mode)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(put_up_menu, self._client, self._host.commands, self._host.clock, self._host.log)
            if self._config.mode == "webhook":
                await self._be_called(me)
            else:
                await self._poll(me)

    def health(self) -> ChannelHealth:
        clock, heard = self._host.clock, self._last_heard()
        trouble = "" if heard is not None and heard > self._trouble_at else self._trouble
        return ChannelHealth(
            None if heard is None else clock.now() - (clock.monotonic() - heard),
            trouble or self._setbacks.contested or self._keeping.trouble or self._failures.trouble,
        )

    def _last_heard(self) -> float | None:
        times = [self._heard_at, self._source.succeeded_at if self._source else None]
        return max((at for at in times if at is not None), default=None)

    async def _meet(self) -> Me:
        while True:
            me = await self._client.get_me()
            if not isinstance(me, Trouble):
                self._setbacks.over()
                return me
            await self._host.clock.sleep(self._setbacks.wait_s(me))

    async def _poll(self, me: Me) -> None:
        clock = self._host.clock
        while True:
            poller = Poller(self._client, self._lanes(me), clock, self._host.log, self._setbacks)
            self._heard_at, self._source = self._last_heard(), poller
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(poller.run)
                while clock.monotonic() - poller.due_at < STUCK_S:
                    await clock.sleep(LOOK_EVERY_S)
                self._host.log("telegram.poller_stuck", level="error", after_s=STUCK_S)
                tasks.cancel_scope.cancel()

    async def _be_called(self, me: Me) -> None:
        """Most poll, and whoever does needs no door: what it is made of is imported here."""
        from pilothouse.channels.telegram.hook_watch import HookWatch
        from pilothouse.channels.telegram.hooked import Hooked
        from pilothouse.channels.telegram.webhook import Door

        hook, clock, log = self._config.webhook, self._host.clock, self._host.log
        door = Door(hook.secret, hook.host, hook.port, hook.path)
        hooked = self._source = Hooked(door, self._lanes(me), clock)

        def heard() -> None:
            if not hooked.refuses:
                self._heard_at = clock.monotonic()

        watch = HookWatch(
            self._client,
            hook,
            clock,
            log,
            self._setbacks,
            called_at=lambda: hooked.called_at,
            heard=heard,
            alarm=self._alarm,
        )
        async with anyio.create_task_group() as tasks:

            def opened(port: int) -> None:
                log("telegram.listening", host=hook.host, port=port)
                tasks.start_soon(watch.run)

            await hooked.run(opened)

    def _lanes(self, me: Me) -> Lanes:
        clock, log = self._host.clock, self._host.log
        taker = Taker(
            self._desk,
            self._client,
            self._host.blobs,
            us_with(me, self._host.commands),
            clock,
            trigger_of=self._trigger_of,
            tell=self._tell,
            others=self._other,
            log=log,
            linger_s=self._config.forward_wait_s,
        )
        return Lanes(taker, clock, log, self._keeping, self._failures)

    async def _trigger_of(self, address: Address) -> Trigger:
        """What was chosen there, else what is configured. A group that got a new number keeps what its old one had."""
        if not Spot(*chat_of(address)).is_group:
            return self._config.trigger
        found = await self._desk.settings_of(address)
        if found.trigger is not None:
            return found.trigger
        places = (address.place, *(before.place for before in found.former))
        named = (self._config.chats.get(place) for place in places)
        return next(filter(None, named), self._config.trigger)

    async def _other(self, happening: Happening) -> None:
        match happening:
            case Pressed():
                await self._presses.pressed(happening)
            case Stopped(stop=stop):
                thread = str(stop.message_thread_id) if stop.message_thread_id else None
                await self._presses.stopped(happening, Address(TELEGRAM, str(stop.chat.id), thread))
            case Moved(old=old, new=new):
                self._moved(old, new)
                await self._desk.moved(group(old), group(new))
                self._host.log("telegram.group_moved", level="warning", old=old, new=new)
            case Membership(change=change):
                await take_membership(change, self._me, self._desk, self._trigger_of, self._host.log)
            case _:
                pass

    def _alarm(self, text: str) -> None:
        self._trouble, self._trouble_at = text, self._host.clock.monotonic()
        self._host.log("telegram.trouble", level="error", text=text)
