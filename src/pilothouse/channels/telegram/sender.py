"""Sends payloads at the chat's pace, and in a plainer form if Telegram refuses one.

A message that Telegram may have accepted without an answer is `Unconfirmed`: its repeat is marked. A server that is too
old for drafts or rich messages is asked for them once. A refused rich message is rendered again by the caller.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, TypeVar
from zlib import crc32

import anyio

from pilothouse.channels.parts import sent_name
from pilothouse.channels.skeleton import ProgressCalls
from pilothouse.channels.telegram.client import BotClient
from pilothouse.channels.telegram.pace import Gate, Request, Slot
from pilothouse.channels.telegram.payload import (
    File,
    FileBytes,
    Keyboard,
    Message,
    Payload,
    Progress,
    Rich,
    Target,
    Upload,
    mark_repeat,
    plainer_form,
)
from pilothouse.channels.telegram.trouble import (
    Blocked,
    Conflict,
    Migrated,
    NetworkDown,
    NotFound,
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
from pilothouse.core.errors import DeliveryError, NoThreads, Rejected, TryLater, Unconfirmed, WantsPlainer
from pilothouse.core.ids import TurnId
from pilothouse.core.message import Attachment

T = TypeVar("T")
GATE_S = 20.0
"""Longest wait for a slot. After it the message is retried later: it was certainly not sent."""
AGAIN_S = 5.0
REMEMBERED = 1000
"""Chats that are known to refuse drafts."""
LONG_S = 60.0
NO_FORUM = "this chat has no topics. In a group, its administrators can switch them on (Edit → Topics)."
BLOCKED_ON_THE_WAY = "a proxy or firewall on the way to Telegram blocks this message: {text}"
NO_RIGHT = "I may not do that here ({text}). Make me an administrator who may manage topics."
PLAINER = (ParseError, TooLong, TooBig, Unsupported, Refused)
"""Refusals that a plainer form may avoid."""


class ServerState:
    """Features that the server lacks, and groups with a new number. Kept in memory.

    `on_moved` is called when a refusal tells a group's new number."""

    def __init__(self) -> None:
        self.rich = True
        self.drafts = True
        self._draftless: set[int] = set()
        self._moved: dict[int, int] = {}
        self.on_moved: Callable[[int, int], object] | None = None

    def has_drafts(self, chat: int) -> bool:
        return self.drafts and chat not in self._draftless

    def disable_drafts_in(self, chat: int) -> None:
        if len(self._draftless) >= REMEMBERED:
            self._draftless.clear()
        self._draftless.add(chat)

    def current(self, target: Target) -> Target:
        return Target(self._moved.get(target.chat, target.chat), target.thread)

    def record_move(self, old: int, new: int) -> bool:
        """Record a group's new number; false if it was known."""
        known, self._moved[old] = self._moved.get(old), new
        return known != new


