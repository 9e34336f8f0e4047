"""Whether a rule that denies or asks catches a call. Generous: what a call might touch is enough."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cached_property
from itertools import islice

from msgspec import Struct

from pilothouse.core.call import Call, host_of
from pilothouse.core.rules import Rule, matches_glob
from pilothouse.policy.candidates import Candidates
from pilothouse.policy.command_naming import is_command, may_be_command, rule_name
from pilothouse.policy.expansions import HOLE
from pilothouse.policy.filesystem import joined
from pilothouse.policy.gathering import gather
from pilothouse.policy.look_alikes import fold
from pilothouse.policy.paths import MAX_CHARS, Places
from pilothouse.policy.script import Parse, Script, no_parser

_HOME = re.compile(r"\$\{?HOME\}?")
_HERE = re.compile(r"\$\{?(?:OLD)?PWD\}?|^~[+\-](?=/|$)")
"""Where it was before counts as here: every folder that a `cd` leads to is looked at."""
_MAGIC = re.compile(r"[*?\[]")
_ATTACHED = re.compile(r"-\w[/~.\w]")
MAX_FOLDERS = 64
"""Folders that a path may begin in, by all the ways that `cd` may go."""
MAX_LOOKS = 30_000
"""Paths that are followed, from every folder. Beyond either bound a rule about paths may miss one."""
MAX_LINES = 1000
"""Commands in one text that are looked at as lines; beyond that a rule may miss one."""
_ADDRESS = re.compile(r"[a-z][a-z0-9+.\-]{0,20}://[^\s\"'`<>()]+", re.IGNORECASE)
_HOST = re.compile(r"(?:[^\s@/]+@)?([a-z0-9\-]+(?:\.[a-z0-9\-]+)+)(?::\S*|/\S*)?", re.IGNORECASE)


class Catcher:
    """One call, asked by every rule; what takes work is found when the first rule needs it."""

    def __init__(self, call: Call, script: Script | None, places: Places, segment: Parse) -> None:
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
        if rule.kind in ("path", "read", "domain") and self._call.cut:
            return True
        if rule.kind in ("path", "read") and self._may_miss_path(rule):
            return True
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

    def _may_miss_path(self, rule: Rule) -> bool:
        if rule.kind == "read" and self._call.kind == "change":
            return False
        sight = self._sight
        return not sight.whole or any(self._places.forbids_below(rule, folder) for folder in sight.unseen)

    def cannot_tell(self, rule: Rule) -> bool:
        """Whether only the running shell knows if this rule is meant: a program or its words are not there yet."""
        if self._script is None or rule.kind not in ("command", "glob", "path", "read", "domain"):
            return False
        if self._script.uncertain:
            return True
        if rule.kind not in ("command", "glob"):
            return False
        if rule.kind == "command":
            return may_be_command(rule.words, self._candidates)
        wanted = rule.pattern.split("*")[0].split("?")[0].casefold()
        lines = (" ".join(words).casefold().split(HOLE)[0] for words in self._candidates.open_lines)
        return any(line.startswith(wanted) or wanted.startswith(line) for line in lines)

    @cached_property
    def _candidates(self) -> Candidates:
        if self._script is None:
            return gather(no_parser(""), no_parser)
        return gather(self._script, self._segment)

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
        """Everything in the call that could be a path, as written; what is longer no system takes for one."""
        call = self._call
        if call.kind in ("read", "change"):
            return list(call.paths)
        found = dict.fromkeys((*call.texts, *self._candidates.words))
        whole = "".join(found)
        signs = [sign for sign in "=:$" if sign in whole]
        for word in list(found):
            if word[:1] in ("-", "@", "~") or (signs and any(sign in word for sign in signs)):
                found.update(dict.fromkeys(_inside(word)))
        return [path for path in found if path and len(path) <= MAX_CHARS]

    @cached_property
    def _folders(self) -> list[str]:
        """Where a relative path may begin: here, and wherever a `cd` in the command leads. One more than the bound is cut."""
        start = self._places.resolve("/", self._call.cwd) if self._call.cwd.startswith("/") else None
        folders = dict.fromkeys(folder for folder in (start, self._places.root) if folder)
        for place in dict.fromkeys(self._moves()):
            for folder in list(folders):
                if real := self._places.resolve(folder, place):
                    folders[real] = None
                if len(folders) > MAX_FOLDERS:
                    return list(folders)
        return list(folders) or ["/"]

    def _moves(self) -> Iterator[str]:
        """What a command says about where it, or the next one, runs."""
        for name in ("cd", "pushd", "git", "make", "tar", "env"):
            for words in self._candidates.named(name):
                places = words[:1] if name in ("cd", "pushd") else _after(words, "-C")
                yield from (_HOME.sub("~", place) for place in places)

    def _touches(self, rule: Rule) -> bool:
        if rule.kind == "read" and self._call.kind == "change":
            return False
        return self._places.forbids(rule, self._sight.reals)

    @cached_property
    def _sight(self) -> _Sight:
        """Where all of that leads, from wherever it may begin; a pattern is what it means now, too."""
        paths, resolve = self._paths, self._places.resolve
        whole = "".join(paths) if self._call.kind == "command" else ""
        magic = "*" in whole or "?" in whole or "[" in whole
        patterns = [path for path in paths if _is_pattern(path)] if magic else []
        found: dict[str, None] = {}
        unseen: dict[str, None] = {}
        folders = self._folders
        room = max(1, MAX_LOOKS // max(1, len(paths)))
        for folder in folders[: min(room, MAX_FOLDERS)]:
            meant: list[str] = []
            for path in patterns:
                expanded = self._places.filesystem.expand(folder, path)
                meant += expanded or ()
                if expanded is None:
                    unseen[resolve(folder, _fixed_part(path)) or "/"] = None
            written = [*paths, *meant]
            for path, real in zip(written, self._places.resolve_all(folder, written), strict=True):
                found[real or joined(folder, path)] = None
        return _Sight(list(found), list(unseen), len(folders) <= min(room, MAX_FOLDERS))


class _Sight(Struct, frozen=True):
    """Where the paths of a call lead; `unseen` are folders in which a pattern means more than was looked at."""

    reals: list[str]
    unseen: list[str]
    whole: bool
    """Whether every path was followed from every folder."""


def _is_pattern(path: str) -> bool:
    """A long text of several lines stood in quotes, so no shell takes it for one."""
    return _MAGIC.search(path) is not None and (len(path) <= 255 or "\n" not in path)


def _fixed_part(pattern: str) -> str:
    """The folder before the first sign of a pattern."""
    return _MAGIC.split(pattern, maxsplit=1)[0].rpartition("/")[0] or (
        "/" if pattern.startswith("/") else "."
    )


def _after(words: tuple[str, ...], option: str) -> list[str]:
    return [words[at + 1] for at, word in enumerate(words[:-1]) if word == option]


def _inside(word: str) -> Iterator[str]:
    """Paths that are a part of a word: `--file=a`, `-fa`, `@a`, `host:a`, `$HOME/a`."""
    if "://" in word:
        word = word.partition("://")[2]
        yield word
    if "$" in word or word[:1] == "~":
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
