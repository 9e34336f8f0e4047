"""The Bot API methods that Pilothouse uses, typed, and the pause after a call that failed (`Backoff`).

A call returns its result or a `Trouble`; the network never raises. Parameters that are `None` are not sent. Texts are sent
with entities and without link previews. Telegram's limits are not checked here, except for files, whose bytes would have to
be sent first.

Another program that polls, or that sets a webhook, is a trouble of its own: our calls succeed in between, so it ends
only after `CALM_S` without a conflict. The first conflicts are quiet, because a restart overlaps with the old process.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Raw

from pilothouse.channels.skeleton import LONGEST_S, LOUD_S, Outage, pause_s
from pilothouse.channels.telegram.config import Endpoint
from pilothouse.channels.telegram.payload import (
    DOWNLOAD_BYTES,
    PHOTO_BYTES,
    UPLOAD_BYTES,
    Command,
    File,
    FileBytes,
    Keyboard,
    Message,
    Payload,
    Progress,
    Rich,
    RichMessage,
    Scope,
    Target,
    Upload,
)
from pilothouse.channels.telegram.trouble import (
    Conflict,
    NetworkDown,
    NotTelegram,
    Refused,
    RetryAfter,
    TooBig,
    Trouble,
    Unauthorized,
)
from pilothouse.channels.telegram.wire import (
    KINDS,
    Arrived,
    FileInfo,
    Me,
    NoUpdate,
    Topic,
    WebhookInfo,
    read_update,
    salvage,
)
from pilothouse.channels.telegram.wire import Message as Posted
from pilothouse.core.channel import MIN_BYTES_PER_S
from pilothouse.core.clock import Clock
from pilothouse.core.text import span

if TYPE_CHECKING:
    from pilothouse.channels.telegram.api import Api


T = TypeVar("T")
CALL_S = 30.0
"""The time that the server may take to begin an answer."""
POLL_S = 50
"""The longest poll that Telegram allows."""
POLL_GRACE_S = 15.0
UNLINKED = {"link_preview_options": {"is_disabled": True}}


LOUD_AFTER = 4
"""Conflicts before the alarm: after about seven seconds it is neither our restart nor an old webhook."""
CALM_S = 90.0
"""Time without a conflict after which no other program polls. Over `LONGEST_S`, the other's longest wait."""
OTHER_POLLER = (
    "Another program receives messages with this bot's token, so each message reaches only one of the two. "
    "Stop the other program, or give this Pilothouse a bot of its own."
)
OTHER_HOOK = (
    "Another program sets a webhook for this bot again and again, so each message reaches only one of the two. "
    "Stop that program, or give this Pilothouse a bot of its own."
)
REFUSED = "Telegram refuses the bot token ({text}). Copy the current one from @BotFather and put it {place}. Then restart."
DOWN = "Telegram could not be reached for {since} ({text}). Messages wait there until it is back."
PAUSED = (
    "Telegram asks us to wait for {after} before it sends messages again ({text}). They wait there meanwhile."
)


