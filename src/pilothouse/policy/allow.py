"""Checks whether mode and rules allow a command, segment by segment, and follows `cd` through the chain.

Strict: every segment must be known to be harmless, or be named by an allow rule. Everything else becomes a `Gap`, with
the reason and, where there is one, the rule that would allow it: "for this session" and "always" save that rule. About a
command it is the very command that was shown, with its options and paths; what runs another program or a text, and what
cannot be taken back, is never offered.
"""

from __future__ import annotations

import os
import re
import shlex
import unicodedata
from collections.abc import Iterable, Sequence

from msgspec import Struct

from pilothouse.core.errors import ConfigError
from pilothouse.core.policy import MAX_CHARS, Rule, RuleKind, matches_glob, parse_rule
from pilothouse.policy.commands import runs_file
from pilothouse.policy.paths import NOWHERE, WorkspacePaths, joined, paths_in
from pilothouse.policy.programs import (
    INTERPRETERS,
    NEVER_REMEMBERED,
    NO_RETURN,
    REMOVERS,
    REMOVES_UNNAMED,
    is_another_program,
    plain_name,
)
from pilothouse.policy.reader_table import ANY_OPTION, MANY, READERS, Reads, Unknown
from pilothouse.policy.readers import read_only
from pilothouse.policy.script import Group, Items, Redirect, Script, Segment, Word

HELD = "the jail holds it: it reaches only its model and servers, and changes nothing beyond the workspace"
MAX_FOLDERS = 8
"""Folders that a chain of `cd … ||` may end up in."""
_TELLS_STATUS = frozenset({"echo", "printf", "test", "["})

Folders = frozenset[str]


class Gap(Struct, frozen=True):
    """A part of a call that is not allowed yet. `rules` would allow it; empty if no rule may be saved for it."""

    why: str
    rules: tuple[Rule, ...] = ()


