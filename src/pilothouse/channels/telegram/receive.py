"""What an update means to us. Pure: `translate(updates)` gives one happening for what people see as one thing.

Several updates are one message where they are an album, pieces of a long paste, or forwards with their comment; `joining`
finds those. The first one's number is the message's, and each piece keeps its own, so that a repeat of any is known. What
goes on with a message that was for us is for us, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from pilothouse.channels.telegram.addresses import (
    Us,
    address_of,
    author_of,
    is_command,
    is_for_us,
    is_reply_to,
    may_answer,
    person,
    replied_to,
    speaks_as_group,
    without_our_name,
)
from pilothouse.channels.telegram.content import WantedFile, files_of, name_of, names_of, origin_of, words_of
from pilothouse.channels.telegram.pieces import seam, tail_of
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
"""For how long after it was sent a message may be changed into one for us."""


class Said(Struct, frozen=True):
    """A message for the desk. Its files are still at Telegram's."""

    message: InboundMessage
    wanted: tuple[tuple[WantedFile, ...], ...] = ()
    """The files of each of its pieces; with the first, those of what it answers."""
    to_us: bool = True
    """Whether it was said to us, and not merely overheard in a group that lets us hear everything."""

    @property
    def files(self) -> tuple[WantedFile, ...]:
        return tuple(file for files in self.wanted for file in files)


class ToOthers(Struct, frozen=True):
    """Words in a group that are for us only if they answer what was asked of whoever said them: the desk knows."""

    said: Said


class Changed(Struct, frozen=True):
    edit: MessageEdited
    said: Said | None = None
    """The message as it is for us now, if it may be one that was not: whoever forgot our name puts it in."""


class Reacted(Struct, frozen=True):
    """A note for the desk, about the message that it replies to. Telegram does not tell in which topic that stands."""

    note: InboundMessage


class Pressed(Struct, frozen=True):
    query: CallbackQuery
    by: Author
    address: Address | None
    """Where the button stands; unknown if Telegram does not say."""


class Stopped(Struct, frozen=True):
    """Somebody stopped a draft that was being written."""

    stop: DraftStopped


class Membership(Struct, frozen=True):
    """We were added, removed, blocked, unblocked, promoted, or demoted."""

    change: MemberChanged


class Moved(Struct, frozen=True):
    """A group got a new number."""

    old: int
    new: int


class Unread(Struct, frozen=True):
    """Somebody sent us something of a kind that we do not know; `kinds` are Telegram's names."""

    message: InboundMessage
    kinds: tuple[str, ...]


class Faceless(Struct, frozen=True):
    """Somebody spoke to us as the group: it is nobody whom anyone could let in, or who could answer for it."""

    message: InboundMessage


class Nothing(Struct, frozen=True):
    """Not for us, or nothing that we know. `why` goes to the log."""

    why: str


Happening = (
    Said | ToOthers | Changed | Reacted | Pressed | Stopped | Membership | Moved | Unread | Faceless | Nothing
)


def translate(updates: Sequence[Update], us: Us, trigger: Trigger) -> Happening:
    """`updates` are one message, in pieces, or one update of any kind."""
    first = updates[0]
    messages = [message for update in updates if (message := _message(update)) is not None]
    if messages:
        return _said(messages, us, trigger)
    if (edited := first.edited_message or first.edited_channel_post) is not None:
        return _changed(edited, us, trigger)
    if (query := first.callback_query) is not None:
        address = address_of(query.message) if query.message else None
        return Pressed(query, person(query.from_), address)
    if first.message_reaction is not None:
        return _reacted(first.message_reaction)
    if first.my_chat_member is not None:
        return Membership(first.my_chat_member)
    if first.stopped_message_generation is not None:
        return Stopped(first.stopped_message_generation)
    return Nothing("an update of a kind that we do not read")


def _message(update: Update) -> Message | None:
    return update.message or update.channel_post


def _said(messages: Sequence[Message], us: Us, trigger: Trigger) -> Happening:
    first = messages[0]
    author = author_of(first)
    if first.migrate_to_chat_id is not None:
        return Moved(first.chat.id, first.migrate_to_chat_id)
    if first.migrate_from_chat_id is not None:  # told on both sides, so that it is heard first on either
        return Moved(first.migrate_from_chat_id, first.chat.id)
    if author is None or author.is_bot:
        return Nothing("nobody said it" if author is None else "a bot said it")
    if first.is_automatic_forward:
        return Nothing("a post of the channel that is linked with the group")
    if speaks_as_group(first):
        to_us = any(is_for_us(message, us, Trigger("mention")) for message in messages)
        return Faceless(_inbound(first, author, "")) if to_us else Nothing("the group itself said it")
    return _said_by(author, messages, us, trigger)


