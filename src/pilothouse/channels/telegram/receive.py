"""Translates updates into one happening for what people see as one event. Pure.

`pieces` groups the updates of one message. The message has the number of its first piece, and each piece keeps its
own, so that a repeat of any is recognised. Pieces of a message for us are for us, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from pilothouse.channels.telegram.content import (
    Bot,
    WantedFile,
    address_of,
    author_of,
    file_names,
    files_of,
    forward_line,
    is_anonymous_admin,
    is_command,
    is_for_us,
    is_reply_to,
    kind_name,
    may_answer,
    person,
    replied_to,
    text_of,
    without_our_name,
)
from pilothouse.channels.telegram.pieces import last_piece, message_of, text_between
from pilothouse.channels.telegram.wire import (
    CallbackQuery,
    DraftStopped,
    Me,
    MemberChanged,
    Message,
    ReactionChanged,
    Update,
)
from pilothouse.channels.telegram.written import as_typed
from pilothouse.core.message import Address, Author, InboundMessage, MessageEdited, Piece, made_of
from pilothouse.core.trigger import Trigger

QUOTED_CHARS = 2000
FORGOT_S = 600
"""Time after sending in which an edit may turn a message into one for us."""


class Said(Struct, frozen=True):
    """A message for the desk. Its files are not fetched yet.

    An overheard one is for us only if it answers a question to its author: the desk knows."""

    message: InboundMessage
    wanted: tuple[tuple[WantedFile, ...], ...] = ()
    """Files of each piece; the first includes those of the message that it replies to."""
    to_us: bool = True
    """It addresses us, and was not merely overheard in a group with the trigger `all`."""

    @property
    def files(self) -> tuple[WantedFile, ...]:
        return tuple(file for files in self.wanted for file in files)


class Changed(Struct, frozen=True):
    edit: MessageEdited
    said: Said | None = None
    """The message as new, if the edit may have made it one for us, for instance by adding our name."""


class Reacted(Struct, frozen=True):
    """A note for the desk about the message that it replies to. Telegram does not tell that message's topic.

    `added` and `removed` are emoji; either may be empty."""

    note: InboundMessage
    added: str
    removed: str = ""

    def id_of(self, emoji: str) -> str:
        """Return the id of a reaction that starts a turn: the same one, put again, has the same id."""
        return f"reaction:{self.note.reply_to}:{self.note.author.id.rpartition(':')[2]}:{emoji}"

    def as_work(self, quoted: str) -> InboundMessage:
        """Return a message that starts a turn, about a message of ours with this text."""
        text = quoted if len(quoted) <= QUOTED_CHARS else quoted[:QUOTED_CHARS] + "…"
        words = f"{self.note.author.name} reacted with {self.added} to your message, which is quoted above."
        id = self.id_of(self.added)
        return replace(self.note, kind="reaction", native_id=id, text=words, quoted=text or None)


class Pressed(Struct, frozen=True):
    query: CallbackQuery
    by: Author
    address: Address | None
    """The button's conversation, if Telegram tells it."""


class Stopped(Struct, frozen=True):
    """A person stopped a draft."""

    stop: DraftStopped


class Membership(Struct, frozen=True):
    """We were added, removed, blocked, unblocked, promoted, or demoted."""

    change: MemberChanged


class Moved(Struct, frozen=True):
    """A group got a new number."""

    old: int
    new: int


class Unread(Struct, frozen=True):
    """A message of an unknown kind; `kinds` are Telegram's names."""

    message: InboundMessage
    kinds: tuple[str, ...]


class Anonymous(Struct, frozen=True):
    """A message by an anonymous administrator, who cannot be identified and so may do nothing."""

    message: InboundMessage


class Ignored(Struct, frozen=True):
    """Not for us, or unknown. `why` goes to the log."""

    why: str


Happening = Said | Changed | Reacted | Pressed | Stopped | Membership | Moved | Unread | Anonymous | Ignored


def translate(updates: Sequence[Update], bot: Bot, trigger: Trigger) -> Happening:
    """Translate the pieces of one message, or one update of any kind."""
    first = updates[0]
    messages = [message for update in updates if (message := message_of(update)) is not None]
    if messages:
        return _said(messages, bot, trigger)
    if (edited := first.edited_message or first.edited_channel_post) is not None:
        return _changed(edited, bot, trigger)
    if (query := first.callback_query) is not None:
        address = address_of(query.message) if query.message else None
        return Pressed(query, person(query.from_), address)
    if first.message_reaction is not None:
        return _reacted(first.message_reaction)
    if first.my_chat_member is not None:
        return Membership(first.my_chat_member)
    if first.stopped_message_generation is not None:
        return Stopped(first.stopped_message_generation)
    return Ignored("an update of a kind that we do not read")


def _said(messages: Sequence[Message], bot: Bot, trigger: Trigger) -> Happening:
    first = messages[0]
    author = author_of(first)
    if first.migrate_to_chat_id is not None:
        return Moved(first.chat.id, first.migrate_to_chat_id)
    if first.migrate_from_chat_id is not None:  # Telegram sends both; either may come first
        return Moved(first.migrate_from_chat_id, first.chat.id)
    if author is None or author.is_bot:
        return Ignored("no author" if author is None else "a bot said it")
    if first.is_automatic_forward:
        return Ignored("a post of the group's linked channel")
    if is_anonymous_admin(first):
        to_us = any(is_for_us(message, bot, Trigger("mention")) for message in messages)
        return (
            Anonymous(_inbound(first, author, "")) if to_us else Ignored("an anonymous administrator said it")
        )
    return _said_by(author, messages, bot, trigger)


