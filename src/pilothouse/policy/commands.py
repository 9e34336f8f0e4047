"""Finds the commands that a text runs, for rules that deny or ask.

Looks through launchers (`sudo`, `env`, `xargs`, `find -exec`) and into texts for shells (`bash -c`, `eval`). What is run
but does not stand in the text makes the result opaque: a program named by a variable, a program for an interpreter, a
shell that reads its input, a file that the same text may have written.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise

from msgspec import Struct

from pilothouse.policy.editors import AWKS, SEDS
from pilothouse.policy.programs import (
    DEFINERS,
    GIT_WORDS,
    INTERPRETERS,
    KEEP_WORDS,
    LAUNCHERS,
    SHELLS,
    is_another_program,
    plain_name,
)
from pilothouse.policy.reader_table import READERS, VERSIONS, Reads
from pilothouse.policy.readers import read_only
from pilothouse.policy.script import Group, Items, Script, Segment, Word
from pilothouse.policy.shell import parse_shell

MAX_COMMANDS = 3000
MAX_DEPTH = 8
"""Launchers and texts for shells within others."""
MAX_SKIPPED = 16
"""Words of a launcher before the program that it runs."""
_NOT_A_PROGRAM = re.compile(r"[\d.]+[smhd]?|0x[0-9a-f]+|\w+\+?=.*", re.DOTALL | re.IGNORECASE)
"""Words that launchers accept before a program: a number, a duration, a variable."""
_TEXT = re.compile(r"[\s;&|<>$`()]")
_INPUT = re.compile(r"-|\d+|/dev/(stdin|fd/.*)|/proc/.*")
_SHELL_TEXT = re.compile(r"-[A-Za-z]*c[A-Za-z]*")
_ENV_TEXT = re.compile(r"-[A-Za-z0]*S|--s")
"""`env -S` takes a whole command in one word."""
_STEERING = re.compile(
    r"(GIT_\w+|PATH|LD_\w+|DYLD_\w+|BASH_ENV|ENV|IFS|PROMPT_COMMAND|SHELL|PAGER|EDITOR|VISUAL|NODE_OPTIONS|RUBYOPT|PERL5OPT"
    r"|PYTHON(PATH|STARTUP|HOME))\+?="
)
"""Variables that make a program run others."""
_SHELL_VALUES = ("-o", "+o", "-O", "+O", "--rcfile", "--init-file")
_HARMLESS = frozenset({"--version", "--help", "-V"})
_INTERPRETER_OPTIONS = ("-u", "-B", "-I", "-s", "-S", "-O", "-w", "-W0")
_RUN_BY_FIND = frozenset({"-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"})
_ANYTHING = Word("", "dynamic")


class Command(Struct, frozen=True, dict=True):
    """A program and its words. `around` is the text in which a program that is not known may find commands."""

    words: tuple[Word, ...]
    around: str = ""

    @cached_property
    def name(self) -> str:
        """Without the folder, in small letters."""
        text = self.words[0].text
        return (text.rpartition("/")[2] or text).casefold()

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """`git-push` is `git push`."""
        rest = tuple([word.text for word in self.words[1:]])
        return ("git", self.name[4:], *rest) if self.name.startswith("git-") else (self.name, *rest)

    @cached_property
    def small(self) -> tuple[str, ...]:
        """The texts behind the program in small letters; `\\0` for each that the shell, or a launcher, still replaces."""
        plain = [_is_plain(word, home=True) and word.text.isascii() for word in self.words[1:]]
        rest = [
            word.text.casefold() if known else "\0" for word, known in zip(self.words[1:], plain, strict=True)
        ]
        return (*self.texts[1 : len(self.texts) - len(rest)], *rest)

    @cached_property
    def dynamic_at(self) -> int | None:
        """The first word that the shell, or a launcher, still replaces."""
        return next((at for at, word in enumerate(self.words) if not _is_plain(word, home=True)), None)

    @cached_property
    def is_known(self) -> bool:
        """None of its words is run as a command."""
        texts = self.texts
        if is_another_program(texts, ()):
            return False
        if self.name == "git":
            return len(texts) > 1 and texts[1] in GIT_WORDS
        return self.name in KEEP_WORDS or self.name in LAUNCHERS


class Commands:
    """All commands of one text. With `opaque` there may be others."""

    def __init__(self) -> None:
        self.found: list[Command] = []
        self.words: list[str] = []  # every word, target and value: what may be a path or an address
        self.dynamic: list[str] = []  # words that the shell replaces by others
        self.globs: list[str] = []  # words that the shell replaces by names of files
        self.opaque = False


class _Search:
    def __init__(self, script: Script) -> None:
        self._seen: set[str] = set()
        self._launched: set[tuple[Word, ...]] = set()
        self.result = Commands()
        self._take(script, 0)

    def _take(self, script: Script, depth: int) -> None:
        result = self.result
        result.opaque = result.opaque or script.uncertain
        segments = list(dict.fromkeys(script.segments()))
        whole = " ".join(_all_texts(segments)) if script.nested or _has_pipe(script.items) else ""
        for segment in segments:
            own = _all_texts((segment,))
            result.words += own
            result.dynamic += _texts_of(segment, "dynamic")
            result.globs += _texts_of(segment, "glob", "pattern")
            if segment.words:
                around = whole or " ".join(own)
                self._add(segment.words, around, depth)
            if any(map(_STEERING.match, _set_by(segment))):
                result.opaque = True
        if _runs_written_file(segments):
            result.opaque = True

    def _add(self, words: tuple[Word, ...], around: str, depth: int) -> None:
        """Add one command, and what it runs by its words."""
        result = self.result
        if len(result.found) >= MAX_COMMANDS or depth > MAX_DEPTH:
            result.opaque = True
            return
        if depth and words in self._launched:
            return
        self._launched.add(words)
        command = Command(words, around)
        result.found.append(command)
        name, program = command.name, plain_name(command.name)
        if not _is_plain(words[0], home=True) or name in DEFINERS or not name.isascii():
            result.opaque = True
        elif name == "eval":
            self._read(words[1:], around, depth)
        elif name in LAUNCHERS:
            self._launch(command, around, depth)
        elif name in ("find", "fd"):
            for at, word in enumerate(words[:-1]):
                if word.text in _RUN_BY_FIND:
                    self._add(words[at + 1 :], around, depth + 1)
        elif program in SHELLS:
            self._shell(words, around, depth)
        elif len(words) == 2 and f"{name}+{words[1].text}" in VERSIONS:
            return
        elif program in INTERPRETERS or name in ("source", "."):
            result.opaque = result.opaque or not runs_file(words)
        elif name in AWKS or name in SEDS:
            result.opaque = result.opaque or not _only_edits(words)
        elif name in ("make", "gmake") and any(_reads_input(word) for word in words[1:]):
            result.opaque = True

    def _launch(self, command: Command, around: str, depth: int) -> None:
        words, name = command.words, command.name
        if name == "command" and words[1:2] and words[1].text in ("-v", "-V"):
            return
        if name == "env" and any(_ENV_TEXT.match(word.text) for word in words[1:]):
            self.result.opaque = True
        for at in _launch_points(words, LAUNCHERS[name]):
            word = words[at]
            is_option = word.text.startswith("-")
            if _NOT_A_PROGRAM.fullmatch(word.text):
                continue
            if (
                word.form not in ("plain", "home")
                or word.text == "{}"
                or (is_option and _TEXT.search(word.text))
            ):
                self.result.opaque = True
            elif _TEXT.search(word.text):
                self._read((word,), around, depth)
            elif not is_option:
                self._add(_with_input(name, words, at), around, depth + 1)

    def _shell(self, words: tuple[Word, ...], around: str, depth: int) -> None:
        """A shell runs a text (`-c`), a file, or its input."""
        given, rest = False, list(words[1:])
        while rest:
            word = rest.pop(0)
            text = word.text
            if not _is_plain(word, home=True):
                break
            if text == "-n" or text in _HARMLESS:
                return
            if text in _SHELL_VALUES and rest:
                rest.pop(0)
            elif _SHELL_TEXT.fullmatch(text):
                given = True
            elif given and not text.startswith(("-", "+")):
                self._read((word,), around, depth)
                return
            elif not text.startswith(("-", "+")) and plain_name(words[0].text) != "su":
                if not _INPUT.fullmatch(text):
                    return
                break
        self.result.opaque = True

    def _read(self, words: Sequence[Word], around: str, depth: int) -> None:
        """Read a text that a shell will run."""
        text = " ".join([word.text for word in words])
        if depth >= MAX_DEPTH or not all(map(_is_plain, words)):
            self.result.opaque = True
        elif text not in self._seen:
            self._seen.add(text)
            self._take(parse_shell(text), depth + 1)


def find_commands(script: Script) -> Commands:
    return _Search(script).result


def _is_plain(word: Word, *, home: bool = False) -> bool:
    """Tell whether the program gets this very word. `{}` is replaced by `find` and `xargs`."""
    return (word.form == "plain" and "{}" not in word.text) or (home and word.form == "home")


def _launch_points(words: Sequence[Word], skip: int) -> Iterator[int]:
    """Yield the places where the program may stand: behind options, each perhaps with a value, and `skip` other words."""
    after_option, end = False, min(len(words), MAX_SKIPPED)
    for at in range(1, end):
        text = words[at].text
        yield at
        if text.startswith(("-", "+")):
            after_option = text != "--"
        elif _NOT_A_PROGRAM.fullmatch(text):
            continue
        elif after_option:
            after_option = False
        elif skip:
            skip -= 1
        else:
            return


def _with_input(name: str, words: tuple[Word, ...], at: int) -> tuple[Word, ...]:
    """`xargs` adds words behind those that it is given, or among them; `parallel` anywhere."""
    rest = words[at:]
    if name not in ("xargs", "parallel"):
        return rest
    replaces = any(word.text.startswith(("-I", "-i", "-J", "--replace")) for word in words[1:at])
    if name == "xargs" and not replaces:
        return (*rest, _ANYTHING)
    return (rest[0], _ANYTHING, *rest[1:])


def runs_file(words: tuple[Word, ...]) -> bool:
    """Tell whether an interpreter is given a file or a module, and not a text or its input."""
    for word in words[1:]:
        text = word.text
        if not _is_plain(word, home=True):
            return False
        if text == "-m" or text in _HARMLESS:
            return True
        if text not in _INTERPRETER_OPTIONS:
            return not text.startswith("-") and not _INPUT.fullmatch(text)
    return False


def _only_edits(words: tuple[Word, ...]) -> bool:
    texts = (words[0].text.rpartition("/")[2], *[word.text for word in words[1:]])
    if any(word.form == "dynamic" for word in words):
        return False
    return isinstance(read_only(texts), Reads)


def _reads_input(word: Word) -> bool:
    """Tell whether make reads its input: `-f -` and its like."""
    value = word.text.rpartition("=")[2]
    return word.text == "-f-" or _INPUT.fullmatch(value) is not None or "(" in word.text


def _all_texts(segments: Sequence[Segment]) -> list[str]:
    texts: list[str] = []
    for segment in segments:
        texts += segment.texts
        texts += [redirect.target.text for redirect in segment.redirects if redirect.target]
        texts += [assigned.text.partition("=")[2] for assigned in segment.assignments]
    return texts


def _set_by(segment: Segment) -> Iterator[str]:
    yield from (assigned.text for assigned in segment.assignments)
    if segment.name in ("env", "sudo", "export", "make"):
        yield from segment.texts
    elif segment.name in ("for", "select"):
        yield from (f"{text}=" for text in segment.texts[1:2])


def _texts_of(segment: Segment, *forms: str) -> list[str]:
    targets = [one.target for one in segment.redirects if one.target and not one.op.startswith("<<")]
    return [word.text for word in (*segment.words, *targets) if word.form in forms]


def _has_pipe(items: Items) -> bool:
    return any(joint == "|" or (isinstance(item, Group) and _has_pipe(item.items)) for joint, item in items)


def _runs_written_file(segments: Sequence[Segment]) -> bool:
    """Tell whether a file is run that another command of the text names: it may have been written there."""
    run = Counter(_base(name) for segment in segments for name in _files_run(segment))
    if not run:
        return False
    named: Counter[str] = Counter()
    for segment in segments:
        named.update(_base(one.target.text) for one in segment.redirects if one.target and one.changes)
        if segment.name not in READERS:
            named.update(map(_base, segment.texts))
    return any(named[name] > count for name, count in run.items())


def _files_run(segment: Segment) -> Iterator[str]:
    """The programs and scripts that are given by their paths."""
    texts = segment.texts[:MAX_SKIPPED]
    started = texts if texts[:1] and texts[0] in LAUNCHERS else texts[:1]
    yield from (text for text in started if "/" in text)
    for before, text in pairwise(texts):
        if before in ("source", ".") or plain_name(before) in INTERPRETERS:
            yield text


def _base(text: str) -> str:
    return text.rstrip("/").rpartition("/")[2]
