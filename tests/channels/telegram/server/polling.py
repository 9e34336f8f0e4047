"""How updates reach a bot: long polls, one at a time, or a webhook."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tests.channels.telegram.server.refusal import Refusal, bad
from tests.channels.telegram.server.world import Json, World

OTHER_POLL = (
    "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
)
WEBHOOK_SET = (
    "Conflict: can't use getUpdates method while webhook is active; "
    "use deleteWebhook to delete the webhook first"
)
WEBHOOK_COMES = "Conflict: terminated by setWebhook request"
LONGEST_S = 50


class Polls:
    def __init__(self, world: World) -> None:
        self._world = world
        self._current: asyncio.Event | None = None
        self._hangs = False
        self._ended = False
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
        return self._current is not None and self._hangs

    def end(self) -> None:
        self._ended = True
        if self._current:
            self._current.set()
        self._world.wake()

    async def get_updates(self, params: Json) -> list[Json]:
        if self.webhook:
            raise Refusal(409, WEBHOOK_SET)
        if self._current is not None:
            self._current.set()
        mine = self._current = asyncio.Event()
        self._hangs = _timeout_s(params) > 0
        self._world.wake()
        try:
            return await self._poll(params, mine)
        finally:
            if self._current is mine:
                self._current = None
                self._world.wake()

    async def _poll(self, params: Json, aborted: asyncio.Event) -> list[Json]:
        world = self._world
        if params.get("allowed_updates") is not None:
            world.allowed = list(params["allowed_updates"])
        self._confirm(int(params.get("offset") or 0))
        waiting = asyncio.create_task(world.until(lambda: world.pending or aborted.is_set() or self._ended))
        abort = asyncio.create_task(aborted.wait())
        try:
            await asyncio.wait(
                {waiting, abort}, timeout=_timeout_s(params), return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            waiting.cancel()
            abort.cancel()
        if aborted.is_set():
            raise Refusal(409, WEBHOOK_COMES if self.webhook else OTHER_POLL)
        return world.pending[: int(params.get("limit") or 100)]

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


def _timeout_s(params: Json) -> int:
    return min(int(params.get("timeout") or 0), LONGEST_S)
