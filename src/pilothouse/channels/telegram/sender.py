"""Sends payloads through the gate, and again in a plainer form where Telegram does not take one.

What Telegram may have taken although we saw no answer is `Unconfirmed`: whoever repeats it says so. A server that is
too old for drafts or rich messages is asked for them once. A rich message that is refused is rendered anew.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, TypeVar
from zlib import crc32

import anyio

from pilothouse.channels.telegram.client import BotClient
from pilothouse.channels.telegram.pace import Gate, Request, Turn
from pilothouse.channels.telegram.payload import File, Message, Payload, Progress, Rich, humbler, marked
from pilothouse.channels.telegram.posts import Poster, Spot
from pilothouse.channels.telegram.shapes import KeyboardShape
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
from pilothouse.channels.telegram.wire import Topic
from pilothouse.core.engine import Blobs
from pilothouse.core.errors import DeliveryError, Rejected, TryLater, Unconfirmed, WantsPlainer
from pilothouse.core.ids import TurnId
from pilothouse.core.message import Attachment

T = TypeVar("T")

GATE_S = 20.0
"""Whoever waits longer for its turn comes again later: so it surely was not sent."""
AGAIN_S = 5.0
REMEMBERED = 1000
"""Of how many chats it is known that they take no drafts."""
LONG_S = 60.0
NO_FORUM = "this chat has no topics. In a group, its administrators can switch them on (Edit → Topics)."
BARRED = "something before Telegram does not let this pass: {text}"
NO_RIGHT = "I may not do that here ({text}). Make me an administrator who may manage topics."
PLAINER = (ParseError, TooLong, TooBig, Unsupported, Refused)
"""Refusals that may be about how it looks."""


class Powers:
    """What the server turned out to have, and which groups have a new number. Kept while the process lives.

    `on_moved` hears of a number that a refusal told: what was on its way goes there, and the desk must know."""

    def __init__(self) -> None:
        self.rich = True
        self.drafts = True
        self._draftless: set[int] = set()
        self._moved: dict[int, int] = {}
        self.on_moved: Callable[[int, int], object] | None = None

    def has_drafts(self, chat: int) -> bool:
        return self.drafts and chat not in self._draftless

    def no_drafts_in(self, chat: int) -> None:
        """This chat refuses them, whatever others do."""
        if len(self._draftless) >= REMEMBERED:
            self._draftless.clear()
        self._draftless.add(chat)

    def spot(self, spot: Spot) -> Spot:
        return Spot(self._moved.get(spot.chat, spot.chat), spot.thread)

    def move(self, old: int, new: int) -> bool:
        """False if that was known."""
        known, self._moved[old] = self._moved.get(old), new
        return known != new


class Sender:
    def __init__(self, client: BotClient, blobs: Blobs, gate: Gate, powers: Powers) -> None:
        self._client = client
        self._poster = Poster(client, blobs)
        self._gate = gate
        self._powers = powers

    async def send(
        self, spot: Spot, payload: Payload, files: Sequence[Attachment] = (), *, again: bool = False
    ) -> int:
        """The number of the message that stands there now. `again` is a repeat, in whichever form it goes."""

        async def post(plain: Payload) -> Posted | Trouble | None:
            here = self._powers.spot(spot)
            kind = "view" if isinstance(payload, Progress) else "final"
            # A new message replaces nothing that waits: its key is its own.
            request = Request(here.chat, kind, key=object(), body=None, group=here.is_group)
            shown = marked(plain) if again else plain
            return await self._paced(request, partial(self._poster.post, here, shown, files))

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
            # What it shows may have faded: it goes even if it is as before.
            request = Request(spot.chat, "view", key=("draft", spot, draft_id), body=object())
            found = await self._paced(request, partial(self._poster.draft, spot, draft_id, plain))
            if isinstance(found, Unsupported) and plain.html:
                self._powers.rich = False  # a server lacks both or neither: the answer need not learn it anew
            return found

        found = await self._until_taken(spot, payload, post)
        if isinstance(found, Unsupported):
            self._powers.drafts = False
            return False
        if isinstance(found, Refused):
            self._powers.no_drafts_in(spot.chat)
            return False
        if isinstance(found, Trouble):
            raise error_of(found, repeatable=True)
        return True

    async def replace(self, spot: Spot, message_id: int, payload: Payload) -> None:
        """Where it stands, and nowhere else: in a group that moved, the same number is another message."""

        async def edit(plain: Payload) -> Posted | Trouble | None:
            kind = "view" if isinstance(payload, Progress) else "final"
            body = (payload.text, payload.reply_markup)
            request = Request(spot.chat, kind, key=_key(spot, message_id), body=body, group=spot.is_group)
            return await self._paced(request, partial(self._poster.replace, spot, message_id, plain))

        found = await self._until_taken(spot, payload, edit, edits=True)
        if isinstance(found, Trouble) and not isinstance(found, NotModified):
            raise error_of(found, repeatable=True)

    async def delete(self, spot: Spot, message_id: int) -> None:
        self._gate.forget(_key(spot, message_id))
        request = Request(spot.chat, "removal", key=_key(spot, message_id), group=spot.is_group)
        found = await self._paced(request, partial(self._client.delete_message, spot.chat, message_id))
        if isinstance(found, Trouble) and not isinstance(found, Gone):
            raise error_of(found, repeatable=True)

    async def set_keyboard(self, spot: Spot, message_id: int, keyboard: KeyboardShape | None) -> None:
        """Of a message that stays as it is otherwise. Somebody pressed and waits, so it goes with the finals."""
        request = Request(spot.chat, "final", key=object(), group=spot.is_group)
        act = partial(self._client.edit_keyboard, spot.chat, message_id, keyboard)
        found = await self._paced(request, act)
        if isinstance(found, Trouble) and not isinstance(found, NotModified):
            raise error_of(found, repeatable=True)

    def forget(self, spot: Spot, message_id: int) -> None:
        """No view that still waits may change this message any more."""
        self._gate.forget(_key(spot, message_id))

    async def type(self, spot: Spot) -> None:
        """Telegram counts no chat action, so it takes no turn; where a pause is wanted, it keeps that too."""
        here = self._powers.spot(spot)
        if (pause_s := self._gate.pause_s(here.chat)) > 0:
            raise TryLater(pause_s, "Telegram asks for a pause in this chat")
        found = await self._client.send_chat_action(here.chat, thread_id=here.thread)
        if isinstance(found, Trouble):
            raise error_of(found, repeatable=True)

    async def open_topic(self, spot: Spot, name: str) -> int:
        """The number of the new topic. Telegram shows it as a message, so it waits its turn like one."""
        here = self._powers.spot(spot)
        request = Request(here.chat, "final", key=object(), group=here.is_group)
        found = await self._paced(request, partial(self._client.create_topic, here.chat, name))
        if isinstance(found, Topic) and found.message_thread_id is not None:
            return found.message_thread_id
        if isinstance(found, Blocked):
            raise Rejected(NO_RIGHT.format(text=found.text))
        if isinstance(found, Refused) and "forum" in found.text:
            raise Rejected(NO_FORUM)
        raise (
            error_of(found)
            if isinstance(found, Trouble)
            else Unconfirmed("Telegram did not say what it made of this.")
        )

    async def tell(self, spot: Spot, text: str, reply_to: str) -> None:
        """A word that nothing depends on: it may be lost."""
        await self.send(spot, Message(text=text, silent=True, reply_to=reply_to))

    async def _until_taken(
        self,
        spot: Spot,
        payload: Payload,
        show: Callable[[Payload], Awaitable[T | Trouble | None]],
        *,
        edits: bool = False,
    ) -> T | Trouble | None:
        """What Telegram made of it, or of the plainest form of it; None if it did not have to be shown.

        What stands there stays where it is, and no text becomes a file: so it is with what `edits`."""
        plain = payload
        while True:
            found = await show(plain)
            if isinstance(found, PLAINER) and isinstance(plain, Rich):
                self._powers.rich = self._powers.rich and not isinstance(found, Unsupported)
                raise WantsPlainer(found.text)
            if isinstance(found, Migrated) and not edits and self._powers.move(spot.chat, found.to):
                if self._powers.on_moved is not None:
                    self._powers.on_moved(spot.chat, found.to)
            elif (
                isinstance(found, PLAINER)
                and (plainer := humbler(plain)) is not None
                and not (edits and isinstance(plainer, File) and not isinstance(plain, File))
            ):
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
            found = await self._unless_barred(await act())
            if isinstance(found, RetryAfter):
                turn.refused(found.after_s)
            elif isinstance(found, Trouble):
                turn.not_taken()
            return found

    async def _unless_barred(self, found: T | Trouble) -> T | Trouble:
        """A page instead of an answer passes, unless Telegram itself is there: then a firewall, say, minds this message
        alone. Tried until it is taken, it would silence its conversation for ever."""
        if not isinstance(found, NotTelegram) or found.maybe_done:
            return found
        me = await self._client.get_me()
        return found if isinstance(me, Trouble) else Refused(BARRED.format(text=found.text))


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
