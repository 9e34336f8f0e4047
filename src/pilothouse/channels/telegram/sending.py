"""Sends payloads through the gate, and again in a plainer form where Telegram does not take one.

What Telegram may have taken although we saw no answer is `Unconfirmed`: whoever repeats it says so. A server that is
too old for drafts or rich messages is asked for them once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, TypeVar
from zlib import crc32

import anyio

from pilothouse.channels.telegram.client import BotClient
from pilothouse.channels.telegram.gate import Gate, Turn
from pilothouse.channels.telegram.pacing import Request
from pilothouse.channels.telegram.payload import Message, Payload, Progress, Rich, humbler
from pilothouse.channels.telegram.posting import Poster, Spot
from pilothouse.channels.telegram.trouble import (
    Blocked,
    Conflict,
    Gone,
    Migrated,
    NetworkDown,
    NotModified,
    NotTelegram,
    ParseError,
    Refused,
    RetryAfter,
    ServerDown,
    TooBig,
    TooLong,
    Trouble,
    Unauthorized,
    Unsupported,
)
from pilothouse.channels.telegram.wire import Message as Posted
from pilothouse.core.engine import Blobs
from pilothouse.core.errors import DeliveryError, Rejected, TryLater, Unconfirmed
from pilothouse.core.ids import TurnId
from pilothouse.core.message import Attachment

T = TypeVar("T")

GATE_S = 20.0
"""Whoever waits longer for its turn comes again later: so it surely was not sent."""
AGAIN_S = 5.0
LONG_S = 60.0
PLAINER = (ParseError, TooLong, TooBig, Unsupported, Refused)
"""Refusals that may be about how it looks."""


class Powers:
    """What the server turned out to have, and which groups have a new number. Kept while the process lives."""

    def __init__(self) -> None:
        self.rich = True
        self.drafts = True
        self.moved: dict[int, int] = {}

    def spot(self, spot: Spot) -> Spot:
        return Spot(self.moved.get(spot.chat, spot.chat), spot.thread)


class Sender:
    def __init__(self, client: BotClient, blobs: Blobs, gate: Gate, powers: Powers) -> None:
        self._client = client
        self._poster = Poster(client, blobs)
        self._gate = gate
        self._powers = powers

    async def send(self, spot: Spot, payload: Payload, files: Sequence[Attachment] = ()) -> int:
        """The number of the message that stands there now."""

        async def post(plain: Payload) -> Posted | Trouble | None:
            here = self._powers.spot(spot)
            kind = "view" if isinstance(payload, Progress) else "final"
            # A new message replaces nothing that waits: its key is its own.
            request = Request(here.chat, kind, key=object(), body=None, group=here.is_group)
            return await self._paced(request, partial(self._poster.post, here, plain, files))

        found = await self._until_taken(spot, payload, post)
        if isinstance(found, Posted):
            return found.message_id
        raise (
            Unconfirmed("Telegram did not say which message it made of this.")
            if found is None
            else error_of(found)
        )

    async def draft(self, spot: Spot, draft_id: int, payload: Progress) -> bool:
        """False if there are no drafts here."""

        async def post(plain: Payload) -> bool | Trouble | None:
            assert isinstance(plain, Progress)
            request = Request(spot.chat, "view", key=("draft", spot, draft_id), body=(plain.html, plain.text))
            return await self._paced(request, partial(self._poster.draft, spot, draft_id, plain))

        found = await self._until_taken(spot, payload, post)
        if isinstance(found, Unsupported | Refused):
            self._powers.drafts = False
            return False
        if isinstance(found, Trouble):
            raise error_of(found, repeatable=True)
        return True

    async def replace(self, spot: Spot, message_id: int, payload: Payload) -> None:
        async def edit(plain: Payload) -> Posted | Trouble | None:
            here = self._powers.spot(spot)
            kind = "view" if isinstance(payload, Progress) else "final"
            body = (payload.text, payload.reply_markup)
            request = Request(here.chat, kind, key=_key(here, message_id), body=body, group=here.is_group)
            return await self._paced(request, partial(self._poster.replace, here, message_id, plain))

        found = await self._until_taken(spot, payload, edit)
        if isinstance(found, Trouble) and not isinstance(found, NotModified):
            raise error_of(found, repeatable=True)

    async def delete(self, spot: Spot, message_id: int) -> None:
        here = self._powers.spot(spot)
        self._gate.forget(_key(here, message_id))
        request = Request(here.chat, "removal", key=_key(here, message_id), group=here.is_group)
        found = await self._paced(request, partial(self._client.delete_message, here.chat, message_id))
        if isinstance(found, Trouble) and not isinstance(found, Gone):
            raise error_of(found, repeatable=True)

    def forget(self, spot: Spot, message_id: int) -> None:
        """No view that still waits may change this message any more."""
        self._gate.forget(_key(self._powers.spot(spot), message_id))

    async def type(self, spot: Spot) -> None:
        here = self._powers.spot(spot)
        await self._client.send_chat_action(here.chat, thread_id=here.thread)

    async def tell(self, spot: Spot, text: str, reply_to: str) -> None:
        """A word that nothing depends on: it may be lost."""
        await self.send(spot, Message(text=text, silent=True, reply_to=reply_to))

    async def _until_taken(
        self, spot: Spot, payload: Payload, show: Callable[[Payload], Awaitable[T | Trouble | None]]
    ) -> T | Trouble | None:
        """What Telegram made of it, or of the plainest form of it; None if it did not have to be shown."""
        plain = payload
        while True:
            found = await show(plain)
            if isinstance(found, Unsupported) and isinstance(plain, Rich):
                self._powers.rich = False
            if isinstance(found, Migrated) and self._powers.moved.get(spot.chat) != found.to:
                self._powers.moved[spot.chat] = found.to
            elif isinstance(found, PLAINER) and (plainer := humbler(plain)) is not None:
                plain = plainer
            else:
                return found

    async def _paced(self, request: Request, act: Callable[[], Awaitable[T | Trouble]]) -> T | Trouble | None:
        async with AsyncExitStack() as stack:
            turn: Turn | None = None
            with anyio.move_on_after(GATE_S):
                turn = await stack.enter_async_context(self._gate.turn(request))
            if turn is None:
                raise TryLater(AGAIN_S, "this chat has its share of messages for the moment")
            if not turn.goes:
                return None
            found = await act()
            if isinstance(found, RetryAfter):
                turn.refused(found.after_s)
            elif isinstance(found, Trouble):
                turn.not_taken()
            return found


def draft_number(turn_id: TurnId) -> int:
    """The same for a turn whenever it is asked for; Telegram takes any number but zero."""
    return crc32(turn_id.encode()) or 1


def error_of(trouble: Trouble, *, repeatable: bool = False) -> DeliveryError:
    """`repeatable` says that doing it twice does no harm."""
    match trouble:
        case RetryAfter(after_s=after_s):
            return TryLater(after_s, trouble.text)
        case _ if trouble.maybe_done and not repeatable:
            return Unconfirmed(trouble.text)
        case NetworkDown() | ServerDown():
            return TryLater(AGAIN_S, trouble.text)
        case Unauthorized() | Conflict() | NotTelegram():
            return TryLater(LONG_S, trouble.text)
        case Blocked():
            return Rejected(f"Telegram does not let us write there: {trouble.text}")
        case _:
            return Rejected(trouble.text)


def _key(spot: Spot, message_id: int) -> Any:
    return ("message", spot.chat, message_id)
