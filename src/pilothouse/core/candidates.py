"""Every command that a text may run, however it is wrapped: what a rule that forbids looks at.

Generous on purpose: wrappers, options that name programs, strings that a shell will read, look-alike letters. It may
find commands that would never run; it is never asked what may pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from pilothouse.core.expansions import HOLE, aliases_in, is_dynamic, opened, set_in, variants
from pilothouse.core.feeding import as_makefile, bangs, is_fed_blindly, printed, runs_written
from pilothouse.core.launching import (
    FEEDING,
    LAUNCHERS,
    MAX_WORDS,
    env_texts,
    git_aliases,
    git_settings,
    has_shell,
    is_fed,
    launched,
    parallel_command,
    placeholders,
    reads_commands,
    runs_text,
    runs_words,
)
from pilothouse.core.look_alikes import fold
from pilothouse.core.script import Script, Segment, Segmenter
from pilothouse.core.spellings import MAX_SPELLING, MAX_SPREAD, could_be, first_patterns, is_pattern, spread

MAX_TEXTS = 100
"""Strings inside one command that are read as commands themselves."""
MAX_DEPTH = 5
MAX_NESTED = 2000
"""Characters of a string that is read as a command of its own; a longer one is searched word by word."""
MAX_OTHER = 20
"""Aliases and texts of one command that stand for another."""
MAX_VARIED = 500
"""Commands with values put in that are looked at; for all others the holes in them count."""
MAX_CRUDE = 20_000
"""Characters of a text that no grammar understood."""

_UNSURE = ("$", "`", "<(", ">(", "xargs", "parallel", "env", "alias", "include", "config")
"""One of them is in every command that may become another one."""
_JOINED = "\\\n"
"""A shell reads on as if it were not there, in the middle of a word too; both readings count."""
_ODD_SPACE = re.compile(r"[^\S \t\n]")
_EMPTY = re.compile(r"\$\(\s*\)|``|\$\{\w*\}|\$[@*#?$!_]|\$\w+")
"""What often stands for nothing: `r$()m` is `rm`."""
_CRUDE = re.compile(r"[\s\0;&|()<>`{},$\"'\\]+")
_BLANK = re.compile(r"[\s;&|()<>]+")
_UNSETTLED = re.compile(r"[$`{*?\[]")
"""In every word that a shell may make another one of."""
_INNOCENT = re.compile(r"[A-Za-z0-9_./:,@%+\-]+")
_HOLDS_MORE = re.compile(r"[\s;&|$`(]")
_SPACES = re.compile(r"\$\{?IFS\}?")
_DEFAULTS = re.compile(r"\$\{\w+:?[-=+]([^}]*)\}")
_PLACE = re.compile(r"\{[^{}\s]*\}")
Words = tuple[str, ...]


class _Row(Struct, frozen=True):
    """Words of which the first `many` may each be a program. `seen` has them all, small, for a quick no."""

    words: Words
    many: int
    seen: str

    def places(self, name: str) -> Iterator[int]:
        if name in self.seen:
            for at, word in enumerate(self.words[: self.many]):
                if (word.rpartition("/")[2] or word).casefold() == name:
                    yield at


class Candidates:
    """Of one script, found once and asked by every rule."""

    def __init__(self, script: Script, segment: Segmenter) -> None:
        self._segment = segment
        self._texts = 0
        self._seen: set[str] = set()
        self._rows: list[_Row] = []
        self._spelled: list[tuple[str, Words, int]] = []
        self._patterns: list[tuple[str, Words, int]] = []
        self._named: dict[str, list[Words]] = {}
        self._values: dict[str, dict[str, None]] = {}
        self._aliases: dict[str, dict[str, None]] = {}
        self._open: list[_Row] = []
        self._surely = True
        self._variants = 0
        self.loose: dict[str, None] = {}
        """Patterns of programs of which only the running shell knows which they are."""
        self.incomplete = script.incomplete
        """Whether a bound cut something off: then that nothing was found means nothing."""
        self.words: list[str] = []
        """Every word of every command that may run, and every target: what might be a path or an address."""
        self._take(script, 0, surely=True)

    def named(self, name: str) -> list[Words]:
        """The words of every command whose program, without its folder, has this name; without the name."""
        if name not in self._named:
            found = self._places(name)
            found += [(words, at) for pattern, words, at in self._patterns if could_be(pattern, name)]
            self._named[name] = [words[at + 1 : at + 1 + MAX_WORDS] for words, at in found]
        return self._named[name]

    def _places(self, name: str) -> list[tuple[Words, int]]:
        found = [(row.words, at) for row in self._rows for at in row.places(name)]
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

    def _take(self, script: Script, depth: int, *, surely: bool) -> None:
        """`surely`: a shell runs it, and it is not only a text that might be meant for one."""
        if script.unread:
            self._take_crudely(script.unread)
        segments = {one: one.texts for one in script.segments()}
        fed = any(has_shell(texts) or is_fed(texts) for texts in segments.values())
        runs, blindly = runs_written(list(segments))
        if surely and (blindly or (fed and is_fed_blindly(script))):
            self.loose[HOLE] = None
            self._open.append(_Row((HOLE,), 1, HOLE))
        fed = fed or runs
        for name, value in set_in(segments):
            self._values.setdefault(name, {})[value] = None
        for name, value in aliases_in(segments):
            self._aliases.setdefault(name, {})[value] = None
        only = {name: tuple(self._values.get(name, ())) for name in script.settled}
        settled = {name: one[0] for name, one in only.items() if len(one) == 1 and not is_dynamic(one[0])}
        reads = any(reads_commands(texts) for texts in segments.values())
        for one, texts in segments.items():
            self._surely = reads or runs_text(texts)
            self._take_segment(one, texts, depth, fed=fed)
            whole = "".join(texts)
            if self._aliases or self._values or any(sign in whole for sign in _UNSURE):
                self._take_unsure(tuple(map(fold, texts)), settled, fed=fed, surely=surely)

    def _take_unsure(self, texts: Words, settled: Mapping[str, str], *, fed: bool, surely: bool) -> None:
        """What the command becomes with the values that the text sets, and what nobody can tell about it."""
        if not texts:
            return
        name = texts[0].rpartition("/")[2]
        dynamic = any(map(is_dynamic, texts))
        found = variants(texts, self._values) if dynamic and self._variants < MAX_VARIED else []
        self._variants += len(found)
        for at, text in enumerate(texts[: 8 if name in LAUNCHERS else 1]) if self._aliases else ():
            values = self._aliases.get(text.rpartition("/")[2], ())
            found += [(*value.split(), *texts[at + 1 :]) for value in values]
        if "parallel" in texts:
            said, given = parallel_command(texts)
            found.append((*(word for word in said if "{" not in word), *given))
        other = [*(git_aliases(texts) if name == "git" else ()), *env_texts(texts)]
        self.incomplete = self.incomplete or len(other) > MAX_OTHER
        found += other[:MAX_OTHER]
        for words in filter(None, found):
            self.words += words
            self._add(words, len(words) if fed or runs_words(words) else 1)
        for words in (texts, *filter(None, found)):
            self._take_open(words, settled, surely=surely)

    def _take_open(self, texts: Words, settled: Mapping[str, str], *, surely: bool) -> None:
        name = texts[0].rpartition("/")[2]
        words = opened(texts, settled) if any(map(is_dynamic, texts)) else texts
        if not FEEDING.isdisjoint(text.rpartition("/")[2] for text in texts):
            words = (*_left_open(words), HOLE)
        if name == "git" and (
            any(word.startswith("--config-e") for word in texts)
            or any(name.startswith("GIT_CONFIG") for name in self._values)
            or any(key.startswith("include") for key, _ in git_settings(texts))
        ):
            self._open.append(_Row((name, HOLE), 1, name))
        if words != texts and (surely or HOLE not in words[0]):
            self._open.append(_Row(words, len(words), "".join(words).casefold()))
            for word in (words[0], *(launched(words) if name in LAUNCHERS else ())):
                if HOLE in word and word not in texts:
                    self.loose[word.rpartition("/")[2]] = None

    def opened(self, name: str) -> Iterator[Words]:
        """Like `named`, of commands with a hole in them."""
        for row in self._open:
            for at in row.places(name):
                yield row.words[at + 1 : at + 1 + MAX_WORDS]

    @property
    def open_lines(self) -> Iterator[Words]:
        return (row.words for row in self._open)

    def _take_crudely(self, text: str) -> None:
        """What no grammar understood: every word may be a program."""
        if _JOINED in text:
            text = f"{text.replace(_JOINED, '')}\n{text}"
        self.incomplete = self.incomplete or len(text) > MAX_CRUDE
        text = text[:MAX_CRUDE] if text.isascii() else " ".join(map(fold, _CRUDE.split(text[:MAX_CRUDE])))
        words = tuple(filter(None, _CRUDE.split(text)))
        self.words += words
        self._rows.append(_Row(words, len(words), text.casefold()))
        for line in first_patterns(text):
            self._add_spread(line, 0)
        if "{" in text:
            whole = tuple(_BLANK.split(text))  # the grammar takes `{cu,}rl` for a group of commands
            for at, word in enumerate(whole):
                if "{" in word:
                    self._add_spread(whole, at)

    def _take_segment(self, one: Segment, raw: Words, depth: int, *, fed: bool) -> None:
        """`fed`: somewhere in the script is a shell, so any text may reach it."""
        whole = "".join(raw)
        texts = raw
        if not whole.isascii():
            texts = tuple(map(fold, raw))
        if not (whole.isascii() and whole.isprintable()) and any(map(_ODD_SPACE.search, raw)):
            self._take_crudely(" ".join(raw))
        self.words += texts
        runs = fed or runs_words(texts)
        if texts:
            self._add(texts, len(texts) if runs else 1)
        for redirect in one.redirects:
            if redirect.target is not None:
                self.words.append(fold(redirect.target.text))
                if redirect.op.startswith("<<") and fed:
                    self._read_fed(redirect.target.text, depth)
        for assigned in one.assignments:
            value = assigned.text.partition("=")[2]
            self.words.append(fold(value))
            if _INNOCENT.fullmatch(value):
                self._add((value,), 1)
            elif _HOLDS_MORE.search(value) or not is_pattern(value):  # files; what runs `$x` finds it itself
                self._read(value, depth)
        if runs and not _INNOCENT.fullmatch(whole):
            for text in raw:
                if not _INNOCENT.fullmatch(text):
                    self._read_inside(text, depth)
            if fed and raw and raw[0] in ("printf", "echo") and "\\" in whole:
                self._read_fed(printed(" ".join(raw[1:])), depth)

    def _read_fed(self, text: str, depth: int) -> None:
        """What a shell, a make or an editor reads from its input."""
        if text.startswith("$'"):
            text = printed(text[1:])
        self._read(text, depth)
        self._read(as_makefile(text), depth)
        for command in bangs(text):
            self._read(command, depth)

    def _add(self, words: Words, many: int) -> None:
        """The first words, each as a program with what follows it."""
        seen = "".join(words[:many])
        self._rows.append(_Row(words, many, seen.casefold()))
        self.incomplete = self.incomplete or len(words[0]) > MAX_SPELLING
        if "git-" in seen:
            self._add_joined(words, many)
        if _UNSETTLED.search(seen):
            for at, word in enumerate(words[:many]):
                if _UNSETTLED.search(word):
                    self._add_unsettled(words, at)

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

    def _read_inside(self, text: str, depth: int) -> None:
        """A word that holds a command: a string, the value of an option or of an alias, a default."""
        for inner in _DEFAULTS.findall(text):
            self._read(inner, depth)
        if "=" in text:
            self._read(text.partition("=")[2], depth)
            self._read(text.rpartition("=")[2], depth)
        if _HOLDS_MORE.search(text):
            self._read(text, depth)
        for command in bangs(text):
            self._read(command, depth)

    def _read(self, text: str, depth: int) -> None:
        surely = self._surely
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
            self._take(script, depth + 1, surely=surely)


def _left_open(words: Words) -> Words:
    """What xargs or parallel runs, with a hole wherever they put what they read."""
    if "parallel" in words:
        return tuple(_PLACE.sub(HOLE, word) for word in parallel_command(words)[0])
    marks = {"{}", *placeholders(words)} - {""}
    return tuple(HOLE if word in marks else word for word in words)


def _is_launched(words: Words, word: str) -> bool:
    return words[0].rpartition("/")[2] in LAUNCHERS and word in launched(words)
