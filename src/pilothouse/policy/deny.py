"""Matches rules that deny or ask against a call.

A rule about commands is matched against every command of the parse tree, through launchers such as `sudo` and `bash -c`
(`commands.py`). A rule about paths is matched against every word, by where it leads. Where the text does not tell what
will run, `may_match` says so, and a person is asked.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache

from pilothouse.core.call import Call, host_of
from pilothouse.core.policy import Rule, matches_glob
from pilothouse.policy.commands import Command, Commands, find_commands
from pilothouse.policy.mentions import MentionedPaths, find_paths, find_texts
from pilothouse.policy.paths import WorkspacePaths
from pilothouse.policy.programs import is_another_program
from pilothouse.policy.script import Script

_LONG = {"o": "output", "f": "force", "r": "recursive", "i": "in-place", "d": "delete", "a": "all"}
"""The long name of a letter in nearly every program that has it."""
_ADDRESS = re.compile(r"[a-z][a-z0-9+.\-]{0,20}://[^\s\"'`<>()]+", re.IGNORECASE)
_HOST = re.compile(r"(?:[^\s@/]+@)?([a-z0-9\-]+(?:\.[a-z0-9\-]+)+)(?::\S*|/\S*)?", re.IGNORECASE)
RUN_TIME = "The command is put together at run time"
UNRELIABLE = "The command cannot be read reliably"
TOO_LONG = "The input is too long to check"
TOO_MANY = "The command names too many files and folders to check"
PATTERN = "The command names files by a pattern"
MAX_LINES = 1000
"""Commands that a `glob` rule is matched against."""


class DenyMatcher:
    """Matches one call against any number of rules. Work is done when the first rule needs it."""

    def __init__(self, call: Call, script: Script | None, places: WorkspacePaths) -> None:
        self._call = call
        self._script = script
        self._places = places

    def matches(self, rule: Rule) -> bool:
        """Tell whether the rule applies for sure."""
        call = self._call
        match rule.kind:
            case "tool":
                return matches_glob(rule.pattern, call.tool, case=False)
            case "command":
                return any(is_command(rule.words, command) for command in self._commands.found)
            case "glob":
                return any(matches_glob(rule.pattern, line, case=False) for line in self._lines)
            case "domain":
                return any(_is_host(rule.pattern, host) for host in self._hosts)
            case "mcp":
                named = zip((*rule.words, "*"), (call.server, call.server_tool), strict=False)
                return call.kind == "mcp" and all(matches_glob(*pair, case=False) for pair in named)
            case "skill":
                return call.kind == "skill" and matches_glob(rule.pattern, call.skill, case=False)
            case "path" | "read":
                return self._is_meant(rule) and self._places.forbids(rule, self._paths.reals)

    def named_below(self, folders: Sequence[str]) -> str:
        """Return a path of the call that leads, or may lead, into one of `folders` and not into a workspace below; empty if there is none.

        A pattern that may mean anything counts only where the text has the folder's name."""
        paths, text = self._paths, self._call.command
        inside = tuple(folder.rstrip("/") + "/" for folder in folders)
        outside = tuple(root + "/" for root in self._places.roots if root.startswith(inside))
        named = [
            real for real in (*paths.reals, *paths.maybe, *paths.unseen) if (real + "/").startswith(inside)
        ]
        for folder in folders:
            above = [seen for seen in paths.unseen if folder.startswith(seen.rstrip("/") + "/")]
            named += [folder for seen in above if seen != "/" or folder.rpartition("/")[2] in text]
        return next((real for real in named if not (real + "/").startswith(outside)), "")

    def doubt(self, rule: Rule) -> str:
        """Say why the rule might apply, although no plain word says so; empty if it does not."""
        match rule.kind:
            case "command":
                may = any(may_be_command(rule.words, command) for command in self._commands.found)
                return self._unreliable or (RUN_TIME if may or self._commands.opaque else "")
            case "glob":
                may = self._commands.opaque or self._may_be_line(rule.pattern)
                return self._unreliable or (RUN_TIME if may else "")
            case "path" | "read":
                return self._doubt_path(rule) if self._is_meant(rule) else ""
            case "domain":
                return TOO_LONG if self._input[1] else self._unreliable
            case _:
                return ""

    def _is_meant(self, rule: Rule) -> bool:
        return rule.kind == "path" or self._call.kind != "change"

    @property
    def _unreliable(self) -> str:
        return UNRELIABLE if self._script is not None and self._script.uncertain else ""

    @cached_property
    def _commands(self) -> Commands:
        return Commands() if self._script is None else find_commands(self._script)

    @cached_property
    def _input(self) -> tuple[list[str], bool]:
        return find_texts(self._call.input)

    @cached_property
    def _lines(self) -> list[str]:
        """The whole text as one line, and every command in it."""
        if self._call.kind != "command":
            return []
        lines = [" ".join(self._call.command.split())]
        for command in self._commands.found[:MAX_LINES]:
            lines += [" ".join(command.texts), shlex.join(command.texts)]
        return list(dict.fromkeys(lines))

    def _may_be_line(self, pattern: str) -> bool:
        if len(self._commands.found) > MAX_LINES:
            return True
        fixed = re.split(r"[*?]", pattern, maxsplit=1)[0].strip().casefold()
        for command in self._commands.found:
            if fixed and not command.is_known and fixed in command.around.casefold():
                return True
            if command.dynamic_at is not None:
                start = " ".join(command.texts[: command.dynamic_at]).casefold()
                if start.startswith(fixed) or fixed.startswith(start):
                    return True
        return False

    @cached_property
    def _hosts(self) -> list[str]:
        call = self._call
        texts = [call.command, *self._input[0], *self._commands.words] if call.kind != "web" else []
        found = [host_of(url) for text in texts for url in _ADDRESS.findall(text)]
        found += [match[1].lower() for text in texts if (match := _HOST.fullmatch(text))]
        return [host for host in (call.host, *found) if host]

    def _doubt_path(self, rule: Rule) -> str:
        if self._input[1]:
            return TOO_LONG
        if self._unreliable:
            return self._unreliable
        if not self._paths.complete:
            return TOO_MANY
        name = re.split(r"[/*?~]", rule.pattern.rstrip("/*?"))[-1].casefold()
        if self._commands.opaque and name in self._call.command.casefold():
            return RUN_TIME
        unseen = any(self._places.forbids_below(rule, folder) for folder in self._paths.unseen)
        return PATTERN if unseen or self._places.forbids(rule, self._paths.maybe) else ""

    @cached_property
    def _paths(self) -> MentionedPaths:
        return find_paths(self._call, self._input[0], self._commands, self._places)


