"""What goes wrong between Discord and us, as values, and what a delivery makes of it.

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
"""Who may not read what was said may not reply to it."""

_WORDS = {
    UNKNOWN_CHANNEL: "this channel does not exist any more",
    UNKNOWN_MESSAGE: "the message does not exist any more",
    TOO_MANY_OLD_EDITS: "Discord lets nobody change this old message again for now",
    TOO_LARGE: "it is larger than Discord takes here",
    NO_ACCESS: "we may not see this channel: give the bot's role “View Channel” in it",
    NO_DIRECT: "this person takes no private messages from us",
    NO_PERMISSION: "we may not write in this channel: give the bot's role “Send Messages”, and in threads "
    "“Send Messages in Threads”",
    ARCHIVED: "the thread is archived",
    LOCKED: "the thread is locked",
    MODERATED: "the automatic moderation of this server does not let its words through",
    HARMFUL_LINK: "Discord does not let a link in it through",
    EXPLICIT: "Discord takes it for something that not everybody here may see",
}


class Trouble(Struct, frozen=True):
    """`maybe_done` says that Discord may have done it although we saw no answer."""

    text: str
    status: int = 0
    code: int = 0
    maybe_done: bool = False
    after_s: float = 0.0
    """How long Discord wants us to wait, if that is all."""
    late: bool = False
    """Whether it was on its way when its time was up."""
    about: str = ""
    """Which fields Discord did not like, in its own words."""

    @property
    def is_gone(self) -> bool:
        return self.status == 404 or self.code in (UNKNOWN_CHANNEL, UNKNOWN_MESSAGE, INVALID_TOKEN)

    @property
    def is_about_reply(self) -> bool:
        """Whether it is only that this cannot be a reply."""
        return self.code == NO_HISTORY or (self.code == INVALID_BODY and "message_reference" in self.about)

    @property
    def is_about_content(self) -> bool:
        """Whether the place is fine, and what was to be said there is not."""
        return self.status == 400 and self.code != ARCHIVED and not self.is_about_reply

    @property
    def why(self) -> str:
        """In words of ours alone: Discord's may repeat what it did not take."""
        return _WORDS.get(self.code, f"Discord refuses it ({self.status}, code {self.code})")

    @property
    def is_forbidden(self) -> bool:
        return self.status == 403

    @property
    def is_passing(self) -> bool:
        """Whether Discord may answer the same question later."""
        return self.status in (0, 401, 429) or self.status >= 500


class Away(Exception):
    """Discord cannot tell now what must be known first: whoever needs it comes again."""


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