def _said_by(author: Author, messages: Sequence[Message], bot: Bot, trigger: Trigger) -> Happening:
    first, me = messages[0], bot.me
    wanted = tuple(files_of(message) for message in messages)
    if not any(wanted) and not any(map(text_of, messages)):
        return _without_words(first, author, bot)
    overheard = not any(is_for_us(message, bot, trigger) for message in messages)
    if overheard and not all(map(may_answer, messages)):
        return Ignored("not for us")
    message = replace(_inbound(first, author, ""), overheard=overheard)
    to_us = any(is_for_us(message, bot, Trigger("mention")) for message in messages)
    with_answered = ((*wanted[0], *_answered_files(first, me)), *wanted[1:])
    return Said(made_of(message, _pieces(messages, wanted, me)), with_answered, to_us)


def _answered_files(message: Message, me: Me) -> tuple[WantedFile, ...]:
    """Return the files of the message that it replies to, unless we sent them or this is a command."""
    answered = replied_to(message)
    if answered is None or is_reply_to(message, me) or is_command(message):
        return ()
    return files_of(answered)


def _pieces(messages: Sequence[Message], wanted: Sequence[Sequence[WantedFile]], me: Me) -> list[Piece]:
    """Return the pieces. Where none has text, their files are named."""
    silent = not any(map(text_of, messages))
    pieces: list[Piece] = []
    before = None
    for message, files in zip(messages, wanted, strict=True):
        words = file_names(files) if silent else text_of(message)
        words = words or ("" if files else _unread_words(message))
        in_album = before is not None and before.album is not None and before.album == message.media_group_id
        origin = "" if in_album else forward_line(message)
        if origin and (words or files):
            words = f"{origin}\n{words}" if words else origin
        if not pieces:
            words = _opened(without_our_name(words, me))
        pieces.append(
            Piece(str(message.message_id), words, "" if before is None else text_between(before, message))
        )
        before = last_piece(message)
    return pieces


def _without_words(message: Message, author: Author, bot: Bot) -> Happening:
    if not message.unread:
        return Ignored("a service message")
    if not is_for_us(message, bot, Trigger("mention")):
        return Ignored("not for us, and of a kind that we do not read")
    return Unread(_inbound(message, author, _unread_words(message)), message.unread)


def _unread_words(message: Message) -> str:
    return "\n".join(f"[{kind_name(kind)}]" for kind in message.unread)


def _inbound(message: Message, author: Author, text: str) -> InboundMessage:
    answered = replied_to(message)
    return InboundMessage(
        address_of(message),
        author,
        str(message.message_id),
        text,
        reply_to=None if answered is None else str(answered.message_id),
        quoted=_quoted(message, answered),
        private=message.chat.type == "private",
        source="telegram",
        sent_at=float(message.date),
    )


def _opened(text: str) -> str:
    """Translate Telegram's `/start` button to `/help`, and the `/start CODE` of a link to `/pair CODE`."""
    if text.partition("@")[0] == "/start":
        return "/help"
    return f"/pair {text.removeprefix('/start ')}" if text.startswith("/start ") else text


def _quoted(message: Message, answered: Message | None) -> str | None:
    """Return the marked part of the replied-to message, else its beginning."""
    if message.quote is not None:
        return as_typed(message.quote.text, message.quote.entities)[:QUOTED_CHARS]
    if answered is None:
        return None
    text = text_of(answered) or file_names(files_of(answered))
    return (text if len(text) <= QUOTED_CHARS else text[:QUOTED_CHARS] + "…") or None


def _changed(message: Message, bot: Bot, trigger: Trigger) -> Happening:
    """Translate an edit. Live locations and new buttons are edits too; only changed text counts."""
    author, edited_at = author_of(message), message.edit_date or message.date
    if author is None or author.is_bot or not (message.text or message.caption):
        return Ignored("an edit that changes no words")
    text = without_our_name(text_of(message), bot.me)
    changed = Changed(MessageEdited(address_of(message), author, str(message.message_id), text))
    if edited_at - message.date > FORGOT_S:
        return changed
    match _said([message], bot, trigger):
        case Said() as said if not said.message.overheard:
            anew = replace(said.message, sent_at=float(edited_at))
            return replace(changed, said=replace(said, message=anew))
        case Anonymous() as faceless:
            return faceless
        case _:
            return changed


def _reacted(change: ReactionChanged) -> Happening:
    """Translate a reaction to a note for the next turn. Where reactions are switched on, it starts one."""
    old, new = (
        [one.emoji for one in some if one.emoji] for some in (change.old_reaction, change.new_reaction)
    )
    added, removed = ("".join(e for e in some if e not in kept) for some, kept in ((new, old), (old, new)))
    if change.user is None or change.user.is_bot or not (added or removed):
        return Ignored("a reaction of a bot, of nobody, or without an emoji")
    by = person(change.user)
    note = InboundMessage(
        address_of(Message(change.message_id, change.chat)),
        by,
        f"reaction:{change.message_id}:{change.user.id}:{change.date}:{added}",
        f"{by.name} reacted with {added} to a message of yours.",
        kind="system",
        reply_to=str(change.message_id),
        private=change.chat.type == "private",
        source="telegram",
        sent_at=float(change.date),
    )
    return Reacted(note, added, removed)
