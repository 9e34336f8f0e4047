"""Every command that a text may run, however it is wrapped: what a rule that forbids looks at.

Generous on purpose: wrappers, options that name programs, strings that a shell will read, look-alike letters. It may
find commands that would never run; it is never asked what may pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice, pairwise

from pilothouse.policy.awk_programs import AWKS, awk_runs
from pilothouse.policy.candidates import JOINED, Candidates
from pilothouse.policy.expansions import HOLE, aliases_in, is_dynamic, opened, set_in, variants
from pilothouse.policy.feeding import as_makefile, bangs, is_fed_blindly, printed, runs_written
from pilothouse.policy.launching import (
    FEEDING,
    LAUNCHERS,
    MAX_WORDS,
    env_texts,
    git_aliases,
    git_settings,
    has_shell,
    is_fed,
    is_interpreter,
    launched,
    parallel_command,
    placeholders,
    reads_commands,
    runs_text,
    runs_words,
    takes_text,
)
from pilothouse.policy.look_alikes import fold
from pilothouse.policy.script import Parse, Script, Segment
from pilothouse.policy.sed_scripts import SEDS, sed_files, sed_may_run
from pilothouse.policy.spellings import is_pattern

MAX_TEXTS = 100
"""Strings inside one command that are read as commands themselves."""
MAX_DEPTH = 5
MAX_NESTED = 2000
"""Characters of a string that is read as a command of its own; a longer one is searched word by word."""
MAX_OTHER = 20
"""Aliases and texts of one command that stand for another."""
MAX_VARIED = 500
"""Commands with values put in that are looked at; for all others the holes in them count."""

_UNSURE = ("$", "`", "<(", ">(", "xargs", "parallel", "env", "alias", "include", "config")
"""One of them is in every command that may become another one."""
_ODD_SPACE = re.compile(r"[^\S \t\n]")
_ODD_PLAIN_SPACES = [chr(code) for code in range(128) if _ODD_SPACE.match(chr(code))]
_INNOCENT = re.compile(r"[A-Za-z0-9_./:,@%+\-]+")
_HOLDS_MORE = re.compile(r"[\s;&|$`(]")
_SCRIPT_READ = re.compile(r"^-(?:[A-Za-z]*f|-file[= ]) ?(?:-(?: |$)|/dev/|/proc/|<\()")
"""A script that is read from what is fed."""
_DEFAULTS = re.compile(r"\$\{\w+:?[-=+]([^}]*)\}")
_PLACE = re.compile(r"\{[^{}\s]*\}")
Words = tuple[str, ...]


def gather(script: Script, segment: Parse) -> Candidates:
    gathering = _Gathering(segment)
    gathering.found.incomplete = script.incomplete
    gathering.take(script, 0, surely=True)
    return gathering.found


class _Gathering:
    """One script, and all that is read because of it."""

    def __init__(self, segment: Parse) -> None:
        self.found = Candidates()
        self._segment = segment
        self._texts = 0
        self._seen: set[str] = set()
        self._crude: set[str] = set()
        self._values: dict[str, dict[str, None]] = {}
        self._aliases: dict[str, dict[str, None]] = {}
        self._surely = True
        self._variants = 0

    def take(self, script: Script, depth: int, *, surely: bool) -> None:
        """`surely`: a shell runs it, and it is not only a text that might be meant for one."""
        if script.unread:
            self._crude.add(script.unread.strip("'\" \t\n"))
            self.found.add_crudely(script.unread)
        segments = {one: one.texts for one in dict.fromkeys(script.segments())}
        fed = any(has_shell(texts) or is_fed(texts) or takes_text(texts) for texts in segments.values())
        runs, blindly = runs_written(list(segments))
        if surely and (blindly or (fed and is_fed_blindly(script))):
            self._leave_open()
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
            whole = "".join(texts)
            self._take_segment(one, texts, whole, depth, fed=fed)
            if surely and ("sed" in whole or "awk" in whole) and _runs_unknown(texts):
                self._leave_open()
            if self._aliases or self._values or any(sign in whole for sign in _UNSURE):
                self._take_unsure(tuple(map(fold, texts)), settled, fed=fed, surely=surely)

    def _take_segment(self, one: Segment, raw: Words, whole: str, depth: int, *, fed: bool) -> None:
        """`fed`: somewhere in the script is a shell, so any text may reach it."""
        found = self.found
        texts = raw if whole.isascii() else tuple(map(fold, raw))
        if _has_odd_space(whole):
            found.add_crudely(" ".join(raw))
        found.words += texts
        if "{" in whole or "(" in whole or one.redirects:
            self._take_braces(one)
        runs = fed or runs_words(texts)
        if texts:
            found.add(texts, len(texts) if runs else 1)
        for redirect in one.redirects:
            if redirect.target is not None:
                found.words.append(fold(redirect.target.text))
                if redirect.op.startswith("<<") and fed:
                    self._read_fed(redirect.target.text, depth)
        for assigned in one.assignments:
            value = assigned.text.partition("=")[2]
            found.words.append(fold(value))
            if _INNOCENT.fullmatch(value):
                found.add((value,), 1)
            elif _HOLDS_MORE.search(value) or not is_pattern(value):  # files; what runs `$x` finds it itself
                self._read(value, depth)
        if runs and not _INNOCENT.fullmatch(whole):
            for text in raw:
                if not _INNOCENT.fullmatch(text):
                    self._read_inside(text, depth)
            if raw[:1] == ("eval",):
                self._read(" ".join(raw[1:]), depth)
            if fed and raw and raw[0] in ("printf", "echo") and "\\" in whole:
                self._read_fed(printed(" ".join(raw[1:])), depth)
        if runs and texts:
            self._take_programs(texts, whole, depth)

    def _take_braces(self, one: Segment) -> None:
        """Words that a shell makes of one, in quotes none: each may be a path."""
        for word in (*one.words, *(redirect.target for redirect in one.redirects if redirect.target)):
            if word.form == "dynamic" and ("{" in word.text or "(" in word.text):
                self.found.add_spread_words(fold(word.text))

    def _take_programs(self, texts: Words, whole: str, depth: int) -> None:
        """Texts in other languages: the commands and the files that stand in them."""
        if is_interpreter(texts[0]):
            for program in texts[1:]:
                if _HOLDS_MORE.search(program) and program.strip("'\" \t\n") not in self._crude:
                    self.found.add_crudely(program)
        if "sed" in whole:
            for rest in islice(_from(SEDS, texts), MAX_OTHER):
                self.found.words += sed_files(rest)
        if "awk" in whole and any(_from(AWKS, texts)):
            for program in dict.fromkeys(texts):
                for command in awk_runs(program)[0]:
                    self._read(command, depth)

    def _leave_open(self) -> None:
        """Something runs, and nobody can tell what."""
        self.found.loose[HOLE] = None
        self.found.add_open((HOLE,), 1)

    def _take_unsure(self, texts: Words, settled: Mapping[str, str], *, fed: bool, surely: bool) -> None:
        """What the command becomes with the values that the text sets, and what nobody can tell about it."""
        if not texts:
            return
        name = texts[0].rpartition("/")[2]
        dynamic = any(map(is_dynamic, texts))
        if (
            surely
            and (is_interpreter(name) or name in ("make", "gmake"))
            and any("<(" in text for text in texts)
        ):
            self._leave_open()
        found = variants(texts, self._values) if dynamic and self._variants < MAX_VARIED else []
        self._variants += len(found)
        for at, text in enumerate(texts[: 8 if name in LAUNCHERS else 1]) if self._aliases else ():
            values = self._aliases.get(text.rpartition("/")[2], ())
            found += [(*value.split(), *texts[at + 1 :]) for value in values]
        if "parallel" in texts:
            said, given = parallel_command(texts)
            found.append((*(word for word in said if "{" not in word), *given))
        other = [*(git_aliases(texts) if name == "git" else ()), *env_texts(texts)]
        self.found.incomplete = self.found.incomplete or len(other) > MAX_OTHER
        found += other[:MAX_OTHER]
        for words in filter(None, found):
            self.found.words += words
            self.found.add(words, len(words) if fed or runs_words(words) else 1)
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
            self.found.add_open((name, HOLE), 1)
        if words != texts and (surely or HOLE not in words[0]):
            self.found.add_open(words, len(words))
            for word in (words[0], *(launched(words) if name in LAUNCHERS else ())):
                if HOLE in word and word not in texts:
                    self.found.loose[word.rpartition("/")[2]] = None
                    if word == HOLE:
                        self.found.add_open((HOLE,), 1)

    def _read_fed(self, text: str, depth: int) -> None:
        """What a shell, a make or an editor reads from its input."""
        if text.startswith("$'"):
            text = printed(text[1:])
        self._read(text, depth)
        self._read(as_makefile(text), depth)

    def _read_inside(self, text: str, depth: int) -> None:
        """A word that holds a command: a string, the value of an option or of an alias, a default."""
        for inner in _DEFAULTS.findall(text) if "${" in text else ():
            self._read(inner, depth)
        if "=" in text:
            self._read(text.partition("=")[2], depth)
            self._read(text.rpartition("=")[2], depth)
        if _HOLDS_MORE.search(text) or "!" in text:
            self._read(text, depth)
            if text[:1] == "-":
                self._read(text[2:], depth)

    def _read(self, text: str, depth: int) -> None:
        surely, found = self._surely, self.found
        if not text.strip() or text in self._seen:
            return
        self._seen.add(text)
        if depth >= MAX_DEPTH or self._texts >= MAX_TEXTS:
            found.incomplete = True
            return
        if JOINED in text:
            self._read(text.replace(JOINED, ""), depth)
        for command in bangs(text):
            self._read(command, depth)
        self._texts += 1
        if len(text) > MAX_NESTED:
            found.incomplete = True  # word by word, quotes in the middle of a name are not seen through
            found.add_crudely(text)
        else:
            script = self._segment(text.strip("'\""))
            found.incomplete = found.incomplete or script.incomplete
            self.take(script, depth + 1, surely=surely)


def _runs_unknown(texts: Words) -> bool:
    """Whether a sed or an awk runs what it puts together, or what it reads."""
    seds, awks = list(islice(_from(SEDS, texts), MAX_OTHER)), any(_from(AWKS, texts))
    if not seds and not awks:
        return False
    if any(_SCRIPT_READ.search(f"{one} {other}") for one, other in pairwise((*texts, ""))):
        return True
    return any(map(sed_may_run, seds)) or (
        awks and any(awk_runs(program)[1] for program in dict.fromkeys(texts))
    )


def _from(names: frozenset[str], texts: Words) -> Iterator[Words]:
    """The words from each of these programs on, wherever one may stand."""
    return (texts[at:] for at, text in enumerate(texts[:MAX_WORDS]) if text.rpartition("/")[2] in names)


def _has_odd_space(text: str) -> bool:
    """A blank that only some readers take for one. In plain text there are few to look for."""
    if not text.isascii():
        return _ODD_SPACE.search(text) is not None
    return any(space in text for space in _ODD_PLAIN_SPACES)


def _left_open(words: Words) -> Words:
    """What xargs or parallel runs, with a hole wherever they put what they read."""
    if "parallel" in words:
        return tuple(_PLACE.sub(HOLE, word) for word in parallel_command(words)[0])
    marks = {"{}", *placeholders(words)} - {""}
    return tuple(HOLE if word in marks else word for word in words)
