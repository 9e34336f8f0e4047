"""Triggers: the messages that we react to in a group. Pure, and the same on every channel; in private, all are for us.

A channel finds out whether a message mentions us or replies to us, and calls `matches_trigger`. The setting of a place
(`Desk.settings_of`) wins over the channel's configuration.
Only the configuration may hold a regular expression, because its author owns the machine. People give words, which are
compared literally: a hostile expression could run for hours. Only the beginning of a long text is compared.
"""

from __future__ import annotations

import re
from typing import Literal, get_args

from msgspec import Struct

IMMEDIATE_COMMANDS = frozenset(
    {"stop", "cancel", "status", "queue", "session", "sessions", "cost", "show", "asks", "help"}
)
"""Commands about running or waiting work, which a channel passes on before messages whose files it still fetches.
`/new` is not one of them: messages sent before it belong to the old session."""

Mode = Literal["all", "mention", "reply", "pattern"]
MODES: tuple[Mode, ...] = get_args(Mode)

MOST_WORDS = 20
WORD_CHARS = 64
MATCHED_CHARS = 20_000
"""Characters of a text that are compared with a pattern."""


class Trigger(Struct, frozen=True, forbid_unknown_fields=True):
    """`mention` reacts to our name and to replies, `reply` to replies alone, `pattern` also to matching text."""

    mode: Mode = "mention"
    pattern: str = ""
    """A regular expression, only from the configuration."""
    words: tuple[str, ...] = ()
    """Whole words or phrases, case-insensitive; a `*` at an end matches the rest of a word."""


def matches_trigger(trigger: Trigger, text: str, *, mentioned: bool, answered: bool) -> bool:
    """True if the message is for us. `mentioned`: it names us; `answered`: it replies to one of our messages."""
    match trigger.mode:
        case "all":
            return True
        case "reply":
            return answered
        case "mention":
            return answered or mentioned
        case "pattern":
            return answered or mentioned or _matches(trigger, text[:MATCHED_CHARS])


def trigger_problem(trigger: Trigger) -> str:
    """Say what is wrong with the trigger; empty if nothing is."""
    if trigger.mode == "pattern" and not trigger.pattern and not trigger.words:
        return "the pattern is missing: name the words to react to"
    if len(trigger.words) > MOST_WORDS:
        return f"{len(trigger.words)} words are too many: at most {MOST_WORDS} are allowed"
    for word in trigger.words:
        if len(word) > WORD_CHARS:
            return f"the word {word[:WORD_CHARS]}… is too long: at most {WORD_CHARS} characters are allowed"
        if not any(map(str.isalnum, word)):
            return f"the word {word!r} has no letter and no digit; use `all` to react to everything"
        if "*" in word[1:-1]:
            return f"the word {word!r}: a * is allowed only at the beginning or at the end"
    try:
        re.compile(trigger.pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return f"the pattern {trigger.pattern!r} is not a regular expression: {error}"
    return ""


def parse_trigger(said: str) -> Trigger | None:
    """Parse `all`, `mention`, `reply`, or `pattern` and words, separated by commas if one of them is a phrase."""
    name, _, rest = said.strip().partition(" ")
    mode = next((mode for mode in MODES if mode == name.lower()), None)
    if mode is None or (rest.strip() and mode != "pattern"):
        return None
    pieces = rest.split(",") if "," in rest else rest.split()
    words = dict.fromkeys(" ".join(piece.split()) for piece in pieces)
    return Trigger(mode, words=tuple(word for word in words if word))


def describe_trigger(trigger: Trigger) -> str:
    """Describe the trigger as the end of a sentence."""
    match trigger.mode:
        case "all":
            return "every message"
        case "mention":
            return "messages that mention me or reply to me"
        case "reply":
            return "messages that reply to me"
        case "pattern":
            looked_for = ", ".join(trigger.words) or trigger.pattern
            return f"messages that mention me, reply to me, or contain: {looked_for}"


def _matches(trigger: Trigger, text: str) -> bool:
    if trigger.pattern and re.search(trigger.pattern, text, re.IGNORECASE):
        return True
    literal = "|".join(map(_word_pattern, trigger.words))
    return bool(literal) and re.search(literal, text, re.IGNORECASE) is not None


def _word_pattern(word: str) -> str:
    """Only the space between words of a phrase repeats, so matching takes linear time."""
    begins = "" if word.startswith("*") else r"(?<!\w)"
    ends = "" if word.endswith("*") else r"(?!\w)"
    return begins + r"\s+".join(map(re.escape, word.strip("*").split())) + ends
