"""Whether a rule that denies or asks catches a call. Generous: what a call might touch is enough."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cached_property
from itertools import islice

from pilothouse.core.call import Call, host_of
from pilothouse.core.candidates import Candidates, fold, is_command, rule_name
from pilothouse.core.places import Places
from pilothouse.core.rules import Rule, matches_glob
from pilothouse.core.script import Script, Segmenter, joined, no_segmenter

_HOME = re.compile(r"\$\{?HOME\}?")
_HERE = re.compile(r"\$\{?PWD\}?")
_MAGIC = re.compile(r"[*?\[]")
_ATTACHED = re.compile(r"-\w[/~.\w]")
MAX_PATH = 1024
MAX_LINES = 1000
"""Commands in one text that are looked at as lines; beyond that a rule may miss one."""
_ADDRESS = re.compile(r"[a-z][a-z0-9+.\-]*://[^\s\"'`<>()]+", re.IGNORECASE)
_HOST = re.compile(r"(?:[^\s@/]+@)?([a-z0-9\-]+(?:\.[a-z0-9\-]+)+)(?::\S*|/\S*)?", re.IGNORECASE)


class Catcher:
    """One call, asked by every rule; what takes work is found when the first rule needs it."""

    def __init__(self, call: Call, script: Script | None, places: Places, segment: Segmenter) -> None:
        self._call = call
        self._script = script
        self._places = places
        self._segment = segment

    def catches(self, rule: Rule) -> bool:
        call = self._call
        match rule.kind:
            case "tool":
                return matches_glob(rule.pattern, call.tool, case=False)
            case "command":
                return is_command(rule.words, self._candidates)
            case "glob":
                return any(matches_glob(rule.pattern, line, case=False) for line in self._lines)
            case "domain":
                return any(_is_host(rule.pattern, host) for host in self._hosts)
            case "mcp":
                tool = rule.words[1] if len(rule.words) > 1 else "*"
                server = matches_glob(rule.pattern, call.server, case=False)
                named = matches_glob(tool, call.server_tool, case=False)
                return call.kind == "mcp" and bool(server and named)
            case "skill":
                return call.kind == "skill" and bool(matches_glob(rule.pattern, call.skill, case=False))
            case "path" | "read":
                return self._touches(rule)

    def may_miss(self, rule: Rule) -> bool:
        """Whether a bound cut off what this rule would have looked at."""
        if self._script is None or rule.kind not in ("command", "glob", "path", "read", "domain"):
            return False
        found = self._candidates
        match rule.kind:
            case "glob" if found.total > MAX_LINES:
                return True
            case "command" if len(rule.words) > 1 and found.is_cut(rule_name(rule.words)):
                return True
            case _:
                return found.incomplete

    @cached_property
    def _candidates(self) -> Candidates:
        if self._script is None:
            return Candidates(no_segmenter(""), no_segmenter)
        return Candidates(self._script, self._segment)

    @cached_property
    def _lines(self) -> list[str]:
        """The whole text as one line, and every command in it."""
        if self._call.kind != "command":
            return []
        whole = " ".join(self._call.command.split())
        lines = [fold(whole)]
        for words in islice(self._candidates.lines(), MAX_LINES):
            lines += [" ".join(words), shlex.join(words)]
        return list(dict.fromkeys(lines))

    @cached_property
    def _hosts(self) -> list[str]:
        call = self._call
        texts = [*call.texts, *self._candidates.words] if call.kind != "web" else []
        found = [host_of(url) for text in texts for url in _ADDRESS.findall(text)]
        found += [match[1].lower() for text in texts if (match := _HOST.fullmatch(text))]
        return [host for host in (call.host, *found) if host]

    @cached_property
    def _paths(self) -> list[str]:
        """Everything in the call that could be a path, as written."""
        call = self._call
        if call.kind in ("read", "change"):
            return list(call.paths)
        found = dict.fromkeys((*call.texts, *self._candidates.words))
        for word in list(found):
            found.update(dict.fromkeys(_inside(word)))
        return [path for path in found if path and len(path) <= MAX_PATH]

    @cached_property
    def _folders(self) -> list[str]:
        """Where a relative path may begin: here, and wherever a `cd` in the command leads."""
        start = self._places.resolve("/", self._call.cwd) if self._call.cwd.startswith("/") else None
        folders = [folder for folder in (start, self._places.root) if folder]
        for place in self._moves():
            more = [self._places.resolve(folder, place) for folder in folders[:4]]
            folders += [folder for folder in more if folder]
        return list(dict.fromkeys(folders))[:16] or ["/"]

    def _moves(self) -> Iterator[str]:
        """What a command says about where it, or the next one, runs."""
        for name in ("cd", "pushd", "git", "make", "tar", "env"):
            for words in self._candidates.named(name):
                places = words[:1] if name in ("cd", "pushd") else _after(words, "-C")
                yield from (_HOME.sub("~", place) for place in places)

    def _touches(self, rule: Rule) -> bool:
        if rule.kind == "read" and self._call.kind == "change":
            return False
        return any(self._places.forbids(rule, real) for real in self._reals)

    @cached_property
    def _reals(self) -> list[str]:
        """Where all of that leads, from wherever it may begin; a pattern is what it means now, too."""
        found: dict[str, None] = {}
        for path in self._paths:
            for folder in self._folders:
                found[self._places.resolve(folder, path) or joined(folder, path)] = None
                if self._call.kind == "command" and _MAGIC.search(path):
                    for one in self._places.ground.expand(folder, path) or ():
                        found[self._places.resolve(folder, one) or joined(folder, one)] = None
        return list(found)


def _after(words: tuple[str, ...], option: str) -> list[str]:
    return [words[at + 1] for at, word in enumerate(words[:-1]) if word == option]


def _inside(word: str) -> Iterator[str]:
    """Paths that are a part of a word: `--file=a`, `-fa`, `@a`, `host:a`, `$HOME/a`."""
    if "$" in word:
        word = _HERE.sub(".", _HOME.sub("~", word))
        yield word
    if "=" in word:
        yield word.partition("=")[2]
    if word[:1] == "-" and _ATTACHED.match(word):
        yield word[2:]
    if word[:1] == "@":
        yield word[1:]
    if ":" in word:
        yield from word.split(":")


def _is_host(pattern: str, host: str) -> bool:
    """Itself, and every name below it."""
    name = pattern.removeprefix("*.")
    return host == name or host.endswith("." + name)
