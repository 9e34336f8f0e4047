"""Receives updates until it is cancelled: learns who we are, publishes the command menus, then polls or serves a webhook.

A refused token or a network outage is waited out and reported once. A poller that is long overdue is restarted; its
updates are still at Telegram. The channel is healthy while updates can reach us: by a successful poll, or by a webhook
that Telegram can call. Being added to or removed from a group is reported to the desk here, with a greeting.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from pilothouse.channels.failures import Failures
from pilothouse.channels.receipts import Tell, greeting
from pilothouse.channels.telegram.accept import Acceptor
from pilothouse.channels.telegram.addresses import (
    TELEGRAM,
    bot_with,
    chat_name,
    chat_of,
    group_address,
    person,
)
from pilothouse.channels.telegram.client import BotClient, open_client
from pilothouse.channels.telegram.config import VARIABLE, TelegramConfig
from pilothouse.channels.telegram.poll import Backoff, Poller
from pilothouse.channels.telegram.posts import Target
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
from pilothouse.channels.telegram.updates import UpdateJournal, UpdateQueues
from pilothouse.channels.telegram.wire import ChatMember, Me, MemberChanged
from pilothouse.core.channel import BotIdentity, ChannelHealth, ChannelHost, Desk, MenuCommand
from pilothouse.core.clock import Clock
from pilothouse.core.message import Address, Presence
from pilothouse.core.people import at_least
from pilothouse.core.secret import and_put, token_place
from pilothouse.core.trigger import Trigger

if TYPE_CHECKING:
    from pilothouse.channels.telegram.webhook import WebhookReceiver

GREETED_CHATS = ("group", "supergroup")
"""Not in a channel, where all readers would see the greeting."""
PRIVACY = " Telegram hides most other messages from me until my privacy mode is switched off with @BotFather."
IDENTIFY_S = 20.0
PRIVATE_ONLY = ("pair",)
MENU_FIRST_S = 5.0
MENU_LONGEST_S = 600.0
TEMPORARY = (RetryAfter, NetworkDown, ServerDown, NotTelegram, Unauthorized, Conflict)
"""Failures that may pass; others mean that this menu is refused for good."""
STUCK_S = 180.0
"""A poller that is overdue for this long is restarted. A poll takes at most 65 s."""
CHECK_EVERY_S = 15.0


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
                    await clock.sleep(CHECK_EVERY_S)
                self._host.log("telegram.poller_stuck", level="error", after_s=STUCK_S)
                tasks.cancel_scope.cancel()

    async def _receive_by_webhook(self, me: Me) -> None:
        """Serve the webhook, whose modules are imported only here: most bots poll."""
        from pilothouse.channels.telegram.webhook import WebhookAddress, WebhookReceiver, WebhookWatch

        hook, clock, log = self._config.webhook, self._host.clock, self._host.log
        address = WebhookAddress(hook.secret, hook.host, hook.port, hook.path)
        webhook = self._source = WebhookReceiver(address, self._queues(me), clock)

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


async def report_membership(
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
        group_address(chat.id),
        person(change.from_),
        chat_name(chat),
        f"{change.date}:{status}",
        private=chat.type == "private",
    )
    if is_in and not was_in:
        words = group_greeting(me, await trigger_of(here.address)) if chat.type in GREETED_CHATS else ""
        await desk.arrived(here, words)
    elif was_in and not is_in:
        await desk.left(here)


def group_greeting(me: Me, trigger: Trigger) -> str:
    is_deaf = trigger.mode in ("all", "pattern") and not me.can_read_all_group_messages
    return greeting(me.username or "", trigger) + (PRIVACY if is_deaf else "")


def _is_in(member: ChatMember) -> bool:
    if member.status == "restricted":
        return member.is_member is not False
    return member.status not in ("left", "kicked")


def identify(config: TelegramConfig) -> BotIdentity:
    return anyio.run(_identify, config)


async def _identify(config: TelegramConfig) -> BotIdentity:
    with anyio.move_on_after(IDENTIFY_S):
        async with open_client(config.endpoint) as client:
            me = await client.get_me()
        if isinstance(me, Unauthorized):
            how = f"copy it anew from @BotFather{and_put(config.token)}"
            return BotIdentity(problem=f"the token is refused ({me.text}): {how}")
        if isinstance(me, Trouble):
            return BotIdentity(
                problem=f"{me.text}. Check that this machine reaches {config.endpoint.shown}, and try again"
            )
        return BotIdentity(f"@{me.username}", f"https://t.me/{me.username}")
    return BotIdentity(problem=f"{config.endpoint.shown} did not answer within {IDENTIFY_S:.0f} s: try again")


async def publish_menus(
    client: BotClient, commands: Sequence[MenuCommand], clock: Clock, log: Callable[..., None]
) -> None:
    """Publish the menus, retrying temporary failures. A menu that Telegram refuses is skipped."""
    for scope, shown in menus(commands).items() if commands else ():
        pause_s = MENU_FIRST_S
        while isinstance(put_up := await client.set_my_commands(shown, scope=scope), Trouble):
            is_passing = isinstance(put_up, TEMPORARY)
            wait_s = put_up.after_s if isinstance(put_up, RetryAfter) else pause_s
            again = {"again_s": wait_s} if is_passing else {}
            log("telegram.menu_failed", level="warning", scope=scope.type, why=put_up.text, **again)
            if not is_passing:
                break
            await clock.sleep(wait_s)
            pause_s = min(pause_s * 2, MENU_LONGEST_S)


def menus(commands: Sequence[MenuCommand]) -> dict[Scope, tuple[Command, ...]]:
    for_all = [command for command in commands if at_least("member", command.role)]
    in_groups = [command for command in for_all if command.name not in PRIVATE_ONLY]
    for_admins = [command for command in commands if command.name not in PRIVATE_ONLY]
    return {
        Scope("all_private_chats"): _shapes(commands),
        Scope("all_group_chats"): _shapes(in_groups),
        Scope("all_chat_administrators"): _shapes(for_admins),
    }


def _shapes(commands: Sequence[MenuCommand]) -> tuple[Command, ...]:
    return tuple(Command(command.name, command.summary) for command in commands)
