"""What Discord does and simcord does not: nonces, archived threads, pages of history, sizes, closed doors.

`carry_out` is simcord's `dispatch` with these rules around it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import discord
from simcord.backend.errors import BackendError, cannot_dm_bot
from simcord.backend.models import Channel
from simcord.http import routes as _routes  # noqa: F401  registers every route
from simcord.http.router import dispatch
from tests.channels.discord.server.faults import (
    ACKNOWLEDGE,
    ARCHIVED,
    ARCHIVED_JOINED,
    ARCHIVED_PRIVATE,
    DELETE,
    EDIT,
    HISTORY,
    REACT,
    SEND,
    UNREACT,
    Refusal,
    matches,
)
from tests.channels.discord.server.world import Json, World

FILE_BYTES = 10 << 20
LAST = "9"
"""After every time and every id, as texts of one length."""
NOT_WHILE_ARCHIVED = (EDIT, DELETE, REACT, UNREACT)


@dataclass
class Request:
    method: str
    path: str
    body: Any = None
    params: dict[str, str] = field(default_factory=dict)
    files: list[discord.File] = field(default_factory=list)
    reason: str | None = None
    reads_content: bool = True

    @property
    def wants_response(self) -> bool:
        return self.params.get("with_response", "").lower() in ("1", "true")

    def is_(self, *calls: str) -> bool:
        return any(matches(call, self.method, self.path) for call in calls)


class Rules:
    def __init__(self, world: World) -> None:
        self.world = world
        self._nonces: dict[tuple[int, str], Json] = {}
        self.may_attach = True
        self.may_read_history = True
        self.blocked_words: tuple[str, ...] = ()
        """By automatic moderation, which looks into no file."""

    def carry_out(self, request: Request) -> Any:
        channel = self._channel(request)
        if channel is not None:
            self._check_door(channel, request)
            self._check_thread(channel, request)
        self._check_files(request)
        self._check_words(request)
        if request.is_(HISTORY):
            return self._history(request)
        if request.is_(ARCHIVED, ARCHIVED_PRIVATE):
            return self._archived(request, _archived_at)
        if request.is_(ARCHIVED_JOINED):
            return self._archived(request, _opened_as)
        if request.is_(SEND) and channel is not None:
            return self._send(channel, request)
        result = self._dispatch(request)
        return None if request.is_(ACKNOWLEDGE) and not request.wants_response else result

    def _dispatch(self, request: Request) -> Any:
        return dispatch(
            self.world.state,
            request.method,
            request.path,
            json=request.body,
            params=dict(request.params),
            files=list(request.files),
            reason=request.reason,
            message_content_access=request.reads_content,
        )

    def _channel(self, request: Request) -> Channel | None:
        head, _, rest = request.path.strip("/").partition("/")
        number = rest.partition("/")[0]
        return self.world.state.channels.get(int(number)) if head == "channels" and number.isdigit() else None

    def _check_door(self, channel: Channel, request: Request) -> None:
        if request.is_(SEND) and self.world.closed_to_bot.intersection(channel.recipient_ids):
            raise cannot_dm_bot()

    def _check_thread(self, channel: Channel, request: Request) -> None:
        """To write wakes an archived thread, unless it is locked; to change anything in it is refused."""
        meta = channel.thread_metadata
        if meta is None or not meta.archived:
            return
        if request.is_(*NOT_WHILE_ARCHIVED):
            raise BackendError(400, 50083, "Thread is archived")
        if request.is_(SEND):
            if meta.locked:
                raise BackendError(403, 160005, "Thread is locked")
            self.world.state.edit_channel(channel.id, {}, thread_metadata={"archived": False})

    def _check_files(self, request: Request) -> None:
        if request.files and not self.may_attach:
            raise BackendError(403, 50013, "Missing Permissions")
        for file in request.files:
            size = file.fp.seek(0, 2)
            file.fp.seek(0)
            if size > FILE_BYTES:
                raise BackendError(413, 40005, "Request entity too large")

    def _check_words(self, request: Request) -> None:
        said = str(request.body.get("content")) if isinstance(request.body, dict) else ""
        if request.is_(SEND, EDIT) and any(word in said for word in self.blocked_words):
            raise BackendError(400, 200000, "Message was blocked by automatic moderation")

    def _history(self, request: Request) -> Any:
        """After an id come the oldest that follow it, newest first; simcord would give the newest."""
        limit = int(request.params.get("limit", "50"))
        if not 1 <= limit <= 100:
            raise BackendError(400, 50035, "Invalid Form Body: limit: Must be between 1 and 100.")
        if "after" in request.params:
            request.params["limit"] = "1000000"
            return self._dispatch(request)[-limit:]
        return self._dispatch(request)

    def _archived(self, request: Request, rank: Callable[[Json], str]) -> Any:
        """Those of the highest rank come first; simcord gives all of them, in any order."""
        limit, before = int(request.params.pop("limit", "50")), request.params.pop("before", LAST)
        listed = self._dispatch(request)
        older = [one for one in listed["threads"] if rank(one) < before]
        older.sort(key=rank, reverse=True)
        return {**listed, "threads": older[:limit], "has_more": len(older) > limit}

    def _send(self, channel: Channel, request: Request) -> Any:
        """One nonce that is enforced is one message: whoever repeats it gets the first one again."""
        body = request.body if isinstance(request.body, dict) else {}
        if body.get("message_reference") and not self.may_read_history:
            raise Refusal(403, 160002, "Cannot reply without permission to read message history")
        nonce = str(body.get("nonce") or "")
        if len(nonce) > 25:
            raise Refusal(400, 50035, "Invalid Form Body: nonce: Must be 25 or fewer in length.")
        key = (channel.id, nonce)
        if nonce and body.get("enforce_nonce") and key in self._nonces:
            return self._nonces[key]
        with self.world.telling_nonce(nonce):
            sent = self._dispatch(request)
        if nonce:
            sent["nonce"] = body["nonce"]
            self._nonces[key] = sent
        return sent


def _archived_at(thread: Json) -> str:
    return str(thread["thread_metadata"]["archive_timestamp"])


def _opened_as(thread: Json) -> str:
    """Among one's own Discord counts by ids, of which the newest is the largest."""
    return str(thread["id"]).zfill(20)
