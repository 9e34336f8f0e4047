"""From a request's parameters to a message's content: texts are judged by TDLib, keyboards and files by their limits."""

from dataclasses import dataclass
from typing import Any

from tests.channels.telegram.judge_tdlib import CAPTION_LIMIT, TEXT_LIMIT, detect, judge
from tests.channels.telegram.server.refusal import Refusal, bad
from tests.channels.telegram.server.world import Chat, Json, World

UPLOAD_BYTES = 50 << 20
PHOTO_BYTES = 10 << 20
RICH_CHARS = 32_768
RICH_BLOCKS = 500


@dataclass
class Upload:
    name: str
    data: bytes
    media_type: str


Uploads = dict[str, Upload]


def read_text(params: Json) -> Json:
    return _formatted(params, "text", "entities", TEXT_LIMIT, may_be_empty=False)


def read_caption(params: Json) -> Json:
    return _formatted(params, "caption", "caption_entities", CAPTION_LIMIT, may_be_empty=True)


def _formatted(params: Json, name: str, entities_name: str, limit: int, *, may_be_empty: bool) -> Json:
    judged = judge(
        params.get(name) or "",
        entities=params.get(entities_name),
        parse_mode=params.get("parse_mode"),
        limit=limit,
        may_be_empty=may_be_empty,
    )
    if judged.why:
        raise bad(judged.why)
    entities = [dict(entity) for entity in judged.entities] or list(detect(judged.text))
    text = judged.text.strip()
    return {**({name: text} if text else {}), **({entities_name: entities} if entities else {})}


def read_rich(params: Json) -> Json:
    """There is no judge of rich Markdown: its source is kept, as one paragraph."""
    rich = params["rich_message"]
    given = [name for name in ("markdown", "html", "blocks") if rich.get(name)]
    if len(given) != 1:
        raise bad("RICH_MESSAGE_INVALID: exactly one of markdown, html and blocks must be given")
    if given[0] == "blocks":
        if len(rich["blocks"]) > RICH_BLOCKS:
            raise bad("RICH_MESSAGE_BLOCKS_TOO_MUCH")
        return {"rich_message": {"blocks": rich["blocks"]}}
    if len(rich[given[0]]) > RICH_CHARS:
        raise bad("RICH_MESSAGE_TOO_LONG")
    return {"rich_message": {"blocks": [{"type": "paragraph", "text": rich[given[0]]}]}}


def read_keyboard(params: Json) -> Json:
    markup = params.get("reply_markup") or {}
    rows = [row for row in markup.get("inline_keyboard", ()) if row]
    buttons = [button for row in rows for button in row]
    if len(buttons) > 100:
        raise bad("REPLY_MARKUP_TOO_LONG")
    for button in buttons:
        _check_button(button)
    return {"reply_markup": {"inline_keyboard": rows}} if rows else {}


def _check_button(button: Json) -> None:
    if not button["text"].strip():
        raise bad("BUTTON_TEXT_INVALID")
    if "callback_data" in button:
        if not 1 <= len(button["callback_data"].encode()) <= 64:
            raise bad("BUTTON_DATA_INVALID")
    elif "url" in button:
        link = {"type": "text_link", "offset": 0, "length": 1, "url": button["url"]}
        if judge("x", entities=[link]).why:
            raise bad(f"inline keyboard button URL '{button['url']}' is invalid: Wrong HTTP URL")
    elif not set(button) & {"copy_text", "web_app", "switch_inline_query", "disabled"}:
        raise bad("can't parse inline keyboard button: text buttons are unallowed in the inline keyboard")


def read_place(world: World, params: Json) -> tuple[Chat, Json]:
    """Where it shall stand: the chat, the topic, what it answers."""
    chat = world.chat(params["chat_id"])
    place: Json = {}
    if thread := int(params.get("message_thread_id") or 0):
        topic = chat.topics.get(thread)
        if topic is None:
            raise bad("message thread not found")
        if topic.closed:
            raise bad("TOPIC_CLOSED")
        place = {"message_thread_id": thread, "is_topic_message": True}
    return chat, {**place, **_reply(world, chat, params.get("reply_parameters"))}


def _reply(world: World, chat: Chat, reply: Json | None) -> Json:
    if not reply:
        return {}
    answered = world.find(chat.id, int(reply["message_id"]))
    if answered is not None:
        return {"reply_to_message": {k: v for k, v in answered.message.items() if k != "reply_to_message"}}
    if reply.get("allow_sending_without_reply"):
        return {}
    raise bad("message to be replied not found")


def read_file(world: World, kind: str, value: object, uploads: Uploads) -> Json:
    """A photo or document: uploaded with the request, or known already."""
    text = str(value or "")
    if text in world.files:
        stored = world.files[text]
        return _medium(world, kind, Upload(stored.name, stored.data, stored.media_type))
    upload = (
        uploads.get(text.removeprefix("attach://")) if text.startswith("attach://") else uploads.get(kind)
    )
    if upload is None:
        raise bad(f"there is no {kind} in the request")
    if not upload.data:
        raise bad("file must be non-empty")
    if len(upload.data) > (PHOTO_BYTES if kind == "photo" else UPLOAD_BYTES):
        raise Refusal(413, "Request Entity Too Large")
    return _medium(world, kind, upload)


def _medium(world: World, kind: str, upload: Upload) -> Json:
    kept = world.keep(upload.name, upload.data, upload.media_type)
    if kind == "photo":
        return {"photo": [{**kept, "width": 1280, "height": 960}]}
    return {kind: {**kept, "file_name": upload.name, "mime_type": upload.media_type}}


def whole(value: Any) -> int:
    """In a form even numbers are text."""
    return int(value)


def flag(value: Any) -> bool:
    return value is True or str(value).lower() in ("true", "1")
