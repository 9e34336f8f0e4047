"""The Bot API methods that Pilothouse uses, typed. A call returns its result or a `Trouble`; the network never raises.

Parameters that are `None` are not sent. Texts are sent with entities and without link previews. Telegram's limits are
not checked here, except for files, whose bytes would have to be sent first.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from msgspec import Raw

from pilothouse.channels.telegram.config import Endpoint
from pilothouse.channels.telegram.payload import DOWNLOAD_BYTES, PHOTO_BYTES, UPLOAD_BYTES
from pilothouse.channels.telegram.shapes import (
    Action,
    ChatId,
    Command,
    EntityShape,
    KeyboardShape,
    ReplyTo,
    Rich,
    Scope,
    Upload,
    place,
    read_result,
    too_big,
    words,
)
from pilothouse.channels.telegram.trouble import NetworkDown, NotTelegram, TooBig, Trouble
from pilothouse.channels.telegram.wire import (
    KINDS,
    Arrived,
    File,
    Me,
    Message,
    NoUpdate,
    Topic,
    WebhookInfo,
    read_update,
)
from pilothouse.core.channel import MIN_BYTES_PER_S

if TYPE_CHECKING:
    from pilothouse.channels.telegram.api import Api

T = TypeVar("T")

CALL_S = 30.0
"""The time that the server may take to begin an answer."""
POLL_S = 50
"""The longest poll that Telegram allows."""
POLL_GRACE_S = 15.0


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
        uploads: Mapping[str, Upload] | None = None,
        wait_s: float = CALL_S,
    ) -> T | Trouble:
        """Call any method and read its result as `returns`."""
        given = {name: value for name, value in params.items() if value is not None}
        raw = await self._api.call(method, given, uploads or {}, wait_s)
        return raw if isinstance(raw, Trouble) else read_result(method, raw, returns)

    # Receiving.

    async def get_me(self) -> Me | Trouble:
        return await self.call("getMe", {}, Me)

    async def get_updates(
        self,
        offset: int,
        *,
        timeout_s: int = POLL_S,
        limit: int = 100,
        allowed: Sequence[str] = KINDS,
    ) -> tuple[Arrived | NoUpdate, ...] | Trouble:
        """Return the updates from `offset` on; Telegram forgets the ones before it."""
        params = {"offset": offset, "timeout": timeout_s, "limit": limit, "allowed_updates": list(allowed)}
        wait_s = max(timeout_s + POLL_GRACE_S, CALL_S)
        raws = await self.call("getUpdates", params, list[Raw], wait_s=wait_s)
        return raws if isinstance(raws, Trouble) else tuple(read_update(bytes(raw)) for raw in raws)

    async def set_webhook(
        self, url: str, secret_token: str, *, allowed: Sequence[str] = KINDS, max_connections: int = 4
    ) -> bool | Trouble:
        params = {
            "url": url,
            "secret_token": secret_token,
            "allowed_updates": list(allowed),
            "max_connections": max_connections,
        }
        return await self.call("setWebhook", params, bool)

    async def delete_webhook(self) -> bool | Trouble:
        """Delete the webhook. Pending updates are kept."""
        return await self.call("deleteWebhook", {"drop_pending_updates": False}, bool)

    async def get_webhook_info(self) -> WebhookInfo | Trouble:
        return await self.call("getWebhookInfo", {}, WebhookInfo)

    # Messages.

    async def send_message(
        self,
        chat_id: ChatId,
        text: str,
        *,
        thread_id: int | None = None,
        entities: Sequence[EntityShape] = (),
        keyboard: KeyboardShape | None = None,
        reply_to: ReplyTo | None = None,
        silent: bool = False,
    ) -> Message | Trouble:
        params = {
            **place(chat_id, thread_id, keyboard, reply_to, silent),
            **words("text", text, "entities", entities),
            "link_preview_options": {"is_disabled": True},
        }
        return await self.call("sendMessage", params, Message)

    async def send_rich(
        self,
        chat_id: ChatId,
        rich: Rich,
        *,
        thread_id: int | None = None,
        keyboard: KeyboardShape | None = None,
        reply_to: ReplyTo | None = None,
        silent: bool = False,
    ) -> Message | Trouble:
        params = {**place(chat_id, thread_id, keyboard, reply_to, silent), "rich_message": rich}
        return await self.call("sendRichMessage", params, Message)

    async def edit_text(
        self,
        chat_id: ChatId,
        message_id: int,
        text: str,
        *,
        entities: Sequence[EntityShape] = (),
        keyboard: KeyboardShape | None = None,
    ) -> Message | Trouble:
        """Replace a text. Without `keyboard` the buttons are removed."""
        params = {
            "chat_id": chat_id,
            "message_id": message_id,
            **words("text", text, "entities", entities),
            "reply_markup": keyboard,
            "link_preview_options": {"is_disabled": True},
        }
        return await self.call("editMessageText", params, Message)

    async def edit_rich(
        self, chat_id: ChatId, message_id: int, rich: Rich, *, keyboard: KeyboardShape | None = None
    ) -> Message | Trouble:
        params = {
            "chat_id": chat_id,
            "message_id": message_id,
            "rich_message": rich,
            "reply_markup": keyboard,
        }
        return await self.call("editMessageText", params, Message)

    async def edit_caption(
        self,
        chat_id: ChatId,
        message_id: int,
        caption: str,
        *,
        entities: Sequence[EntityShape] = (),
        keyboard: KeyboardShape | None = None,
    ) -> Message | Trouble:
        params = {
            "chat_id": chat_id,
            "message_id": message_id,
            **words("caption", caption, "caption_entities", entities),
            "reply_markup": keyboard,
        }
        return await self.call("editMessageCaption", params, Message)

    async def edit_keyboard(
        self, chat_id: ChatId, message_id: int, keyboard: KeyboardShape | None
    ) -> Message | Trouble:
        params = {"chat_id": chat_id, "message_id": message_id, "reply_markup": keyboard}
        return await self.call("editMessageReplyMarkup", params, Message)

    async def delete_message(self, chat_id: ChatId, message_id: int) -> bool | Trouble:
        return await self.call("deleteMessage", {"chat_id": chat_id, "message_id": message_id}, bool)

    async def send_chat_action(
        self, chat_id: ChatId, action: Action = "typing", *, thread_id: int | None = None
    ) -> bool | Trouble:
        params = {"chat_id": chat_id, "action": action, "message_thread_id": thread_id}
        return await self.call("sendChatAction", params, bool)

    # Drafts: a preview that lasts about 30 seconds, in private chats only. The final message must follow.

    async def send_draft(
        self,
        chat_id: int,
        draft_id: int,
        text: str,
        *,
        thread_id: int | None = None,
        entities: Sequence[EntityShape] = (),
        can_stop: bool = False,
    ) -> bool | Trouble:
        params = {
            "chat_id": chat_id,
            "draft_id": draft_id,
            **words("text", text, "entities", entities),
            "message_thread_id": thread_id,
            "can_stop": can_stop or None,
        }
        return await self.call("sendMessageDraft", params, bool)

    async def send_rich_draft(
        self,
        chat_id: int,
        draft_id: int,
        rich: Rich,
        *,
        thread_id: int | None = None,
        can_stop: bool = False,
    ) -> bool | Trouble:
        params = {
            "chat_id": chat_id,
            "draft_id": draft_id,
            "rich_message": rich,
            "message_thread_id": thread_id,
            "can_stop": can_stop or None,
        }
        return await self.call("sendRichMessageDraft", params, bool)

    # Files.

    async def send_file(
        self,
        chat_id: ChatId,
        upload: Upload,
        *,
        kind: Literal["document", "photo"] = "document",
        caption: str = "",
        entities: Sequence[EntityShape] = (),
        thread_id: int | None = None,
        keyboard: KeyboardShape | None = None,
        reply_to: ReplyTo | None = None,
        silent: bool = False,
    ) -> Message | Trouble:
        """Send a file. A photo is shown as one and loses quality; a document stays as it is."""
        if problem := too_big(upload, PHOTO_BYTES if kind == "photo" else UPLOAD_BYTES):
            return problem
        params = {
            **place(chat_id, thread_id, keyboard, reply_to, silent),
            **words("caption", caption, "caption_entities", entities),
            kind: "attach://file",
        }
        method = "sendPhoto" if kind == "photo" else "sendDocument"
        return await self.call(method, params, Message, uploads={"file": upload})

    async def get_file(self, file_id: str, *, size: int = 0) -> File | Trouble:
        """Look a file up. A self-hosted server fetches it from Telegram first, so a large one gets more time."""
        return await self.call("getFile", {"file_id": file_id}, File, wait_s=CALL_S + size / MIN_BYTES_PER_S)

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

    async def create_topic(self, chat_id: ChatId, name: str) -> Topic | Trouble:
        return await self.call("createForumTopic", {"chat_id": chat_id, "name": name}, Topic)


@asynccontextmanager
async def open_client(endpoint: Endpoint) -> AsyncIterator[BotClient]:
    """Open a client. The first call reports a bad token or an unreachable server. Imports the HTTP library."""
    from pilothouse.channels.telegram.api import open_api

    async with open_api(endpoint) as api:
        yield BotClient(api)