def _is_host(pattern: str, host: str) -> bool:
    """Tell whether the host is the pattern's, or below it."""
    name = pattern.removeprefix("*.")
    return host == name or host.endswith("." + name)


@lru_cache(maxsize=1024)
def _rule_name(rule: tuple[str, ...]) -> str:
    first = rule[0].casefold()
    return first.rpartition("/")[2] or first


def is_command(rule: tuple[str, ...], command: Command) -> bool:
    """Tell whether a command is what a rule names: its program, then its words in order, options between them."""
    if command.texts[0] != _rule_name(rule):
        return False
    words = [text.casefold() for text in command.texts[1:]]
    options, plain = _split_rule(rule)
    return all(_has_option(option, words) for option in options) and _follow(plain, words, dynamic=False)


def may_be_command(rule: tuple[str, ...], command: Command) -> bool:
    """Tell whether a command may become what a rule names, or run it."""
    name = _rule_name(rule)
    if not command.is_known and _mentions(rule, command.around):
        return True
    if command.texts[0] != name:
        return False
    if len(rule) > 1 and is_another_program(command.texts, rule):
        return True
    words = command.small
    if "\0" not in words:
        return False
    options, plain = _split_rule(rule)
    if not all(_has_option(option, words) or "\0" in words for option in options):
        return False
    return _follow(plain, words, dynamic=True)


def _mentions(rule: tuple[str, ...], text: str) -> bool:
    """Tell whether every word of a rule stands somewhere in a text, its program as a whole word."""
    small = text.casefold()
    name = _rule_name(rule)
    if name not in small or not all(word.casefold() in small for word in rule[1:] if word[:1] != "-"):
        return False
    return re.search(rf"(?<![\w.\-]){re.escape(name)}(?![\w.\-])", small) is not None


@lru_cache(maxsize=1024)
def _split_rule(rule: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    rest = [word.casefold() for word in rule[1:]]
    options = tuple(word for word in rest if word.startswith("-") and word != "-")
    return options, tuple(word for word in rest if word not in options)


def _has_option(option: str, words: Sequence[str]) -> bool:
    """`-rf` is `-fr`, and `-r` and `-f` apart; `-exec` may be one option, so as it stands it counts first."""
    if any(_is_option(option, word) for word in words):
        return True
    if not re.fullmatch(r"-[a-z]{2,}", option):
        return False
    return all(any(_is_option(f"-{letter}", word) for word in words) for letter in option[1:])


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


def _follow(rule: Sequence[str], words: Sequence[str], *, dynamic: bool) -> bool:
    """Tell whether the words of a rule stand in order, with only options between them, each perhaps with a value.

    With `dynamic`, a word that is not known yet (`\\0`) may be any number of words."""
    reached = {0}
    for wanted in rule:
        after: set[int] = set()
        for start in reached:
            for at in _reachable(words, start):
                if dynamic and words[at] == "\0":
                    return True
                if words[at] == wanted:
                    after.add(at + 1)
        reached = after
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