class Walk:
    """Walks one script once. `gaps` is empty when all of it may run."""

    def __init__(
        self, places: WorkspacePaths, rules: Sequence[Rule], mode: str, forbidding: Sequence[Rule] = ()
    ) -> None:
        """`forbidding` holds deny and ask rules about paths: a command that reads a whole folder must not cover them."""
        self._places = places
        self._mode = mode
        self._commands = [rule for rule in rules if rule.kind in ("command", "glob")]
        self._readable = [rule for rule in rules if rule.kind in ("path", "read")]
        self._changeable = [rule for rule in rules if rule.kind == "path"]
        self._forbidding = forbidding
        self._linked = False
        self._walked: set[tuple[Segment, str]] = set()
        self._lists = self._changes = self._uses_git = False
        self.gaps: list[Gap] = []
        self.used: dict[Rule, None] = {}
        self.why = "only reads inside the workspace"
        self.held = False
        """A jail holds programs that are not known here."""

    def walk(self, script: Script, cwd: str) -> None:
        here = self._places.resolve("/", cwd) if cwd.startswith("/") else None
        if here is None or not self._places.is_inside(here):
            self._gap("runs outside the workspace")
            return
        self._linked = here != cwd.rstrip("/")
        if not script.items:
            self._gap("contains no command")
        self._chain(script.items, frozenset({here}))
        if self._changes and (self._lists or self._uses_git) and not self.held:
            self._gap("writes files that it may then execute")

    def _gap(self, why: str, rules: tuple[Rule, ...] = ()) -> None:
        self.gaps.append(Gap(why, rules))

    def _chain(self, items: Items, folders: Folders) -> None:
        """Follow the folders that the shell may be in after success (`good`) and after failure (`bad`)."""
        good = bad = start = folders
        for at, (joint, item) in enumerate(items):
            piped = joint == "|" or (at + 1 < len(items) and items[at + 1][0] == "|")
            if joint != "|":
                start = good if joint == "&&" else bad if joint == "||" else good | bad
            if isinstance(item, Segment) and item.name == "cd" and not piped:
                self._redirects(item.redirects, start)
                better, worse = self._cd(item, start), start
            else:
                self._item(item, start)
                better, worse = start, start
            if joint == "|":
                continue
            after = {"&&": (better, bad | worse), "||": (good | better, worse)}
            good, bad = after.get(joint, (better, worse))
            if len(good | bad) > MAX_FOLDERS:
                self._gap("changes folders in too many ways")
                return

    def _item(self, item: Segment | Group, folders: Folders) -> None:
        self._redirects(item.redirects, folders)
        if isinstance(item, Group):
            self._chain(item.items, folders)
        elif item.name == "cd":
            self._gap("changes the folder inside of a pipe")
        elif item.words:
            for folder in sorted(folders):
                if (item, folder) not in self._walked:
                    self._walked.add((item, folder))
                    self._command(item, folder)

    def _command(self, segment: Segment, folder: str) -> None:
        texts = self._expanded(segment, folder)
        if texts is None:
            return
        if rule := self._allowing(texts, folder):
            self.used[rule] = None
            return
        found = read_only(texts)
        if isinstance(found, Unknown) and self.held and self._runs_held(texts, folder):
            self.why = HELD
        elif isinstance(found, Unknown):
            plain = all(word.form == "plain" for word in segment.words) and folder == self._places.root
            self._gap(found.why, remember_command(texts) if plain else ())
        else:
            self._read(found, folder)

    def _expanded(self, segment: Segment, folder: str) -> tuple[str, ...] | None:
        """Return the words that the program gets: patterns are expanded as of now."""
        texts: list[str] = []
        for word in segment.words:
            if not word.text.isascii() and _is_alike(word.text):
                self._gap("contains letters that look like ASCII letters")
                return None
            if word.form in ("plain", "home"):
                texts.append(word.text)
            elif word.form == "status" and segment.name in _TELLS_STATUS:
                texts.append(word.text.replace("$?", "0"))
            elif word.form == "glob" and (found := self._matches(segment.name, word.text, folder)):
                texts += found
            else:
                self._gap(f"cannot tell which files {word.text} means")
                return None
        return tuple(texts)

    def _matches(self, name: str, pattern: str, folder: str) -> Sequence[str] | None:
        """Expand a pattern as of now. One that may become an option, or anything, is for harmless programs alone."""
        found = self._places.filesystem.expand(folder, pattern)
        reader = READERS.get(name)
        if found is None or any(text.startswith("-") for text in found) or (reader and reader.most < MANY):
            return None
        if pattern.startswith("*"):
            self._lists = True
        elif found:
            return found
        return (found or (pattern,)) if name in ANY_OPTION else None

    def _allowing(self, texts: tuple[str, ...], folder: str) -> Rule | None:
        """Return the rule that names the command, and every word of it that leads out of the workspace.

        `./run` is another program in each folder, and so is the very command that a person saw in the workspace's folder."""
        at_root, line = folder == self._places.root, shlex.join(texts)
        if "/" in texts[0] and not texts[0].startswith("/") and not at_root:
            return None
        for rule in self._commands:
            if rule.kind == "glob":
                fits = matches_glob(rule.pattern, line) and (at_root or rule.pattern != line)
                named = texts if rule.pattern == line else tuple(rule.pattern.split())
            else:
                fits = texts[: len(rule.words)] == rule.words and not is_another_program(texts, rule.words)
                named = rule.words
            known = named if at_root else ()
            if fits and all(text in known or self._stays_inside(text, folder) for text in texts[1:]):
                return rule
        return None

    def _stays_inside(self, text: str, folder: str) -> bool:
        """Tell whether a word, if it is a path, leads to an unprotected file of the workspace."""
        if "://" in text or "@" in text.partition(":")[0] * (":" in text):
            return False
        reals = [self._places.resolve(folder, path) for path in (text, *paths_in(text))]
        return all(
            real and (self._places.may_change(real) or self._places.allowed_by(self._changeable, real))
            for real in reals
        )

    def _runs_held(self, texts: tuple[str, ...], folder: str) -> bool:
        """Tell whether the jail holds a program that is not known: no word of it leads out of the workspace or to a file that other
        tools execute, no rule is about files that it could read, and it does not remove the workspace or what no word names."""
        places, names = self._places, set(map(plain_name, texts))
        if any(places.rule_below(self._forbidding, root) for root in places.roots):
            return False
        if any(words <= names for words in REMOVES_UNNAMED):
            return False
        whole = any(places.resolve(folder, text) in places.roots for text in texts[1:])
        return not (whole and names & REMOVERS) and all(
            self._stays_inside(text, folder) for text in texts[1:]
        )

    def _read(self, reads: Reads, folder: str) -> None:
        for text in reads.paths:
            self._read_path(text, folder, deep=reads.deep, files=reads.files)
        for text in reads.changes:
            self._change_path(text, folder)
        if reads.git:
            self._check_git(reads, folder)
        elif reads.deep and not reads.paths:
            self._check_below(folder)

    def _check_git(self, reads: Reads, folder: str) -> None:
        """git obeys the settings of a repository, and may tell all that is in it."""
        self._uses_git = True
        reals = [self._places.resolve(folder, path) for path in (reads.git, *reads.paths)]
        if any(map(self._places.is_in_git_dir, [folder, *filter(None, reals)])):
            self._gap("runs git in a folder that looks like a git directory")
        if self._places.git_problem and (why := self._places.git_problem(reals[0] or folder)):
            self._gap(f"runs git in an untrusted repository that {why}")
        if reads.deep:
            if reals[0] is None or not self._places.has_repository(reals[0]):
                self._gap("shows contents of a repository that begins outside the workspace")
            for root in self._places.roots:
                self._check_below(root)

    def _read_path(self, path: str, folder: str, *, deep: bool = False, files: bool = False) -> None:
        if path in ("-", *NOWHERE):
            return
        real = self._places.resolve(folder, path)
        if real is None:
            self._gap(f"cannot resolve the path {path}")
        elif files and os.path.isdir(real):
            self._gap(f"compares a folder: {path}")
        elif self._places.is_inside(real):
            if deep:
                self._check_below(real)
        elif rule := self._places.allowed_by(self._readable, real, deep=deep):
            self.used[rule] = None
        else:
            self._gap(f"reads outside the workspace: {real}", path_rule("read", real, deep=deep))

    def _check_below(self, folder: str) -> None:
        if rule := self._places.rule_below(self._forbidding, folder):
            self._gap(f"may read files that this rule is about: `{rule}`")

    def _redirects(self, redirects: Iterable[Redirect], folders: Folders) -> None:
        for redirect in redirects:
            target = redirect.target
            if target is None or target.text in NOWHERE:
                continue
            if target.form not in ("plain", "home"):
                self._gap(f"cannot tell which file {target.text} means")
                continue
            for folder in folders:
                if redirect.changes:
                    self._change_path(target.text, folder)
                else:
                    self._read_path(target.text, folder)

    def _change_path(self, path: str, folder: str) -> None:
        self._changes = True
        real = self._places.resolve(folder, path)
        if real is None:
            self._gap(f"cannot resolve the path {path}")
        elif rule := self._places.allowed_by(self._changeable, real):
            self.used[rule] = None
        elif self._mode != "trusted" or not self._places.may_change(real):
            shown = self._places.shown(real)
            offered = () if self._places.is_protected(real) else path_rule("path", shown)
            self._gap(f"writes to a file: {shown}", offered)

    def _cd(self, segment: Segment, folders: Folders) -> Folders:
        words = segment.words
        if len(words) != 2 or words[1].form != "plain" or words[1].text[:1] in ("", "-", "+", "="):
            self._gap("cannot tell where cd leads")
            return folders
        reached = {self._step(folder, words[1].text) for folder in folders}
        found = frozenset(place for place in reached if place is not None)
        if len(found) < len(reached):
            self._gap(f"cd {words[1].text} leaves the workspace, or follows a link")
        return found or folders

    def _step(self, folder: str, path: str) -> str | None:
        """Return where `cd` leads; None if out of the workspace, or through a link, about which shells disagree."""
        real = self._places.resolve(folder, path)
        if real is None or not self._places.is_inside(real) or joined(folder, path) != real:
            return None
        return None if self._linked and ".." in path.split("/") else real


