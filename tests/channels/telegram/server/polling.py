"""How updates reach a bot: long polls, one at a time, or a webhook."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tests.channels.telegram.server.refusal import Refusal, bad
from tests.channels.telegram.server.world import Json, World

from pilothouse.core.clock import Clock
from pilothouse.runtime.ports import SystemClock

OTHER_POLL = (
    "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
)
WEBHOOK_SET = (
    "Conflict: can't use getUpdates method while webhook is active; "
    "use deleteWebhook to delete the webhook first"
)
WEBHOOK_COMES = "Conflict: terminated by setWebhook request"
LONGEST_S = 50
AGAIN_S, HASTY_S = 3, 0.5
"""Whoever asks for the same offset again so soon waits for at least `AGAIN_S`, or gets one update only
(tdlib/telegram-bot-api, `process_get_updates_query`)."""


class Polls:
    def __init__(self, world: World) -> None:
        self._world = world
        self._current: asyncio.Event | None = None
        self._ended = False
        self._asked: tuple[int, float] | None = None
        """The last offset that somebody asked for, and when."""
        self.clock: Clock = SystemClock()
        self.webhook = ""
        self.secret = ""
        self.last_error = ""
        self.offset = 0
        """What was last confirmed."""
        self.methods: Mapping[str, Callable[[Json], Awaitable[Any]]] = {
            "getupdates": self.get_updates,
            "setwebhook": self.set_webhook,
            "deletewebhook": self.delete_webhook,
            "getwebhookinfo": self.get_webhook_info,
        }

    @property
    def waiting(self) -> bool:
        """Whether a poll hangs here now: one that will not wait is as good as answered."""
        return self._current is not None

    def end(self) -> None:
        self._ended = True
        if self._current:
            self._current.set()
        self._world.wake()

    async def get_updates(self, params: Json) -> list[Json]:
        if self.webhook:
            raise Refusal(409, WEBHOOK_SET)
        world = self._world
        if params.get("allowed_updates") is not None:
            world.allowed = list(params["allowed_updates"])
        offset = int(params.get("offset") or 0)
        timeout_s, limit = self._slowed(offset, params)
        self._confirm(offset)
        if timeout_s and not world.pending:
            await self._hang(timeout_s)
        return world.pending[:limit]

    def _slowed(self, offset: int, params: Json) -> tuple[int, int]:
        """How long this poll waits, and for how much at most."""
        timeout_s = min(int(params.get("timeout") or 0), LONGEST_S)
        limit = int(params.get("limit") or 100)
        now, asked = self.clock.monotonic(), self._asked
        self._asked = offset, now
        if asked is None or asked[0] != offset:
            return timeout_s, limit
        since_s = now - asked[1]
        return (
            max(timeout_s, AGAIN_S) if since_s < AGAIN_S else timeout_s,
            1 if since_s < HASTY_S else limit,
        )

    async def _hang(self, seconds: float) -> None:
        """Until there is something; only a poll that hangs, too, ends another."""
        world = self._world
        if self._current is not None:
            self._current.set()
        mine = self._current = asyncio.Event()
        world.wake()
        waits = {
            asyncio.ensure_future(one)
            for one in (
                world.until(lambda: world.pending or self._ended),
                mine.wait(),
                self.clock.sleep(seconds),
            )
        }
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            if self._current is mine:
                self._current = None
                world.wake()
        if mine.is_set():
            raise Refusal(409, WEBHOOK_COMES if self.webhook else OTHER_POLL)

    def _confirm(self, offset: int) -> None:
        world = self._world
        if offset > 0:
            self.offset = offset
            world.pending = [update for update in world.pending if update["update_id"] >= offset]
        elif offset < 0:
            world.pending = world.pending[offset:]
        world.wake()

    async def set_webhook(self, params: Json) -> bool:
        url = params["url"]
        if url and not url.startswith(("https://", "http://127.0.0.1")):
            raise bad("bad webhook: An HTTPS URL must be provided for webhook")
        self.webhook, self.secret = url, params.get("secret_token") or ""
        if params.get("allowed_updates") is not None:
            self._world.allowed = list(params["allowed_updates"])
        if url and self._current is not None:
            self._current.set()
        self._world.wake()
        return True

    async def delete_webhook(self, params: Json) -> bool:
        self.webhook = ""
        if params.get("drop_pending_updates") in (True, "true"):
            self._world.pending.clear()
        self._world.wake()
        return True

    async def get_webhook_info(self, params: Json) -> Json:
        error = {"last_error_message": self.last_error, "last_error_date": 1} if self.last_error else {}
        return {
            "url": self.webhook,
            "has_custom_certificate": False,
            "pending_update_count": len(self._world.pending),
            **error,
        }