class Sender:
    def __init__(
        self, client: BotClient, blobs: Blobs, gate: Gate, server: ServerState, progress: ProgressCalls
    ) -> None:
        self._client = client
        self._blobs = blobs
        self._gate = gate
        self._server = server
        self._progress = progress

    async def send(
        self, target: Target, payload: Payload, files: Sequence[Attachment] = (), *, again: bool = False
    ) -> int:
        """Send a message and return its number. `again` marks it as a repeat."""

        async def post(plain: Payload) -> Posted | Trouble | None:
            here = self._server.current(target)
            kind = "view" if isinstance(payload, Progress) else "final"
            # A new message replaces no queued one, so its key is unique.
            request = Request(here.chat, kind, key=object(), body=None, group=here.is_group)
            shown = mark_repeat(plain) if again else plain
            act = partial(self._post, here, shown, files)
            if kind == "view":
                return await self._paced(request, partial(self._progress.make, act, creates=True))
            return await self._paced(request, act)

        found = await self._until_accepted(target, payload, post)
        if isinstance(found, Posted):
            return found.message_id
        raise (
            Unconfirmed("Telegram did not return the number of the new message.")
            if found is None
            else delivery_error(found)
        )

    async def _post(self, target: Target, payload: Payload, files: Sequence[Attachment]) -> Posted | Trouble:
        if not isinstance(payload, Upload):
            return await self._client.post(target, payload)
        file = files[0]
        data = await self._blobs.get(file.blob)
        name = sent_name(file.name, "file")
        return await self._client.post(target, payload, FileBytes(name, file.media_type, data))

    async def draft(self, target: Target, draft_id: int, payload: Progress) -> bool:
        """Write a draft; false if the server or the chat refuses drafts."""

        async def post(plain: Payload) -> bool | Trouble | None:
            assert isinstance(plain, Progress)
            # A draft expires, so it is sent even if it has not changed.
            request = Request(target.chat, "view", key=("draft", target, draft_id), body=object())
            act = partial(self._client.draft, target, draft_id, plain)
            found = await self._paced(request, partial(self._progress.make, act))
            if isinstance(found, Unsupported) and plain.html:
                self._server.rich = False  # a server without rich drafts has no rich messages
            return found

        found = await self._until_accepted(target, payload, post)
        if isinstance(found, Unsupported):
            self._server.drafts = False
            return False
        if isinstance(found, Refused):
            self._server.disable_drafts_in(target.chat)
            return False
        if isinstance(found, Trouble):
            raise delivery_error(found, repeatable=True)
        return True

    async def replace(self, target: Target, message_id: int, payload: Payload) -> None:
        """Edit a message. A group's new number is not followed: there the same number is another message."""

        async def edit(plain: Payload) -> Posted | Trouble | None:
            kind = "view" if isinstance(payload, Progress) else "final"
            body = (payload.text, payload.reply_markup)
            request = Request(
                target.chat, kind, key=_key(target, message_id), body=body, group=target.is_group
            )
            act = partial(self._client.edit, target.chat, message_id, plain)
            return await self._paced(request, act if kind == "final" else partial(self._progress.make, act))

        found = await self._until_accepted(target, payload, edit, edits=True)
        if isinstance(found, Trouble) and not isinstance(found, NotModified):
            raise delivery_error(found, repeatable=True)

    async def delete(self, target: Target, message_id: int) -> None:
        self._gate.forget(_key(target, message_id))
        request = Request(target.chat, "removal", key=_key(target, message_id), group=target.is_group)
        found = await self._paced(request, partial(self._client.delete_message, target.chat, message_id))
        if isinstance(found, Trouble) and not isinstance(found, NotFound):
            raise delivery_error(found, repeatable=True)

    async def react(self, target: Target, message_id: int, emoji: str) -> None:
        request = Request(target.chat, "final", key=object(), group=target.is_group)
        found = await self._paced(request, partial(self._client.set_reaction, target.chat, message_id, emoji))
        if isinstance(found, Trouble):
            raise delivery_error(found, repeatable=True)

    async def set_keyboard(self, target: Target, message_id: int, keyboard: Keyboard | None) -> None:
        """Change only the buttons. The person who pressed is waiting, so this has the priority of a final."""
        request = Request(target.chat, "final", key=object(), group=target.is_group)
        act = partial(self._client.edit_keyboard, target.chat, message_id, keyboard)
        found = await self._paced(request, act)
        if isinstance(found, Trouble) and not isinstance(found, NotModified):
            raise delivery_error(found, repeatable=True)

    def forget(self, target: Target, message_id: int) -> None:
        """Drop queued views of this message."""
        self._gate.forget(_key(target, message_id))

    async def type(self, target: Target) -> None:
        """Show the typing indicator. Telegram does not count it, so it needs no slot, but it respects a pause."""
        here = self._server.current(target)
        if (pause_s := self._gate.pause_s(here.chat)) > 0:
            raise TryLater(pause_s, "Telegram asks for a pause in this chat")
        found = await self._progress.make(partial(self._client.send_typing, here.chat, here.thread))
        if isinstance(found, Trouble):
            raise delivery_error(found, repeatable=True)

    async def open_topic(self, target: Target, name: str) -> int:
        """Open a topic and return its number. Telegram shows it as a message, so it is paced like one."""
        here = self._server.current(target)
        request = Request(here.chat, "final", key=object(), group=here.is_group)
        found = await self._paced(request, partial(self._client.create_topic, here.chat, name))
        if isinstance(found, Topic) and found.message_thread_id is not None:
            return found.message_thread_id
        if isinstance(found, Blocked):
            raise Rejected(NO_RIGHT.format(text=found.text))
        if isinstance(found, Refused) and "forum" in found.text:
            raise NoThreads(NO_FORUM)
        raise (
            delivery_error(found)
            if isinstance(found, Trouble)
            else Unconfirmed("Telegram did not return the number of the new topic.")
        )

    async def tell(self, target: Target, text: str, reply_to: str) -> None:
        """Send a notice that may be lost."""
        await self.send(target, Message(text=text, silent=True, reply_to=reply_to))

    async def _until_accepted(
        self,
        target: Target,
        payload: Payload,
        show: Callable[[Payload], Awaitable[T | Trouble | None]],
        *,
        edits: bool = False,
    ) -> T | Trouble | None:
        """Send ever plainer forms until one is accepted; None if it need not be shown any more.

        With `edits`, a group's new number is not followed, and a text does not become a file."""
        plain = payload
        while True:
            found = await show(plain)
            if isinstance(found, PLAINER) and isinstance(plain, Rich):
                self._server.rich = self._server.rich and not isinstance(found, Unsupported)
                raise WantsPlainer(found.text)
            if isinstance(found, Migrated) and not edits and self._server.record_move(target.chat, found.to):
                if self._server.on_moved is not None:
                    self._server.on_moved(target.chat, found.to)
            elif (
                isinstance(found, PLAINER)
                and (plainer := plainer_form(plain)) is not None
                and not (edits and isinstance(plainer, File) and not isinstance(plain, File))
            ):
                plain = plainer
            else:
                return found

    async def _paced(
        self, request: Request, act: Callable[[], Awaitable[T | Trouble | None]]
    ) -> T | Trouble | None:
        async with AsyncExitStack() as stack:
            slot: Slot | None = None
            with anyio.move_on_after(GATE_S):
                slot = await stack.enter_async_context(self._gate.slot(request))
            if slot is None:
                raise TryLater(AGAIN_S, "this chat has reached its rate limit")
            if not slot.may_send:
                return None
            found = await self._detect_block(await act())
            if isinstance(found, RetryAfter):
                slot.refused(found.after_s)
            elif isinstance(found, Trouble):
                slot.not_taken()
            return found

    async def _detect_block(self, found: T | Trouble | None) -> T | Trouble | None:
        """Turn a foreign error page into a refusal if `getMe` works: then a firewall blocks only this message, and
        retrying would block its conversation for ever."""
        if not isinstance(found, NotTelegram) or found.maybe_done:
            return found
        me = await self._client.get_me()
        return found if isinstance(me, Trouble) else Refused(BLOCKED_ON_THE_WAY.format(text=found.text))


def draft_number(turn_id: TurnId) -> int:
    """Return a turn's draft number, which is stable. Telegram accepts any number but zero."""
    return crc32(turn_id.encode()) or 1


def delivery_error(trouble: Trouble, *, repeatable: bool = False) -> DeliveryError:
    """Convert a trouble. `repeatable`: doing it twice does no harm."""
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


def _key(target: Target, message_id: int) -> Any:
    return ("message", target.chat, message_id)
