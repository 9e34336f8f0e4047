"""Failures of requests to Discord, as values, and the delivery errors they become.

https://docs.discord.com/developers/topics/opcodes-and-status-codes lists the codes.
"""

from __future__ import annotations

from msgspec import Struct

from pilothouse.core.errors import CannotEdit, DeliveryError, Rejected, TryLater, Unconfirmed

AGAIN_S = 5.0
LONG_S = 60.0

UNKNOWN_CHANNEL, UNKNOWN_MESSAGE = 10003, 10008
UNKNOWN_WEBHOOK, UNKNOWN_INTERACTION, ALREADY_ANSWERED = 10015, 10062, 40060
TOO_LARGE, TOO_MANY_OLD_EDITS = 40005, 30046
NO_ACCESS, NO_DIRECT, NO_PERMISSION = 50001, 50007, 50013
INVALID_TOKEN, INVALID_BODY, ARCHIVED, LOCKED = 50027, 50035, 50083, 160005
MODERATED, HARMFUL_LINK, EXPLICIT = 200000, 240000, 20009
NO_HISTORY = 160002
"""A reply needs the permission to read the history."""

_WORDS = {
    UNKNOWN_CHANNEL: "this channel does not exist any more",
    UNKNOWN_MESSAGE: "the message does not exist any more",
    TOO_MANY_OLD_EDITS: "Discord allows no more edits of this old message for now",
    TOO_LARGE: "it is larger than Discord accepts here",
    NO_ACCESS: "we may not see this channel: give the bot's role “View Channel” in it",
    NO_DIRECT: "this person does not accept private messages from us",
    NO_PERMISSION: "we may not write in this channel: give the bot's role “Send Messages”, and in threads "
    "“Send Messages in Threads”",
    ARCHIVED: "the thread is archived",
    LOCKED: "the thread is locked",
    MODERATED: "the server's automatic moderation blocked the text",
    HARMFUL_LINK: "Discord blocked a link in it",
    EXPLICIT: "Discord classified it as explicit",
}


class Trouble(Struct, frozen=True):
    """`maybe_done` says that Discord may have done it although we saw no answer."""

    text: str
    status: int = 0
    code: int = 0
    maybe_done: bool = False
    after_s: float = 0.0
    """Return how long Discord wants us to wait, if that is all."""
    late: bool = False
    """It was under way when its time was up."""
    about: str = ""
    """The fields that Discord rejected, in its own words."""

    @property
    def is_gone(self) -> bool:
        return self.status == 404 or self.code in (UNKNOWN_CHANNEL, UNKNOWN_MESSAGE, INVALID_TOKEN)

    @property
    def is_about_reply(self) -> bool:
        """Only the reply is refused, not the message."""
        return self.code == NO_HISTORY or (self.code == INVALID_BODY and "message_reference" in self.about)

    @property
    def is_about_content(self) -> bool:
        """The content is refused, not the place."""
        return self.status == 400 and self.code != ARCHIVED and not self.is_about_reply

    @property
    def why(self) -> str:
        """The reason in our words: Discord's may repeat the refused content."""
        return _WORDS.get(self.code, f"Discord refuses it ({self.status}, code {self.code})")

    @property
    def is_forbidden(self) -> bool:
        return self.status == 403

    @property
    def is_passing(self) -> bool:
        """The same request may succeed later."""
        return self.status in (0, 401, 429) or self.status >= 500


class Away(Exception):
    """Discord does not answer a question that must be answered first; the event is retried."""


def error_of(trouble: Trouble, *, repeatable: bool = False) -> DeliveryError:
    """`repeatable` says that doing it twice does no harm."""
    if trouble.after_s:
        return TryLater(trouble.after_s, trouble.text)
    if trouble.maybe_done and not repeatable:
        return Unconfirmed(trouble.text)
    if trouble.status == 401:
        return TryLater(LONG_S, trouble.text)
    if trouble.code == TOO_MANY_OLD_EDITS:
        return CannotEdit(_WORDS[trouble.code])
    if trouble.code in _WORDS:
        return Rejected(_WORDS[trouble.code])
    if trouble.status in (0, 429) or trouble.status >= 500:
        return TryLater(AGAIN_S, trouble.text)
    return Rejected(trouble.text)
