"""What a shell may make of a word with braces or a pattern in it, for rules that forbid: `cu{r,}l` and `/bin/r?`.

Generous: a pattern counts as everything that it could mean, whichever files there are.
"""

from __future__ import annotations

import re

from pilothouse.core.rules import matches_glob

MAX_SPREAD = 64
MAX_SPELLING = 256
"""Characters of a word that is still looked at: no program has a longer name."""
_BRACES = re.compile(r"\{([^{}\s]*,[^{}\s]*)\}")
_LISTED = re.compile(r"\{([^{}]*,[^{}]*)\}")
"""The same in a word that is known to be one: what is quoted in it may have blanks."""
_RANGE = re.compile(r"\{(?:(-?\d{1,9})\.\.(-?\d{1,9})|([A-Za-z])\.\.([A-Za-z]))(?:\.\.-?\d{1,9})?\}")
MAX_RANGE = 32
"""Of a longer range a pattern is made, for what it means is only numbers or letters."""
_CLASS = re.compile(r"\[[!^]?\]?(?:\[:\w*:\]|[^\]])*\]")
_PATTERN = re.compile(r"[*?\[]")
_CHOICE = re.compile(r"[@?+*!]\([^()\s]*\)")
"""What some shells take for one of several: `g@(i)t`."""
_SOME = re.compile(r"[@?+*!]?\([^()\s]*\)")
_NO_END = r"[^\s;&|()<>`\"'$]"
_FIRST = re.compile(
    r"(?:^|(\()|[\n;&|{`!]|\b(?:then|do|else|elif|if|while|until|time|exec|sudo|env)\s)\s{0,20}"
    r"(?:\w{1,64}=\S{0,256}\s{1,20}){0,8}"
    rf"({_NO_END}{{0,256}}[*?\[\]]{_NO_END}{{0,256}}+)([ \t]++[^\n;&|()<>`]++|(?(1)|(?![ \t]{{0,20}}\))))"
)
"""In a text that no grammar understood: a pattern where a program stands, and the words behind it. Not a case's pattern."""


def spread(word: str, *, whole: bool = False) -> tuple[str, ...]:
    """Every word that braces make of one; itself if there are none. `whole`: it is one word, blanks and all."""
    if "{" not in word or (len(word) > MAX_SPELLING and not whole):
        return (word,)
    done, pending = dict[str, None](), [_RANGE.sub(_listed, word)]
    braces = _LISTED if whole else _BRACES
    while pending and len(done) < MAX_SPREAD:
        one = pending.pop()
        found = braces.search(one)
        if found is None:
            done[one] = None
        else:
            pending += [one[: found.start()] + part + one[found.end() :] for part in found[1].split(",")]
    return tuple(done)


def chosen(word: str) -> tuple[str, ...]:
    """With a pattern in place of what some shells take for one of several, `@(a|b)` and `(a|b)`; nothing if there is none."""
    found = _SOME.sub("*", word)
    return (found,) if found != word else ()


def _listed(found: re.Match[str]) -> str:
    """`{a..c}` as `{a,b,c}`; the steps between do not count, and of numbers with zeros before them a pattern is made."""
    first, last, start, end = found.groups()
    if start:
        low, high = sorted((ord(start), ord(end)))
        parts = [chr(code) for code in range(low, high + 1)]
    else:
        low, high = sorted((int(first), int(last)))
        plain = str(int(first)) == first and str(int(last)) == last
        parts = list(map(str, range(low, high + 1))) if plain and high - low < MAX_RANGE else []
    if not parts or len(parts) > MAX_RANGE:
        return "*"
    return "{" + ",".join(parts) + "}" if len(parts) > 1 else parts[0]


def is_pattern(word: str) -> bool:
    return len(word) <= MAX_SPELLING and _PATTERN.search(word) is not None


def first_patterns(text: str) -> list[tuple[str, ...]]:
    """Commands whose program is a pattern, in a text that no grammar understood: it stumbles over `gi[t] push`."""
    if "(" in text:
        text = _CHOICE.sub("*", text)
    if not _PATTERN.search(text):
        return []
    last = max(map(text.rfind, "*?[]"))  # behind the line in which it stands there is nothing to find
    end = text.find("\n", last)
    found = _FIRST.findall(text, 0, end + 1 if end >= 0 else len(text))
    return [
        (name, *rest.split()) for _, name, rest in found if is_pattern(_CLASS.sub("?", name).replace("[", ""))
    ]


def could_be(word: str, wanted: str) -> bool:
    """Whether a word is another one, or stands for it."""
    if word == wanted:
        return True
    if "{" not in word and not is_pattern(word):
        return False
    return any(
        one == wanted or (is_pattern(one) and matches_glob(_CLASS.sub("?", one), wanted, case=False))
        for one in spread(word)
    )
