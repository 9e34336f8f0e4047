"""The commands that were found in a text, each with its words, and what a rule that forbids asks of them.

Generous on purpose: a word that a shell may make another one of counts as each of them. What is found, and where it is
looked for, is in `gathering.py`; here is how a command is kept, and by which names it is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from pilothouse.policy.launching import LAUNCHERS, MAX_WORDS, launched
from pilothouse.policy.look_alikes import fold
from pilothouse.policy.spellings import (
    MAX_SPELLING,
    MAX_SPREAD,
    chosen,
    could_be,
    first_patterns,
    is_pattern,
    spread,
)

MAX_CRUDE = 20_000
"""Characters of a text that no grammar understood."""
MAX_BRACED = 2000
MAX_BRACES = 16
"""Characters, and pairs of braces, of a word that they make others of."""

JOINED = "\\\n"
"""A shell reads on as if it were not there, in the middle of a word too; both readings count."""
_EMPTY = re.compile(r"\$\(\s*\)|``|\$\{\w*\}|\$[@*#?$!_]|\$\w+")
"""What often stands for nothing: `r$()m` is `rm`."""
_BETWEEN = "\0;&|()<>`{},$\"'\\"
_BLANKED = str.maketrans(_BETWEEN, " " * len(_BETWEEN))
"""Where a word ends, whatever the text is."""
_BLANK = re.compile(r"[\s;&|()<>]+")
_WITH_CHOICE = re.compile(r"(?<![^\s;&<>()])[^\s;&<>()]{0,256}\([^()\s]{0,256}\)[^\s;&<>()]{0,256}")
_SPACES = re.compile(r"\$\{?IFS\}?")
Words = tuple[str, ...]


class _Row(Struct, frozen=True, gc=False):
    """Words of which the first `many` may each be a program. `seen` has them all, small, for a quick no."""

    words: Words
    many: int
    seen: str

    def places(self, name: str) -> Iterator[int]:
        for at, word in enumerate(self.words[: self.many]):
            if (word.rpartition("/")[2] or word).casefold() == name:
                yield at


class Candidates:
    """Of one script; found once, and asked by every rule."""

    def __init__(self) -> None:
        self._rows: list[_Row] = []
        self._spelled: list[tuple[str, Words, int]] = []
        self._patterns: list[tuple[str, Words, int]] = []
        self._named: dict[str, list[Words]] = {}
        self._open: list[_Row] = []
        self.loose: dict[str, None] = {}
        """Patterns of programs of which only the running shell knows which they are."""
        self.incomplete = False
        """Whether a bound cut something off: then that nothing was found means nothing."""
        self.words: list[str] = []
        """Every word of every command that may run, and every target: what might be a path or an address."""

    def named(self, name: str) -> list[Words]:
        """The words of every command whose program, without its folder, has this name; without the name."""
        if name not in self._named:
            found = self._places(name)
            found += [(words, at) for pattern, words, at in self._patterns if could_be(pattern, name)]
            self._named[name] = [words[at + 1 : at + 1 + MAX_WORDS] for words, at in found]
        return self._named[name]

    def _places(self, name: str) -> list[tuple[Words, int]]:
        found = [(row.words, at) for row in self._rows if name in row.seen for at in row.places(name)]
        return found + [(words, at) for spelled, words, at in self._spelled if spelled == name]

    def is_cut(self, name: str) -> bool:
        """Whether a command of this name has more words than a rule looks at."""
        return any(len(words) - at - 1 > MAX_WORDS for words, at in self._places(name))

    @property
    def total(self) -> int:
        return sum(row.many for row in self._rows) + len(self._spelled)

    def lines(self) -> Iterator[Words]:
        """Every command with its name."""
        for row in self._rows:
            for at, word in enumerate(row.words[: row.many]):
                name = (word.rpartition("/")[2] or word).casefold()
                yield (name, *row.words[at + 1 : at + 1 + MAX_WORDS])
        for name, words, at in self._spelled:
            yield (name, *words[at + 1 : at + 1 + MAX_WORDS])

    def opened(self, name: str) -> Iterator[Words]:
        """Like `named`, of commands with a hole in them."""
        for row in self._open:
            if name in row.seen:
                for at in row.places(name):
                    yield row.words[at + 1 : at + 1 + MAX_WORDS]

    @property
    def open_lines(self) -> Iterator[Words]:
        return (row.words for row in self._open)

    def add_open(self, words: Words, many: int) -> None:
        """A command with a hole in it."""
        self._open.append(_Row(words, many, "".join(words[:many]).casefold()))

    def add(self, words: Words, many: int) -> None:
        """The first words, each as a program with what follows it."""
        seen = "".join(words[:many])
        self._rows.append(_Row(words, many, seen.casefold()))
        self.incomplete = self.incomplete or len(words[0]) > MAX_SPELLING
        if "git-" in seen:
            self._add_joined(words, many)
        if is_unsettled(seen):
            for at, word in enumerate(words[:many]):
                if is_unsettled(word):
                    self._add_unsettled(words, at)

    def add_crudely(self, text: str) -> None:
        """What no grammar understood: every word may be a program."""
        if JOINED in text:
            text = f"{text.replace(JOINED, '')}\n{text}"
        self.incomplete = self.incomplete or len(text) > MAX_CRUDE
        text = text[:MAX_CRUDE]
        if not text.isascii():
            text = " ".join(map(fold, text.translate(_BLANKED).split()))
        words = tuple(text.translate(_BLANKED).split())
        self.words += words
        self._rows.append(_Row(words, len(words), text.casefold()))
        for line in first_patterns(text):
            self._add_spread(line, 0)
        if "(" in text:
            self.words += [one for word in _WITH_CHOICE.findall(text) for one in chosen(word)]
        if "{" in text:
            whole = tuple(_BLANK.split(text))  # the grammar takes `{cu,}rl` for a group of commands
            for at, word in enumerate(whole):
                if "{" in word:
                    self._add_spread(whole, at)
                    self.add_spread_words(word)

    def add_spread_words(self, word: str) -> None:
        """Each word that braces make of one, as what might be a path."""
        if len(word) > MAX_BRACED or word.count("{") > MAX_BRACES:
            self.incomplete = True
            return
        found = spread(word, whole=True)
        self.incomplete = self.incomplete or len(found) >= MAX_SPREAD
        self.words += found
        if "(" in word:
            self.words += [other for one in found for other in chosen(one)]

    def _add_joined(self, words: Words, many: int) -> None:
        """`git-push` is `git push`."""
        for at, word in enumerate(words[:many]):
            name = word.rpartition("/")[2].casefold()
            if name.startswith("git-") and (at == 0 or (at <= MAX_WORDS and _is_launched(words, word))):
                self._rows.append(_Row(("git", name[4:], *words[at + 1 :]), 1, "git"))

    def _add_unsettled(self, words: Words, at: int) -> None:
        word = words[at]
        name = word.rpartition("/")[2] or word
        if "$" in name or "`" in name:
            self._spelled.append((_EMPTY.sub("", name).casefold(), words, at))
        self._add_spread(words, at)
        if word.startswith("{") or _SPACES.search(word):
            listed = re.split(r"[ ,]+", _SPACES.sub(" ", word).strip("{}"))
            first = listed[0].rpartition("/")[2].casefold()
            self._spelled.append((first, (*listed, *words[at + 1 : at + 1 + MAX_WORDS]), 0))

    def _add_spread(self, words: Words, at: int) -> None:
        word = words[at]
        found = spread(word)
        self.incomplete = self.incomplete or len(found) >= MAX_SPREAD
        for one in found:
            name = one.rpartition("/")[2]
            # Neither first, nor what a launcher runs, nor from the root: files of the project are meant.
            if is_pattern(name) and (
                at == 0 or one.startswith("/") or (at <= MAX_WORDS and _is_launched(words, word))
            ):
                self._patterns.append((name.casefold(), words, at))
            elif one != word:
                self._spelled.append((name.casefold(), words, at))


def is_unsettled(text: str) -> bool:
    """Whether a shell may make another word of it. Six looks for one character each take less time than a pattern."""
    return "$" in text or "`" in text or "{" in text or "*" in text or "?" in text or "[" in text


def _is_launched(words: Words, word: str) -> bool:
    return words[0].rpartition("/")[2] in LAUNCHERS and word in launched(words)