class BotClient:
    """One bot at one server. Calls may run at the same time; the caller paces them."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def call(
        self,
        method: str,
        params: Mapping[str, Any],
        returns: type[T],
        *,
        uploads: Mapping[str, FileBytes] | None = None,
        wait_s: float = CALL_S,
    ) -> T | Trouble:
        """Call any method and read its result as `returns`."""
        given = {name: value for name, value in params.items() if value is not None}
        raw = await self._api.call(method, given, uploads or {}, wait_s)
        return raw if isinstance(raw, Trouble) else _read_result(method, raw, returns)

    # Receiving.

    async def get_me(self) -> Me | Trouble:
        return await self.call("getMe", {}, Me)

    async def get_updates(
        self,
        offset: int,
        *,
        timeout_s: int = POLL_S,
        limit: int = 100,
    ) -> tuple[Arrived | NoUpdate, ...] | Trouble:
        """Return the updates from `offset` on; Telegram forgets the ones before it."""
        params = {"offset": offset, "timeout": timeout_s, "limit": limit, "allowed_updates": KINDS}
        wait_s = max(timeout_s + POLL_GRACE_S, CALL_S)
        raws = await self.call("getUpdates", params, list[Raw], wait_s=wait_s)
        return raws if isinstance(raws, Trouble) else tuple(read_update(bytes(raw)) for raw in raws)

    async def set_webhook(self, url: str, secret_token: str) -> bool | Trouble:
        params = {"url": url, "secret_token": secret_token, "allowed_updates": KINDS, "max_connections": 4}
        return await self.call("setWebhook", params, bool)

    async def delete_webhook(self) -> bool | Trouble:
        """Delete the webhook. Pending updates are kept."""
        return await self.call("deleteWebhook", {"drop_pending_updates": False}, bool)

    async def get_webhook_info(self) -> WebhookInfo | Trouble:
        return await self.call("getWebhookInfo", {}, WebhookInfo)

    # Messages.

    async def post(self, target: Target, payload: Payload, file: FileBytes | None = None) -> Posted | Trouble:
        """Send a new message. `file` is the content of an upload. A photo loses quality; a document stays as it is."""
        params = {
            "chat_id": target.chat,
            "message_thread_id": target.thread,
            "reply_markup": payload.reply_markup,
            "reply_parameters": _reply(payload),
            "disable_notification": payload.silent or None,
        }
        match payload:
            case Message() | Progress():
                return await self.call("sendMessage", {**params, **_text(payload), **UNLINKED}, Posted)
            case Rich():
                return await self.call("sendRichMessage", {**params, "rich_message": _rich(payload)}, Posted)
            case File(name=name):
                file, kind = FileBytes(name, "text/plain", payload.text.encode(errors="replace")), "document"
            case Upload(kind=kind):
                pass
        assert file is not None, "an upload needs its content"
        if problem := _too_big(file, PHOTO_BYTES if kind == "photo" else UPLOAD_BYTES):
            return problem
        params = {**params, **_caption(payload), kind: "attach://file"}
        return await self.call(f"send{kind.capitalize()}", params, Posted, uploads={"file": file})

    async def edit(self, chat_id: int, message_id: int, payload: Payload) -> Posted | Trouble:
        """Replace a message, with its buttons. Of a file only the caption changes."""
        params = {"chat_id": chat_id, "message_id": message_id, "reply_markup": payload.reply_markup}
        match payload:
            case Message() | Progress():
                found = await self.call("editMessageText", {**params, **_text(payload), **UNLINKED}, Posted)
                if not isinstance(found, Refused) or "no text" not in found.text:
                    return found
                # The message is a file: the text becomes its caption.
            case Rich():
                return await self.call("editMessageText", {**params, "rich_message": _rich(payload)}, Posted)
            case _:
                pass
        return await self.call("editMessageCaption", {**params, **_caption(payload)}, Posted)

    async def draft(self, target: Target, draft_id: int, payload: Progress) -> bool | Trouble:
        """Show a preview that lasts about 30 seconds, in private chats only. The final message must follow."""
        params = {
            "chat_id": target.chat,
            "message_thread_id": target.thread,
            "draft_id": draft_id,
            "can_stop": True,
        }
        if payload.html:
            rich = RichMessage(payload.html)
            return await self.call("sendRichMessageDraft", {**params, "rich_message": rich}, bool)
        return await self.call("sendMessageDraft", {**params, **_text(payload)}, bool)

    async def edit_keyboard(
        self, chat_id: int, message_id: int, keyboard: Keyboard | None
    ) -> Posted | Trouble:
        params = {"chat_id": chat_id, "message_id": message_id, "reply_markup": keyboard}
        return await self.call("editMessageReplyMarkup", params, Posted)

    async def delete_message(self, chat_id: int, message_id: int) -> bool | Trouble:
        return await self.call("deleteMessage", {"chat_id": chat_id, "message_id": message_id}, bool)

    async def set_reaction(self, chat_id: int, message_id: int, emoji: str) -> bool | Trouble:
        reaction = [{"type": "emoji", "emoji": emoji}]
        params = {"chat_id": chat_id, "message_id": message_id, "reaction": reaction}
        return await self.call("setMessageReaction", params, bool)

    async def send_typing(self, chat_id: int, thread_id: int | None = None) -> bool | Trouble:
        params = {"chat_id": chat_id, "action": "typing", "message_thread_id": thread_id}
        return await self.call("sendChatAction", params, bool)

    # Files.

    async def get_file(self, file_id: str, *, size: int = 0) -> FileInfo | Trouble:
        """Look a file up. A self-hosted server fetches it from Telegram first, so a large one gets more time."""
        return await self.call(
            "getFile", {"file_id": file_id}, FileInfo, wait_s=CALL_S + size / MIN_BYTES_PER_S
        )

    async def download(
        self, file_id: str, *, size: int | None = None, limit: int = DOWNLOAD_BYTES
    ) -> bytes | Trouble:
        """Fetch a whole file of at most `limit` bytes.

        The bound holds whatever size the server announced. A body shorter than the file is a failure: without a
        Content-Length, a broken connection looks like the end."""
        file = await self.get_file(file_id, size=min(size or limit, limit))
        if isinstance(file, Trouble):
            return file
        if file.file_size is not None and file.file_size > limit:
            has, most = file.file_size / 1_000_000, limit // 1_000_000
            return TooBig(f"the file has {has:.0f} MB; at most {most} MB are fetched")
        if not file.file_path:
            return NotTelegram("getFile answered without a file_path")
        data = await self._api.fetch(file.file_path, limit)
        if isinstance(data, bytes) and len(data) < (file.file_size or 0):
            return NetworkDown(f"the file broke off: {len(data)} of {file.file_size} bytes came")
        return data

    # Buttons and menus.

    async def answer_callback(self, query_id: str, text: str = "", *, alert: bool = False) -> bool | Trouble:
        """Answer a button press with a toast for the person who pressed; without a text it only ends the wait."""
        params = {"callback_query_id": query_id, "text": text or None, "show_alert": alert or None}
        return await self.call("answerCallbackQuery", params, bool)

    async def set_my_commands(
        self, commands: Sequence[Command], *, scope: Scope | None = None
    ) -> bool | Trouble:
        params = {"commands": list(commands), "scope": scope}
        return await self.call("setMyCommands", params, bool)

    # Topics.

    async def create_topic(self, chat_id: int, name: str) -> Topic | Trouble:
        return await self.call("createForumTopic", {"chat_id": chat_id, "name": name}, Topic)


@asynccontextmanager
async def open_client(endpoint: Endpoint) -> AsyncIterator[BotClient]:
    """Open a client. The first call reports a bad token or an unreachable server. Imports the HTTP library."""
    from pilothouse.channels.telegram.api import open_api

    async with open_api(endpoint) as api:
        yield BotClient(api)


def _text(payload: Message | Progress) -> dict[str, Any]:
    return {"text": payload.text or None, "entities": payload.entities or None}


def _caption(payload: Message | Progress | File | Upload) -> dict[str, Any]:
    is_file = isinstance(payload, File)
    text, entities = (
        (payload.caption, payload.caption_entities) if is_file else (payload.text, payload.entities)
    )
    return {"caption": text or None, "caption_entities": entities or None}


def _rich(payload: Rich) -> RichMessage:
    return RichMessage(payload.html, payload.is_rtl)


def _reply(payload: Payload) -> dict[str, Any] | None:
    """Name the message to reply to, which may be deleted. A reaction, which has no message number, cannot be replied to."""
    if not payload.reply_to.isdecimal():
        return None
    return {"message_id": int(payload.reply_to), "allow_sending_without_reply": True}


def _too_big(file: FileBytes, limit: int) -> TooBig | None:
    size = len(file.data)
    if size <= limit:
        return None
    return TooBig(f"{file.name} has {size / 1_000_000:.1f} MB; Telegram takes {limit // 1_000_000} MB")


def _read_result(method: str, raw: Raw, returns: type[T]) -> T | Trouble:
    """Read a result. One that cannot be read is `maybe_done`: Telegram has carried out the call."""
    try:
        return msgspec.json.decode(raw, type=returns)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return salvage(msgspec.json.decode(raw), returns)[0]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return NotTelegram(f"{method} was answered with something else: {error}", maybe_done=True)


class Backoff:
    """Decides the pause after each failure, and when to report it. `place` says where a new token belongs."""

    def __init__(
        self, clock: Clock, log: Callable[..., None], alarm: Callable[[str], None], *, place: str
    ) -> None:
        self._clock = clock
        self._log = log
        self._place = place
        self._down = Outage(clock, alarm)
        self._conflicts = Outage(clock, alarm)
        self._calm_at: float | None = None
        """The first success after the last conflict."""

    @property
    def is_failing(self) -> bool:
        """No call has succeeded since the last failure."""
        return self._down.in_a_row > 0

    @property
    def rival(self) -> str:
        """The alarm about another program, for as long as it may still run."""
        return self._conflicts.trouble

    def wait_s(self, trouble: Trouble) -> float:
        """Record a failure; return how long to wait."""
        in_a_row = self._down.fail()
        if isinstance(trouble, Conflict):
            in_a_row = max(in_a_row, self._conflicts.fail())
            self._calm_at = None
        self._log("telegram.poll_failed", kind=type(trouble).__name__, why=trouble.text, in_a_row=in_a_row)
        self._tell(trouble)
        if isinstance(trouble, RetryAfter):
            return trouble.after_s
        return LONGEST_S if isinstance(trouble, Unauthorized) else pause_s(in_a_row)

    def succeeded(self) -> None:
        """Record a success. It ends every trouble but another program, which needs `CALM_S` without a conflict."""
        after_s = self._down.end()
        if self._conflicts.in_a_row:
            now = self._clock.monotonic()
            self._calm_at = now if self._calm_at is None else self._calm_at
            if now - self._calm_at < CALM_S:
                return
            after_s = self._conflicts.end()
        if after_s is not None:
            self._log("telegram.poll_recovered", after_s=round(after_s, 1))

    def _tell(self, trouble: Trouble) -> None:
        """Report the failure, unless it is too early."""
        text, down_s = trouble.text, self._down.lasted_s
        match trouble:
            case Unauthorized():
                self._down.tell(REFUSED, REFUSED.format(text=text, place=self._place))
            case Conflict(webhook=webhook) if self._conflicts.in_a_row >= LOUD_AFTER:
                words = OTHER_HOOK if webhook else OTHER_POLLER
                self._conflicts.tell(words, words)
            case RetryAfter(after_s=after_s):
                if down_s + after_s >= LOUD_S:
                    self._down.tell(PAUSED, PAUSED.format(text=text, after=span(after_s)))
            case _ if down_s >= LOUD_S:
                self._down.tell(DOWN, DOWN.format(text=text, since=span(down_s)))
            case _:
                pass
