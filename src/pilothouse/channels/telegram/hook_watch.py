"""Tells Telegram where to call us, and looks every minute whether it does.

A webhook that nobody can reach is silent, as a quiet day is: only Telegram knows which of the two it is, so it is asked.
"""

from __future__ import annotations

from collections.abc import Callable

from pilothouse.channels.telegram.client import BotClient
from pilothouse.channels.telegram.config import WebhookConfig
from pilothouse.channels.telegram.setbacks import Setbacks
from pilothouse.channels.telegram.trouble import Trouble
from pilothouse.channels.telegram.wire import WebhookInfo
from pilothouse.core.clock import Clock

LOOK_EVERY_S = 60.0
LOUD_AFTER = 2
"""Looks in a row, and a minute between them: something waited all the while, and nobody called; or it was not our address."""

UNREACHED = (
    "Telegram has messages for us and cannot bring them ({why}). Look whether webhook.url leads to this machine from "
    "outside, with a certificate that is valid. They wait there, and are taken up when it does."
)
NO_WORD = "it does not say why"
TAKEN = (
    "Another program takes this bot's webhook away again and again, and gets its messages. Stop it, or give this "
    "Pilothouse a bot of its own."
)


class HookWatch:
    """`called_at` tells when Telegram last called us, `heard` is told that it can; `alarm`, once, what is wrong."""

    def __init__(
        self,
        client: BotClient,
        hook: WebhookConfig,
        clock: Clock,
        log: Callable[..., None],
        setbacks: Setbacks,
        *,
        called_at: Callable[[], float | None],
        heard: Callable[[], None],
        alarm: Callable[[str], None],
    ) -> None:
        self._client = client
        self._hook = hook
        self._clock = clock
        self._log = log
        self._setbacks = setbacks
        self._called_at = called_at
        self._heard = heard
        self._alarm = alarm
        self._ours = hook.url
        """As Telegram spells it: it may write a host or a path in its own way."""
        self._last_call: float | None = None
        self._unheard = 0
        self._taken = 0

    async def run(self) -> None:
        info = await self._set()
        while True:
            if not self._taken:
                self._judge(info)
            await self._clock.sleep(LOOK_EVERY_S)
            info = await self._look()
            if info.url == self._ours:
                self._taken = 0
                continue
            self._taken += 1
            self._log("telegram.webhook_taken", level="warning", in_a_row=self._taken)
            if self._taken == LOUD_AFTER:
                self._alarm(TAKEN)
            info = await self._set()

    async def _set(self) -> WebhookInfo:
        while isinstance(
            told := await self._client.set_webhook(self._hook.url, self._hook.secret.reveal()), Trouble
        ):
            await self._clock.sleep(self._setbacks.wait_s(told))
        info = await self._look()
        self._ours = info.url or self._hook.url
        return info

    async def _look(self) -> WebhookInfo:
        while isinstance(info := await self._client.get_webhook_info(), Trouble):
            await self._clock.sleep(self._setbacks.wait_s(info))
        self._setbacks.over()
        return info

    def _judge(self, info: WebhookInfo) -> None:
        """Whether what waits at Telegram's is on its way, or stuck there."""
        last, self._last_call = self._last_call, self._called_at()
        if not info.pending_update_count or self._last_call != last:
            self._unheard = 0
            self._heard()
            return
        self._unheard += 1
        if self._unheard == LOUD_AFTER:
            self._alarm(UNREACHED.format(why=info.last_error_message or NO_WORD))
