"""We were added to a group, or removed; somebody blocked us, or came back: the desk hears of it, with a greeting to say.

Asks Telegram once who we are, for whoever sets the channel up.

The commands in Telegram's menu: in a private chat, in groups, and, for their administrators, what only those may.

One run of whoever receives: learns who we are, puts up the menu, and takes updates until it is cancelled.

A token that is refused, or a network that is down, is waited out and told once. A poller that has not even tried for a
while is started anew: its updates are still at Telegram's. Heard is what shows that updates reach us: a poll that went
well, or a webhook that Telegram can call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from pilothouse.channels.advice import and_put, token_place
from pilothouse.channels.failures import Failures
from pilothouse.channels.receipts import Tell, greeting
from pilothouse.channels.telegram.accept import Taker
from pilothouse.channels.telegram.addresses import TELEGRAM, chat_name, chat_of, group, person, us_with
from pilothouse.channels.telegram.client import BotClient, open_client
from pilothouse.channels.telegram.config import VARIABLE, TelegramConfig
from pilothouse.channels.telegram.poll import Poller, Setbacks
from pilothouse.channels.telegram.posts import Spot
from pilothouse.channels.telegram.presses import Presses
from pilothouse.channels.telegram.receive import Happening, Membership, Moved, Pressed, Stopped
from pilothouse.channels.telegram.sender import Sender
from pilothouse.channels.telegram.shapes import Command, Scope
from pilothouse.channels.telegram.trouble import (
    Conflict,
    NetworkDown,
    NotTelegram,
    RetryAfter,
    ServerDown,
    Trouble,
    Unauthorized,
)
from pilothouse.channels.telegram.updates import Keeping, Lanes
from pilothouse.channels.telegram.wire import ChatMember, Me, MemberChanged
from pilothouse.core.channel import BotIdentity, ChannelHealth, ChannelHost, Desk, MenuCommand
from pilothouse.core.clock import Clock
from pilothouse.core.message import Address, Presence
from pilothouse.core.people import at_least
from pilothouse.core.trigger import Trigger

if TYPE_CHECKING:
    from pilothouse.channels.telegram.webhook import Hooked

GREETED = ("group", "supergroup")
"""In a channel a greeting would go to all who read it."""
PRIVACY = (
    " Most other messages Telegram keeps from me, until my privacy mode is switched off with @BotFather."
)

WITHIN_S = 20.0

PRIVATE_ONLY = ("pair",)
FIRST_S = 5.0
LONGEST_S = 600.0
PASSING = (RetryAfter, NetworkDown, ServerDown, NotTelegram, Unauthorized, Conflict)
"""What may go well another time, with the same commands."""

STUCK_S = 180.0
"""A poll waits for 65 s at most. A pause between two is as long as it was meant to be."""
LOOK_EVERY_S = 15.0


async def take_membership(
    change: MemberChanged,
    me: Me,
    desk: Desk,
    trigger_of: Callable[[Address], Awaitable[Trigger]],
    log: Callable[..., None],
) -> None:
    was_in, is_in = _is_in(change.old_chat_member), _is_in(change.new_chat_member)
    chat, status = change.chat, change.new_chat_member.status
    log("telegram.membership", chat=chat.id, status=status, by=change.from_.id)
    here = Presence(
        group(chat.id),
        person(change.from_),
        chat_name(chat),
        f"{change.date}:{status}",
        private=chat.type == "private",
    )
    if is_in and not was_in:
        words = hello(me, await trigger_of(here.address)) if chat.type in GREETED else ""
        await desk.arrived(here, words)
    elif was_in and not is_in:
        await desk.left(here)


def hello(me: Me, trigger: Trigger) -> str:
    is_deaf = trigger.mode in ("all", "pattern") and not me.can_read_all_group_messages
    return greeting(me.username or "", trigger) + (PRIVACY if is_deaf else "")


def _is_in(member: ChatMember) -> bool:
    if member.status == "restricted":
        return member.is_member is not False
    return member.status not in ("left", "kicked")


def meet(config: TelegramConfig) -> BotIdentity:
    return anyio.run(_meet, config)


async def _meet(config: TelegramConfig) -> BotIdentity:
    with anyio.move_on_after(WITHIN_S):
        async with open_client(config.endpoint) as client:
            me = await client.get_me()
        if isinstance(me, Unauthorized):
            how = f"copy it anew from @BotFather{and_put(config.token)}"
            return BotIdentity(problem=f"the token is refused ({me.text}): {how}")
        if isinstance(me, Trouble):
            return BotIdentity(
                problem=f"{me.text}. See whether this machine reaches {config.endpoint.shown}, and try again"
            )
        return BotIdentity(f"@{me.username}", f"https://t.me/{me.username}")
    return BotIdentity(problem=f"{config.endpoint.shown} did not answer within {WITHIN_S:.0f} s: try again")


def menus(commands: Sequence[MenuCommand]) -> dict[Scope, tuple[Command, ...]]:
    for_all = [command for command in commands if at_least("member", command.role)]
    in_groups = [command for command in for_all if command.name not in PRIVATE_ONLY]
    for_admins = [command for command in commands if command.name not in PRIVATE_ONLY]
    return {
        Scope("all_private_chats"): _shapes(commands),
        Scope("all_group_chats"): _shapes(in_groups),
        Scope("all_chat_administrators"): _shapes(for_admins),
    }


async def put_up_menu(
    client: BotClient, commands: Sequence[MenuCommand], clock: Clock, log: Callable[..., None]
) -> None:
    """At every start, until Telegram has it. What it refuses for good costs nothing but that menu."""
    for scope, shown in menus(commands).items() if commands else ():
        pause_s = FIRST_S
        while isinstance(put_up := await client.set_my_commands(shown, scope=scope), Trouble):
            is_passing = isinstance(put_up, PASSING)
            wait_s = put_up.after_s if isinstance(put_up, RetryAfter) else pause_s
            again = {"again_s": wait_s} if is_passing else {}
            log("telegram.menu_failed", level="warning", scope=scope.type, why=put_up.text, **again)
            if not is_passing:
                break
            await clock.sleep(wait_s)
            pause_s = min(pause_s * 2, LONGEST_S)


def _shapes(commands: Sequence[MenuCommand]) -> tuple[Command, ...]:
    return tuple(Command(command.name, command.summary) for command in commands)


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
        place = token_place(config.token, VARIABLE)
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
        from pilothouse.channels.telegram.webhook import Door, Hooked, HookWatch

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
        )
        wait_s = self._config.forward_wait_s
        return Lanes(taker, clock, log, self._keeping, self._failures, forward_wait_s=wait_s)

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