def _is_alike(text: str) -> bool:
    """Tell whether a word looks like plain ASCII: wide letters, or dashes that are not hyphens."""
    if any(unicodedata.category(char) == "Pd" and char != "-" for char in text) and " " not in text:
        return True
    return unicodedata.normalize("NFKC", text).isascii() and not any(map(str.isspace, text))


def remember_command(texts: Sequence[str]) -> tuple[Rule, ...]:
    """Return the rule for a command; none if the command may only be allowed once."""
    name = plain_name(texts[0])
    if name in NEVER_REMEMBERED or "=" in texts[0] or not NO_RETURN.get(name, frozenset()).isdisjoint(texts):
        return ()
    if name in INTERPRETERS and not runs_file(tuple(map(Word, texts))):
        return ()
    line = shlex.join(texts)
    return () if re.search(r"[*?]", line) else _checked("glob", line)


def path_rule(kind: RuleKind, path: str, *, deep: bool = False) -> tuple[Rule, ...]:
    if re.search(r"[*?]", path):
        return ()
    return _checked(kind, shlex.quote(path.rstrip("/") + "/**" if deep else path))


def name_rule(kind: RuleKind, *names: str) -> tuple[Rule, ...]:
    """Return a rule for a tool, server, skill or domain; none if its name would be read as a pattern."""
    if any(re.search(r"[*?]", name) or not name for name in names):
        return ()
    return _checked(kind, shlex.join(names))


def _checked(kind: RuleKind, what: str) -> tuple[Rule, ...]:
    """Return the rule only if it fits on a line and survives being read again."""
    line = f"allow {kind} {what}"
    if len(line) > MAX_CHARS or not line.isprintable():
        return ()
    try:
        rule = parse_rule(line)
    except ConfigError:
        return ()
    return (rule,) if str(parse_rule(str(rule))) == str(rule) else ()
