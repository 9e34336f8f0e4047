"""Values that Telegram sends (Bot API 10.3): only the fields that we read.

An unknown field or kind of update is ignored. A field of an unexpected type is dropped with as little of its message
as possible. `read_update` never raises, and keeps the bytes as they came.

A field of a message that we do not read, and that is neither in `SERVICE` nor in `MANNER`, is unknown content: its sender
is told.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

T = TypeVar("T")

_SERVICE_FIELDS = """
new_chat_members left_chat_member chat_owner_left chat_owner_changed new_chat_title new_chat_photo delete_chat_photo
group_chat_created supergroup_chat_created channel_chat_created message_auto_delete_timer_changed migrate_to_chat_id
migrate_from_chat_id pinned_message successful_payment refunded_payment users_shared user_shared chat_shared gift
unique_gift gift_upgrade_sent connected_website write_access_allowed proximity_alert_triggered boost_added
chat_background_set checklist_tasks_done checklist_tasks_added direct_message_price_changed forum_topic_created
forum_topic_edited forum_topic_closed forum_topic_reopened general_forum_topic_hidden general_forum_topic_unhidden
giveaway_created giveaway_completed managed_bot_created paid_message_price_changed poll_option_added
poll_option_deleted suggested_post_approved suggested_post_approval_failed suggested_post_declined suggested_post_paid
suggested_post_refunded video_chat_scheduled video_chat_started video_chat_ended video_chat_participants_invited
voice_chat_scheduled voice_chat_started voice_chat_ended voice_chat_participants_invited community_chat_added
community_chat_removed community_chat_joined
"""
SERVICE = frozenset(_SERVICE_FIELDS.split())
"""Fields of service messages."""
_MANNER_FIELDS = """
direct_messages_topic sender_boost_count sender_business_bot sender_tag guest_query_id business_connection_id
external_reply reply_to_story reply_to_checklist_task_id reply_to_poll_option_id guest_bot_caller_user
guest_bot_caller_chat has_protected_content is_from_offline is_paid_post author_signature paid_star_count
link_preview_options suggested_post_info effect_id show_caption_above_media has_media_spoiler receiver_user
ephemeral_message_id forward_date forward_from forward_from_chat forward_from_message_id forward_sender_name
forward_signature live_photo
"""
MANNER = frozenset(_MANNER_FIELDS.split())
"""Fields about how a message was sent. A live photo comes with a photo of the same moment, for older programs."""


class Entity(Struct, frozen=True, omit_defaults=True):
    """A formatted or linked range of text. `offset` and `length` count UTF-16 units."""

    type: str
    offset: int
    length: int
    url: str | None = None
    language: str | None = None
    user: User | None = None
    custom_emoji_id: str | None = None


class User(Struct, frozen=True):
    id: int
    is_bot: bool = False
    first_name: str = ""
    last_name: str | None = None
    username: str | None = None


class Me(User, frozen=True):
    """Our own account, from `getMe`."""

    can_read_all_group_messages: bool = False


class Chat(Struct, frozen=True):
    id: int
    type: str = "private"
    title: str | None = None
    username: str | None = None
    first_name: str | None = None
    last_name: str | None = None


class PhotoSize(Struct, frozen=True):
    file_id: str
    width: int = 0
    height: int = 0
    file_size: int | None = None


class FileRef(Struct, frozen=True):
    """A document, animation, video, audio, voice or video note: for us only the name differs."""

    file_id: str
    file_name: str | None = None
    mime_type: str | None = None
    file_size: int | None = None
    duration: int | None = None


class Sticker(Struct, frozen=True):
    emoji: str | None = None


class Location(Struct, frozen=True):
    latitude: float
    longitude: float


class Venue(Struct, frozen=True):
    location: Location
    title: str = ""
    address: str = ""


class Contact(Struct, frozen=True):
    phone_number: str
    first_name: str = ""
    last_name: str | None = None


class PollOption(Struct, frozen=True):
    text: str


class Poll(Struct, frozen=True):
    question: str
    options: tuple[PollOption, ...] = ()


class Dice(Struct, frozen=True):
    emoji: str
    value: int


class Task(Struct, frozen=True):
    """A task of a checklist; `completion_date` is zero while it is open."""

    text: str
    text_entities: tuple[Entity, ...] = ()
    completion_date: int = 0


class Checklist(Struct, frozen=True):
    title: str
    title_entities: tuple[Entity, ...] = ()
    tasks: tuple[Task, ...] = ()


class Game(Struct, frozen=True):
    title: str
    description: str = ""
    text: str = ""


class Quote(Struct, frozen=True):
    text: str
    entities: tuple[Entity, ...] = ()


class Origin(Struct, frozen=True):
    """The origin of a forward; its kind decides which fields are set."""

    sender_user: User | None = None
    sender_user_name: str | None = None
    sender_chat: Chat | None = None
    chat: Chat | None = None


class Topic(Struct, frozen=True):
    """A forum topic that was created."""

    name: str | None = None
    message_thread_id: int | None = None


class Button(Struct, frozen=True):
    callback_data: str | None = None


class Keyboard(Struct, frozen=True):
    inline_keyboard: tuple[tuple[Button, ...], ...] = ()


class Message(Struct, frozen=True):
    message_id: int
    chat: Chat
    date: int = 0
    """Zero in an inaccessible message, such as a very old one whose button was pressed."""
    from_: User | None = field(default=None, name="from")
    sender_chat: Chat | None = None
    message_thread_id: int | None = None
    is_topic_message: bool = False
    is_automatic_forward: bool = False
    edit_date: int | None = None
    media_group_id: str | None = None
    reply_to_message: Message | None = None
    quote: Quote | None = None
    forward_origin: Origin | None = None
    via_bot: User | None = None
    text: str | None = None
    entities: tuple[Entity, ...] = ()
    caption: str | None = None
    caption_entities: tuple[Entity, ...] = ()
    photo: tuple[PhotoSize, ...] = ()
    document: FileRef | None = None
    animation: FileRef | None = None
    video: FileRef | None = None
    video_note: FileRef | None = None
    audio: FileRef | None = None
    voice: FileRef | None = None
    sticker: Sticker | None = None
    location: Location | None = None
    venue: Venue | None = None
    contact: Contact | None = None
    poll: Poll | None = None
    dice: Dice | None = None
    checklist: Checklist | None = None
    game: Game | None = None
    rich_message: Any = None
    """Undecoded; `written` reads its blocks."""
    migrate_to_chat_id: int | None = None
    migrate_from_chat_id: int | None = None
    reply_markup: Keyboard | None = None
    unread: tuple[str, ...] = field(default=(), name="?unread")
    """Names of content fields that we do not read. We add this; Telegram does not send it."""

    def has_button(self, data: str | None) -> bool:
        rows = self.reply_markup.inline_keyboard if self.reply_markup else ()
        return any(button.callback_data == data for row in rows for button in row)


class CallbackQuery(Struct, frozen=True):
    """A button press. `data` may be forged."""

    id: str
    from_: User = field(name="from")
    message: Message | None = None
    data: str | None = None


class Reaction(Struct, frozen=True):
    emoji: str | None = None


class ReactionChanged(Struct, frozen=True):
    chat: Chat
    message_id: int
    date: int = 0
    user: User | None = None
    old_reaction: tuple[Reaction, ...] = ()
    new_reaction: tuple[Reaction, ...] = ()


class ChatMember(Struct, frozen=True):
    """`status`: creator, administrator, member, restricted, left or kicked."""

    status: str
    user: User
    is_member: bool | None = None


class MemberChanged(Struct, frozen=True):
    chat: Chat
    from_: User = field(name="from")
    old_chat_member: ChatMember
    new_chat_member: ChatMember
    date: int = 0


class DraftStopped(Struct, frozen=True):
    """A person pressed stop below a draft.

    `draft_id` is documented as a number, but the official server is said to send text."""

    chat: Chat
    draft_id: int | str
    message_thread_id: int | None = None

    @property
    def draft_number(self) -> int | None:
        """The id as a number, or None."""
        try:
            return int(self.draft_id)
        except ValueError:
            return None


class FileInfo(Struct, frozen=True):
    file_id: str
    file_path: str | None = None
    file_size: int | None = None


class WebhookInfo(Struct, frozen=True):
    url: str = ""
    pending_update_count: int = 0
    last_error_message: str | None = None


class Update(Struct, frozen=True):
    """At most one field besides the id is set; none for a kind that we do not read."""

    update_id: int
    message: Message | None = None
    edited_message: Message | None = None
    channel_post: Message | None = None
    edited_channel_post: Message | None = None
    callback_query: CallbackQuery | None = None
    message_reaction: ReactionChanged | None = None
    my_chat_member: MemberChanged | None = None
    stopped_message_generation: DraftStopped | None = None


KINDS = tuple(name for name in Update.__struct_fields__ if name != "update_id")
"""Our `allowed_updates`: Telegram sends reactions only if they are named."""


class Arrived(Struct, frozen=True):
    """An update and its bytes. `lost` names fields that could not be read."""

    update: Update
    raw: bytes
    lost: tuple[str, ...] = ()


class NoUpdate(Struct, frozen=True):
    """Bytes that are not an update. Without a number, it can be neither handled nor asked for again."""

    raw: bytes
    why: str


def read_update(raw: bytes) -> Arrived | NoUpdate:
    """Decode an update. msgspec compiles the types on first use, which keeps the start fast."""
    try:
        return _arrived(msgspec.json.decode(raw, type=Update), raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        value = msgspec.json.decode(raw)
        update, lost = salvage(value, Update)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return NoUpdate(raw, str(error))
    return _arrived(update, raw, tuple(lost))


def salvage(value: Any, kind: type[T]) -> tuple[T, list[str]]:
    """Convert `value`, which is changed, removing parts that do not fit until the rest does.

    Raises `msgspec.ValidationError` if nothing is left to remove.
    """
    lost: list[str] = []
    while True:
        try:
            return msgspec.convert(value, kind), lost
        except msgspec.ValidationError as error:
            path = _path(str(error))
            if not path or not _cut(value, path):
                raise
            lost.append(".".join(str(step) for step in path))


def _path(error: str) -> list[str | int]:
    """Parse the path in msgspec's `… - at `$.message.entities[0].offset``; empty for the root."""
    _, found, place = error.rpartition(" - at `$")
    if not found:
        return []
    steps: list[str | int] = []
    for part in place.rstrip("`").split("."):
        name, *indices = part.split("[")
        steps += [name] if name else []
        steps += [int(index.rstrip("]")) for index in indices if index.rstrip("]").isdigit()]
    return steps


def _cut(value: Any, path: list[str | int]) -> bool:
    try:
        for step in path[:-1]:
            value = value[step]
        del value[path[-1]]
    except (KeyError, IndexError, TypeError):
        return False
    return True


def _arrived(update: Update, raw: bytes, lost: tuple[str, ...] = ()) -> Arrived:
    if update.message is not None and update.message.text is None:
        unread = _unread(raw)
        update = replace(update, message=replace(update.message, unread=unread)) if unread else update
    return Arrived(update, raw, lost)


class _Fields(Struct):
    message: dict[str, msgspec.Raw]


def _unread(raw: bytes) -> tuple[str, ...]:
    names = msgspec.json.decode(raw, type=_Fields).message.keys()
    known = MANNER.union(Message.__struct_encode_fields__)
    return () if SERVICE & names else tuple(name for name in names if name not in known)
