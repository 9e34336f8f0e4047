"""Whether a rule that forbids names one of the commands that were found in a text, or one that they may become."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice

from pilothouse.policy.candidates import Candidates
from pilothouse.policy.expansions import HOLE
from pilothouse.policy.launching import reachable
from pilothouse.policy.look_alikes import fold
from pilothouse.policy.spellings import could_be

MAX_SAME = 200
"""A text that names a program more often than this was made to hide something: it counts as found."""
_LONG = {"o": "output", "f": "force", "r": "recursive", "i": "in-place", "d": "delete", "a": "all"}
"""What a letter stands for in nearly every program that has it."""

Words = tuple[str, ...]


@lru_cache(maxsize=1024)
def rule_name(rule: Words) -> str:
    first = fold(rule[0]).casefold()
    return first.rpartition("/")[2] or first


def may_be_command(rule: Words, found: Candidates) -> bool:
    """Whether one of the commands could become what a rule names, once a shell has filled its holes."""
    name = rule_name(rule)
    if any(could_be(hole, name) for hole in found.loose):
        return True
    if len(rule) == 1:
        return False
    commands = list(islice(found.opened(name), MAX_SAME + 1))
    return len(commands) > MAX_SAME or any(_may_say(rule[1:], words) for words in commands)


def _may_say(rule: Words, found: Words) -> bool:
    rest = [fold(word).casefold() for word in rule]
    words = [word.casefold() for word in found]
    options = [word for word in rest if word.startswith("-") and word != "-"]
    plain = [word for word in rest if word not in options]
    options = [one for option in options for one in _unbundled(option, words)]
    if not all(any(word[:1] == HOLE or _is_option(option, word) for word in words) for option in options):
        return False
    return any(words[at] == HOLE for at in reachable(words, 0)) or _follow(plain, words)


def is_command(rule: Words, found: Candidates) -> bool:
    """Whether one of the commands is what a rule names: its program, then its words in order, options between them."""
    name = rule_name(rule)
    commands = found.named(name)
    if len(rule) > 1 and len(commands) > MAX_SAME:
        return True
    return any(_says(rule[1:], words) for words in commands)


def _says(rule: Words, found: Words) -> bool:
    if not rule:
        return True
    rest = [fold(word).casefold() for word in rule]
    words = [word.casefold() for word in found]
    options = [word for word in rest if word.startswith("-") and word != "-"]
    plain = [word for word in rest if word not in options]
    options = [one for option in options for one in _unbundled(option, words)]
    return all(any(_is_option(option, word) for word in words) for option in options) and _follow(
        plain, words
    )


def _unbundled(option: str, words: Sequence[str]) -> Sequence[str]:
    """`-rf` is `-r` and `-f`, in any order and apart; `-exec` may be one too, so as it stands it counts first."""
    if any(_is_option(option, word) for word in words) or not re.fullmatch(r"-[a-z]{2,}", option):
        return (option,)
    return [f"-{letter}" for letter in option[1:]]


def _is_option(option: str, word: str) -> bool:
    """`-o` is in `-uo` and `-oFILE` too; `--output` in `--output=FILE`, and shortened in `--out`."""
    if word == option or (word[:1] in ("-", "[") and could_be(word, option)):
        return True
    if option.startswith("--"):
        name = word.partition("=")[0]
        return len(name) > 3 and name.startswith("--") and option.startswith(name)
    if len(option) != 2 or not word.startswith("-"):
        return False
    if word.startswith("--"):
        name = word[2:].partition("=")[0]
        return bool(name) and _LONG.get(option[1], "").startswith(name)
    return option[1] in word[1:]


def _follow(rule: Sequence[str], words: Sequence[str]) -> bool:
    """Between the words of a rule only options may stand, each perhaps with a value."""
    reached = {0}
    for wanted in rule:
        reached = {
            at + 1 for start in reached for at in reachable(words, start) if could_be(words[at], wanted)
        }
    return bool(reached)
