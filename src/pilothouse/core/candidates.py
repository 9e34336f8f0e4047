"""Every command that a text may run, however it is wrapped: what a rule that forbids looks at.

Generous on purpose: wrappers, options that name programs, strings that a shell will read, look-alike letters. It may
find commands that would never run; it is never asked what may pass.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache

from pilothouse.core.reading_table import GIT, READERS, word_set
from pilothouse.core.script import Script, Segment, Segmenter
from pilothouse.core.spellings import MAX_SPELLING, MAX_SPREAD, could_be, is_pattern, spread

MAX_TEXTS = 100
"""Strings inside one command that are read as commands themselves."""
MAX_DEPTH = 5
MAX_NESTED = 2000
"""Characters of a string that is read as a command of its own; a longer one is searched word by word."""
MAX_WORDS = 200
MAX_SAME = 200
"""A text that names a program more often than this was made to hide something: it counts as found."""
MAX_CRUDE = 20_000
"""Characters of a text that no grammar understood."""

_KEEPS_WORDS = frozenset(READERS) | word_set(
    "echo find test mkdir touch cp mv rm ln chmod chown tee pytest ruff mypy black tsc eslint cd"
)
"""Programs that run none of the words that they are given, options apart."""
_RUNNING_OPTION = re.compile(r"-(exec|execdir|ok|okdir)$|--(pre|hostname-bin|compress-program|to-command)\b")
_GIT_WORDS = frozenset(GIT) | word_set(
    "add commit push pull fetch checkout switch merge reset tag stash rm mv clean"
)
_SHELLS = word_set(
    "sh bash dash zsh ksh mksh ash fish csh tcsh pdksh eval source . xargs parallel busybox su ssh exec trap watch script"
)
_LONG = {"o": "output", "f": "force", "r": "recursive", "i": "in-place", "d": "delete", "a": "all"}
"""What a letter stands for in nearly every program that has it."""
_JOINED = "\\\n"
"""A shell reads on as if it were not there, in the middle of a word too; both readings count."""
_ODD_SPACE = re.compile(r"[^\S \t\n]")
_EMPTY = re.compile(r"\$\(\s*\)|``|\$\{\w*\}|\$[@*#?$!_]|\$\w+")
"""What often stands for nothing: `r$()m` is `rm`."""
_CRUDE = re.compile(r"[\s\0;&|()<>`{},$\"'\\]+")
_BLANK = re.compile(r"[\s;&|()<>]+")
_INNOCENT = re.compile(r"[A-Za-z0-9_./:,@%+\-]+")
_HOLDS_MORE = re.compile(r"[\s;&|$`(]")
_SPACES = re.compile(r"\$\{?IFS\}?")
_DEFAULTS = re.compile(r"\$\{\w+:?[-=+]([^}]*)\}")
_ALIKE = str.maketrans(
    "аеорсухіјѕԁһӏԛԝαορνικτυΑΒΕΖΗΙΚΜΝΟΡΤΥΧАВЕКМНОРСТХЅІЈɡɑℓ‐‑‒–—−﹣－",
    "aeopcyxijsdhlqwaopviktuABEZHIKMNOPTYXABEKMHOPCTXSIJgal--------",
)

Words = tuple[str, ...]


def fold(text: str) -> str:
    """As it looks to a person: look-alike letters, wide ones and invisible ones are the plain letter, or nothing."""
    if text.isascii():
        return text
    seen = unicodedata.normalize("NFKD", text).translate(_ALIKE)
    return "".join(c for c in seen if unicodedata.category(c) not in ("Mn", "Me", "Cf", "Cc", "Zs"))


def is_alike(text: str) -> bool:
    """Whether a word could be taken for a plain one: look-alike letters, wide ones, dashes that are no hyphen."""
    if text.isascii() or any(char.isspace() for char in text):
        return False
    return unicodedata.normalize("NFKC", text.translate(_ALIKE)).isascii()


class Candidates:
    """Of one script, found once and asked by every rule."""

    def __init__(self, script: Script, segment: Segmenter) -> None:
        self._segment = segment
        self._texts = 0
        self._seen: set[str] = set()
        self._commands: dict[str, list[tuple[Words, int]]] = {}
        self._patterns: dict[str, list[tuple[Words, int]]] = {}
        self.incomplete = script.incomplete
        """Whether a bound cut something off: then that nothing was found means nothing."""
        self.words: list[str] = []
        """Every word of every command that may run, and every target: what might be a path or an address."""
        self._take(script, 0)

    def named(self, name: str) -> Iterator[Words]:
        """The words of every command whose program, without its folder, has this name; without the name."""
        for words, at in self._commands.get(name, ()):
            yield words[at + 1 : at + 1 + MAX_WORDS]
        for pattern, found in self._patterns.items():
            if could_be(pattern, name):
                for words, at in found:
                    yield words[at + 1 : at + 1 + MAX_WORDS]

    def count(self, name: str) -> int:
        return len(self._commands.get(name, ()))

    def is_cut(self, name: str) -> bool:
        """Whether a command of this name has more words than a rule looks at."""
        return any(len(words) - at - 1 > MAX_WORDS for words, at in self._commands.get(name, ()))

    @property
    def total(self) -> int:
        return sum(map(len, self._commands.values()))

    def lines(self) -> Iterator[Words]:
        """Every command with its name."""
        for name, found in self._commands.items():
            for words, at in found:
                yield (name, *words[at + 1 : at + 1 + MAX_WORDS])

    def _take(self, script: Script, depth: int) -> None:
        if script.unread:
            self._take_crudely(script.unread)
        segments = [(one, one.texts) for one in script.segments()]
        fed = any(_is_shell(text) for _, texts in segments for text in texts)
        for one, texts in segments:
            self._take_segment(one, texts, depth, fed=fed)

    def _take_crudely(self, text: str) -> None:
        """What no grammar understood: every word may be a program."""
        if _JOINED in text:
            text = f"{text.replace(_JOINED, '')}\n{text}"
        self.incomplete = self.incomplete or len(text) > MAX_CRUDE
        text = text[:MAX_CRUDE] if text.isascii() else " ".join(map(fold, _CRUDE.split(text[:MAX_CRUDE])))
        words = tuple(filter(None, _CRUDE.split(text)))
        self.words += words
        for at, word in enumerate(words):
            name = word.rpartition("/")[2] or word
            self._commands.setdefault(name.casefold(), []).append((words, at))
        if "{" in text:
            whole = tuple(_BLANK.split(text))  # the grammar takes `{cu,}rl` for a group of commands
            for at, word in enumerate(whole):
                if "{" in word:
                    self._add_spread(whole, at)

    def _take_segment(self, one: Segment, raw: Words, depth: int, *, fed: bool) -> None:
        """`fed`: somewhere in the script is a shell, so any text may reach it."""
        texts = tuple(map(fold, raw))
        self.words += texts
        if any(_ODD_SPACE.search(text) for text in raw if not text.isascii() or not text.isprintable()):
            self._take_crudely(" ".join(raw))
        runs = fed or _runs_words(texts)
        for at in range(len(texts) if runs else min(1, len(texts))):
            self._add(texts, at)
        for redirect in one.redirects:
            if redirect.target is not None:
                self.words.append(fold(redirect.target.text))
                if redirect.op.startswith("<<") and fed:
                    self._read(redirect.target.text, depth)
        for assigned in one.assignments:
            value = assigned.text.partition("=")[2]
            self.words.append(fold(value))
            if _INNOCENT.fullmatch(value):
                self._add((value,), 0)
            else:
                self._read(value, depth)
        if runs:
            for text in raw:
                if not _INNOCENT.fullmatch(text):
                    self._read_inside(text, depth)

    def _add(self, words: Words, at: int) -> None:
        word = words[at]
        name = word.rpartition("/")[2] or word
        self._commands.setdefault(name.casefold(), []).append((words, at))
        if "$" in name or "`" in name:
            self._commands.setdefault(_EMPTY.sub("", name).casefold(), []).append((words, at))
        self._add_spread(words, at)
        if word.startswith("{") or _SPACES.search(word):
            listed = re.split(r"[ ,]+", _SPACES.sub(" ", word).strip("{}"))
            first = listed[0].rpartition("/")[2].casefold()
            self._commands.setdefault(first, []).append(((*listed, *words[at + 1 :]), 0))

    def _add_spread(self, words: Words, at: int) -> None:
        word = words[at]
        found = spread(word)
        if len(found) >= MAX_SPREAD or (at == 0 and len(word) > MAX_SPELLING):
            self.incomplete = True
        for one in found:
            name = one.rpartition("/")[2]
            # Not first, and not from the root: files of the project are meant.
            if is_pattern(name) and (at == 0 or one.startswith("/")):
                self._patterns.setdefault(name.casefold(), []).append((words, at))
            elif one != word:
                self._commands.setdefault(name.casefold(), []).append((words, at))

    def _read_inside(self, text: str, depth: int) -> None:
        """A word that holds a command: a string, the value of an option or of an alias, a default."""
        for inner in _DEFAULTS.findall(text):
            self._read(inner, depth)
        if "=" in text:
            self._read(text.partition("=")[2], depth)
            self._read(text.rpartition("=")[2], depth)
        if _HOLDS_MORE.search(text):
            self._read(text, depth)
        if text.startswith("!"):
            self._read(text.lstrip("!"), depth)

    def _read(self, text: str, depth: int) -> None:
        if not text.strip() or text in self._seen:
            return
        self._seen.add(text)
        if depth >= MAX_DEPTH or self._texts >= MAX_TEXTS:
            self.incomplete = True
            return
        if _JOINED in text:
            self._read(text.replace(_JOINED, ""), depth)
        self._texts += 1
        if len(text) > MAX_NESTED:
            self.incomplete = True  # word by word, quotes in the middle of a name are not seen through
            self._take_crudely(text)
        else:
            script = self._segment(text.strip("'\""))
            self.incomplete = self.incomplete or script.incomplete
            self._take(script, depth + 1)


def _runs_words(texts: Words) -> bool:
    if not texts:
        return False
    name = texts[0].rpartition("/")[2]
    if any(text[:1] == "-" and _RUNNING_OPTION.match(text) for text in texts):
        return True
    if name == "git":
        return len(texts) < 2 or texts[1] not in _GIT_WORDS
    return name not in _KEEPS_WORDS


def _is_shell(text: str) -> bool:
    return fold(text).rpartition("/")[2] in _SHELLS


@lru_cache(maxsize=1024)
def rule_name(rule: Words) -> str:
    first = fold(rule[0]).casefold()
    return first.rpartition("/")[2] or first


def is_command(rule: Words, found: Candidates) -> bool:
    """Whether one of the commands is what a rule names: its program, then its words in order, options between them."""
    name = rule_name(rule)
    if len(rule) > 1 and found.count(name) > MAX_SAME:
        return True
    return any(_says(rule[1:], words) for words in found.named(name))


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
    if option in words or not re.fullmatch(r"-[a-z]{2,}", option):
        return (option,)
    return [f"-{letter}" for letter in option[1:]]


def _is_option(option: str, word: str) -> bool:
    """`-o` is in `-uo` and `-oFILE` too; `--output` in `--output=FILE`, and shortened in `--out`."""
    if word == option:
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
            at + 1 for start in reached for at in _reachable(words, start) if could_be(words[at], wanted)
        }
    return bool(reached)


def _reachable(words: Sequence[str], start: int) -> Iterator[int]:
    after_option = False
    for at in range(start, len(words)):
        yield at
        if words[at].startswith("-"):
            after_option = True
        elif after_option:
            after_option = False
        else:
            return