def _said_by(author: Author, messages: Sequence[Message], us: Us, trigger: Trigger) -> Happening:
    first, me = messages[0], us.me
    wanted = tuple(files_of(message) for message in messages)
    if not any(wanted) and not any(map(words_of, messages)):
        return _without_words(first, author, us)
    overheard = not any(is_for_us(message, us, trigger) for message in messages)
    if overheard and not all(map(may_answer, messages)):
        return Nothing("not for us")
    message = replace(_inbound(first, author, ""), overheard=overheard)
    to_us = any(is_for_us(message, us, Trigger("mention")) for message in messages)
    with_answered = ((*wanted[0], *_answered_files(first, me)), *wanted[1:])
    said = Said(made_of(message, _pieces(messages, wanted, me)), with_answered, to_us)
    return ToOthers(said) if overheard else said


def _answered_files(message: Message, me: Me) -> tuple[WantedFile, ...]:
    """Whoever asks about a picture answers it. What we sent ourselves is known already, and a command needs none."""
    answered = replied_to(message)
    if answered is None or is_reply_to(message, me) or is_command(message):
        return ()
    return files_of(answered)


def _pieces(messages: Sequence[Message], wanted: Sequence[Sequence[WantedFile]], me: Me) -> list[Piece]:
    """What each says; where none says anything, the names of what came."""
    silent = not any(map(words_of, messages))
    pieces: list[Piece] = []
    before = None
    for message, files in zip(messages, wanted, strict=True):
        words = names_of(files) if silent else words_of(message)
        words = words or ("" if files else _unread_words(message))
        in_album = before is not None and before.album is not None and before.album == message.media_group_id
        origin = "" if in_album else origin_of(message)
        if origin and (words or files):
            words = f"{origin}\n{words}" if words else origin
        if not pieces:
            words = _opened(without_our_name(words, me))
        pieces.append(Piece(str(message.message_id), words, "" if before is None else seam(before, message)))
        before = tail_of(message)
    return pieces


def _without_words(message: Message, author: Author, us: Us) -> Happening:
    if not message.unread:
        return Nothing("a service message")
    if not is_for_us(message, us, Trigger("mention")):
        return Nothing("not for us, and of a kind that we do not read")
    return Unread(_inbound(message, author, _unread_words(message)), message.unread)


def _unread_words(message: Message) -> str:
    return "\n".join(f"[{name_of(kind)}]" for kind in message.unread)


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
    """Telegram's button "Start" says `/start`, and a link to us `/start WORD`: help, or the code of a pairing."""
    if text.partition("@")[0] == "/start":
        return "/help"
    return f"/pair {text.removeprefix('/start ')}" if text.startswith("/start ") else text


def _quoted(message: Message, answered: Message | None) -> str | None:
    """What the person marked, else what they answer, of which the beginning is enough to know it again."""
    if message.quote is not None:
        return as_typed(message.quote.text, message.quote.entities)[:QUOTED_CHARS]
    if answered is None:
        return None
    text = words_of(answered) or names_of(files_of(answered))
    return (text if len(text) <= QUOTED_CHARS else text[:QUOTED_CHARS] + "…") or None


def _changed(message: Message, us: Us, trigger: Trigger) -> Happening:
    """A live location, or a message that got a button, is told as an edit too; only words are news."""
    author, edited_at = author_of(message), message.edit_date or message.date
    if author is None or author.is_bot or not (message.text or message.caption):
        return Nothing("an edit that changes no words")
    text = without_our_name(words_of(message), us.me)
    changed = Changed(MessageEdited(address_of(message), author, str(message.message_id), text))
    if edited_at - message.date > FORGOT_S:
        return changed
    match _said([message], us, trigger):
        case Said() as said:
            anew = replace(said.message, sent_at=float(edited_at))
            return replace(changed, said=replace(said, message=anew))
        case Faceless() as faceless:
            return faceless
        case _:
            return changed


def _reacted(change: ReactionChanged) -> Happening:
    """A note for the next turn, and nothing that starts one: a thumb costs no money."""
    emoji = "".join(one.emoji or "" for one in change.new_reaction)
    if change.user is None or change.user.is_bot or not emoji or change.chat.type != "private":
        return Nothing("a reaction that says nothing to us")
    by = person(change.user)
    note = InboundMessage(
        address_of(Message(change.message_id, change.chat)),
        by,
        f"reaction:{change.message_id}:{change.user.id}:{change.date}:{emoji}",
        f"{by.name} reacted with {emoji} to a message of yours.",
        kind="system",
        reply_to=str(change.message_id),
        private=True,
        source="telegram",
        sent_at=float(change.date),
    )
    return Reacted(note)
