"""Which commands act on what runs or waits, or only tell of it: a channel lets them pass what it is still fetching.

`/new` and its like are not among them: what was sent before belongs to the session that there was.

What we react to where several people talk. Pure, and the same on every channel; in private, everything is for us.

A channel finds out whether a message mentions us or answers us, which is its platform's business, and asks `hears`.
What a place's people chose comes from the desk (`settings_of`) and wins; else the channel's configuration holds.

The configuration may give a regular expression: whoever writes it owns the machine. People give words instead, which
are compared literally: a hostile expression could take for ever. Either sees only the beginning of a long text.
"""

from __future__ import annotations

import re
from typing import Literal, get_args

from msgspec import Struct

OVERTAKING = frozenset({"stop", "cancel", "status", "queue", "session", "cost", "show", "help"})

Mode = Literal["all", "mention", "reply", "pattern"]
MODES: tuple[Mode, ...] = get_args(Mode)

MOST_WORDS = 20
WORD_CHARS = 64
LOOKED_AT = 20_000
"""How many characters of a text are compared with a pattern."""


class Trigger(Struct, frozen=True, forbid_unknown_fields=True):
    """`mention` reacts to our name and to answers to us, `reply` to answers alone, `pattern` to what it matches, too."""

    mode: Mode = "mention"
    pattern: str = ""
    """A regular expression, from the configuration alone."""
    words: tuple[str, ...] = ()
    """Whole words or phrases, in any case; a `*` at an end stands for the rest of a word."""


def hears(trigger: Trigger, text: str, *, mentioned: bool, answered: bool) -> bool:
    """Whether this is for us. `mentioned` and `answered`: it names us, it answers something that we said."""
    match trigger.mode:
        case "all":
            return True
        case "reply":
            return answered
        case "mention":
            return answered or mentioned
        case "pattern":
            return answered or mentioned or _matches(trigger, text[:LOOKED_AT])


def trigger_problem(trigger: Trigger) -> str:
    """What is wrong with it, in plain words; empty if nothing is."""
    if trigger.mode == "pattern" and not trigger.pattern and not trigger.words:
        return "the pattern is missing: say which words we shall react to"
    if len(trigger.words) > MOST_WORDS:
        return f"{len(trigger.words)} words are too many: at most {MOST_WORDS} are looked for"
    for word in trigger.words:
        if len(word) > WORD_CHARS:
            return (
                f"the word {word[:WORD_CHARS]}… is too long: at most {WORD_CHARS} characters are looked for"
            )
        if not any(map(str.isalnum, word)):
            return f"the word {word!r} has no letter and no digit; `all` hears everything"
        if "*" in word[1:-1]:
            return f"the word {word!r}: a * stands at the beginning or at the end"
    try:
        re.compile(trigger.pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return f"the pattern {trigger.pattern!r} is no regular expression: {error}"
    return ""


def parse_trigger(said: str) -> Trigger | None:
    """`all`, `mention`, `reply`, or `pattern` and words, with commas between them if one of them is a phrase."""
    name, _, rest = said.strip().partition(" ")
    mode = next((mode for mode in MODES if mode == name.lower()), None)
    if mode is None or (rest.strip() and mode != "pattern"):
        return None
    pieces = rest.split(",") if "," in rest else rest.split()
    words = dict.fromkeys(" ".join(piece.split()) for piece in pieces)
    return Trigger(mode, words=tuple(word for word in words if word))


def describe_trigger(trigger: Trigger) -> str:
    """What it hears, as the end of a sentence."""
    match trigger.mode:
        case "all":
            return "every message"
        case "mention":
            return "messages that name me or answer me"
        case "reply":
            return "messages that answer me"
        case "pattern":
            looked_for = ", ".join(trigger.words) or trigger.pattern
            return f"messages that name me, answer me, or say: {looked_for}"


def _matches(trigger: Trigger, text: str) -> bool:
    if trigger.pattern and re.search(trigger.pattern, text, re.IGNORECASE):
        return True
    literal = "|".join(map(_literally, trigger.words))
    return bool(literal) and re.search(literal, text, re.IGNORECASE) is not None


def _literally(word: str) -> str:
    """Nothing in it can repeat but the space between two words of a phrase, so it takes no longer than the text."""
    begins = "" if word.startswith("*") else r"(?<!\w)"
    ends = "" if word.endswith("*") else r"(?!\w)"
    return begins + r"\s+".join(map(re.escape, word.strip("*").split())) + ends
