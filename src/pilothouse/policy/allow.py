"""Checks whether mode and rules allow a command, segment by segment, and follows `cd` through the chain.

Strict: every segment must be known to be harmless, or be named by an allow rule. Everything else becomes a `Gap`, with
the reason and, where there is one, the rule that would allow it.
"""

from __future__ import annotations

import shlex
import unicodedata
from collections.abc import Iterable, Sequence

from msgspec import Struct

from pilothouse.core.rules import Rule, matches_glob
from pilothouse.policy.edit import AWKS, edit_only
from pilothouse.policy.filesystem import joined
from pilothouse.policy.offers import exact_rule, path_rule, remember_command
from pilothouse.policy.options import is_another_program
from pilothouse.policy.paths import NOWHERE, WorkspacePaths
from pilothouse.policy.reader_table import READERS
from pilothouse.policy.readers import NO_GLOB, Reads, Unknown, read_only
from pilothouse.policy.script import Chain, Node, Pipe, Redirect, Script, Segment, Subshell, Word

MAX_FOLDERS = 8
"""Folders that a chain of `cd … ||` may end up in."""

_ALIKE = str.maketrans(
    "аеорсухіјѕԁһӏԛԝαορνικτυΑΒΕΖΗΙΚΜΝΟΡΤΥΧАВЕКМНОРСТХЅІЈɡɑℓ‐‑‒–—−﹣－",
    "aeopcyxijsdhlqwaopviktuABEZHIKMNOPTYXABEKMHOPCTXSIJgal--------",
)

Folders = frozenset[str]


class Gap(Struct, frozen=True):
    """A part of a call that is not allowed yet. `rules` would allow it; empty if no rule may be saved for it."""

    why: str
    rules: tuple[Rule, ...] = ()


class Walk:
    """Walks one script once. `gaps` is empty when all of it may run."""

    def __init__(self, places: WorkspacePaths, rules: Sequence[Rule], mode: str) -> None:
        self._places = places
        self._mode = mode
        self._commands = [rule for rule in rules if rule.kind in ("command", "glob")]
        self._readable = [rule for rule in rules if rule.kind in ("path", "read")]
        self._changeable = [rule for rule in rules if rule.kind == "path"]
        self._forbidding: Sequence[Rule] = ()
        self._linked: set[str] = set()
        self._git_dirs: dict[str, bool] = {}
        self._walked: set[tuple[Segment, Folders]] = set()
        self.gaps: list[Gap] = []
        self.used: dict[Rule, None] = {}

    def walk(self, script: Script, cwd: str, forbidding: Sequence[Rule] = ()) -> None:
        """`forbidding` holds deny and ask rules about paths: a command that reads a whole folder must not cover them."""
        self._forbidding = forbidding
        here = self._places.resolve("/", cwd) if cwd.startswith("/") else None
        if here is None or not self._places.is_inside(here):
            self.gaps.append(Gap("runs outside the workspace"))
            return
        if here != cwd.rstrip("/"):
            self._linked.add(here)
        self._node(script.body, frozenset({here}))

    def _node(self, node: Node, folders: Folders) -> tuple[Folders, Folders]:
        """Return the folders that the shell may be in after success, and after failure."""
        match node:
            case Segment() as segment:
                return self._segment(segment, folders)
            case Pipe(parts=parts):
                for part in parts:
                    self._node(part, folders)
            case Subshell(body=body, redirects=redirects):
                self._node(body, folders)
                self._redirects(redirects, folders)
            case Chain(items=items):
                return self._chain(items, folders)
        return folders, folders

    def _chain(self, items: Sequence[tuple[str, Node]], folders: Folders) -> tuple[Folders, Folders]:
        good, bad = folders, folders
        for joint, node in items:
            if joint == "&&":
                better, worse = self._node(node, good)
                good, bad = better, bad if worse is bad else bad | worse
            elif joint == "||":
                better, worse = self._node(node, bad)
                good, bad = good | better, worse
            else:
                good, bad = self._node(node, good | bad)
            if good is not bad and len(good | bad) > MAX_FOLDERS:
                self.gaps.append(Gap("changes folders in too many ways"))
                return folders, folders
        return good, bad

    def _segment(self, segment: Segment, folders: Folders) -> tuple[Folders, Folders]:
        if (segment, folders) in self._walked:
            return folders, folders
        self._redirects(segment.redirects, folders)
        if segment.assignments:
            self.gaps.append(Gap("sets a variable"))
        if segment.name == "cd":
            return self._cd(segment, folders)
        self._walked.add((segment, folders))
        if any(map(_is_alike, [text for text in segment.texts if not text.isascii()])):
            self.gaps.append(Gap("contains letters that look like ASCII letters"))
        elif segment.words:
            self._command(segment, folders)
        elif not segment.redirects:
            self.gaps.append(Gap("contains no command"))
        return folders, folders

    def _command(self, segment: Segment, folders: Folders) -> None:
        rule = self._allowing(segment, folders)
        if rule is not None:
            self.used[rule] = None
            return
        found = read_only(segment)
        if isinstance(found, Unknown) and self._mode == "trusted":
            self._edit(segment, found, folders)
        elif isinstance(found, Unknown):
            self.gaps.append(Gap(found.why, self._to_remember(segment, found)))
        else:
            self._read(found, folders)

    def _allowing(self, segment: Segment, folders: Folders) -> Rule | None:
        forms = {word.form for word in segment.words}
        if "dynamic" in forms:
            return None
        if "glob" in forms and any(word.form == "glob" and word.text[0] in "*?[" for word in segment.words):
            return None
        texts, line = segment.texts, ""
        for rule in self._commands if self._is_same_program(texts[0], folders) else ():
            if rule.kind == "glob":
                line = line or shlex.join(texts)
                if matches_glob(rule.pattern, line):
                    return rule
            elif texts[: len(rule.words)] == rule.words and not is_another_program(texts, rule.words):
                return rule
        return None

    def _is_same_program(self, name: str, folders: Folders) -> bool:
        """A relative program such as `./run` counts only in the root of the workspace."""
        return "/" not in name or name.startswith("/") or folders == {self._places.root}

    def _to_remember(self, segment: Segment, found: Unknown) -> tuple[Rule, ...]:
        if found.why == NO_GLOB or any(word.form != "plain" for word in segment.words):
            return ()
        if not found.program or segment.name in READERS:
            return exact_rule(segment.texts)
        return remember_command(segment.texts)

    def _edit(self, segment: Segment, found: Unknown, folders: Folders) -> None:
        edits = edit_only(segment)
        if isinstance(edits, Unknown):
            known = segment.name == "sed" or segment.name in AWKS
            reason = edits if known else found
            self.gaps.append(Gap(reason.why, self._to_remember(segment, reason)))
            return
        for word in edits.reads:
            self._read_path(word, folders, deep=False)
        for word in edits.changes:
            self._change_path(word, folders)

    def _read(self, reads: Reads, folders: Folders) -> None:
        for word in reads.paths:
            self._read_path(word, folders, deep=reads.deep)
        if reads.deep and (reads.git or not reads.paths):
            for folder in self._places.roots if reads.git else folders:
                self._check_below(folder)
        if reads.git and any(self._is_in_git_dir(folder) for folder in self._git_folders(reads, folders)):
            self.gaps.append(Gap("runs git in a folder that looks like a git directory"))

    def _git_folders(self, reads: Reads, folders: Folders) -> Iterable[str]:
        yield from folders
        for word in reads.paths:
            for folder in folders:
                if real := self._places.resolve(folder, word.text):
                    yield real

    def _is_in_git_dir(self, folder: str) -> bool:
        """Check the folder and its parents, as git does. The workspace's own `.git` does not count."""
        while self._places.is_inside(folder):
            if folder not in self._git_dirs:
                self._git_dirs[folder] = self._places.filesystem.is_git_dir(folder)
            if self._git_dirs[folder]:
                return True
            if folder == "/":
                break
            folder = folder.rpartition("/")[0] or "/"
        return False

    def _read_path(self, word: Word, folders: Folders, *, deep: bool) -> None:
        if word.text in ("-", *NOWHERE):
            return
        for folder in folders:
            paths = self._places.expand(folder, word)
            if paths is None:
                self.gaps.append(Gap(f"cannot tell which files {word.text} means"))
                return
            for path in paths:
                self._read_real(path, self._places.resolve(folder, path), deep=deep)

    def _read_real(self, path: str, real: str | None, *, deep: bool) -> None:
        if real is None:
            self.gaps.append(Gap(f"cannot resolve the path {path}"))
        elif self._places.is_inside(real):
            if deep:
                self._check_below(real)
        elif rule := self._places.allowed_by(self._readable, real, deep=deep):
            self.used[rule] = None
        else:
            self.gaps.append(Gap(f"reads outside the workspace: {real}", path_rule("read", real, deep=deep)))

    def _check_below(self, folder: str) -> None:
        for rule in self._forbidding:
            if self._places.forbids_below(rule, folder):
                self.gaps.append(Gap(f"may read files that a rule is about: `{rule}`"))
                return

    def _redirects(self, redirects: Iterable[Redirect], folders: Folders) -> None:
        for redirect in redirects:
            if redirect.target is None or redirect.target.text in NOWHERE:
                continue
            if redirect.changes:
                self._change_path(redirect.target, folders)
            elif redirect.op == "<":
                self._read_path(redirect.target, folders, deep=False)

    def _change_path(self, word: Word, folders: Folders) -> None:
        if word.form == "glob":
            self.gaps.append(Gap(f"cannot tell which file {word.text} means"))
            return
        for folder in folders:
            real = self._places.resolve(folder, word.text)
            if real is None:
                self.gaps.append(Gap(f"cannot resolve the path {word.text}"))
            elif rule := self._places.allowed_by(self._changeable, real):
                self.used[rule] = None
            elif (
                self._mode != "trusted" or not self._places.is_inside(real) or self._places.is_protected(real)
            ):
                shown = self._places.shown(real)
                self.gaps.append(Gap(f"writes to a file: {shown}", path_rule("path", shown)))

    def _cd(self, segment: Segment, folders: Folders) -> tuple[Folders, Folders]:
        words = segment.words
        if len(words) != 2 or words[1].form != "plain" or words[1].text.startswith("-") or not words[1].text:
            self.gaps.append(Gap("cannot tell where cd leads"))
            return folders, folders
        reached = {self._step(folder, words[1].text) for folder in folders}
        found = frozenset(place for place in reached if place is not None)
        if len(found) < len(reached):
            self.gaps.append(Gap(f"cd {words[1].text} leaves the workspace"))
        return found or folders, folders

    def _step(self, folder: str, path: str) -> str | None:
        """Return where `cd` leads; None if out of the workspace, or if shells may disagree about it."""
        parts = [part for part in path.split("/") if part not in ("", ".")]
        upward = ".." in parts
        if upward and (folder in self._linked or ".." in parts[len([p for p in parts if p == ".."]) :]):
            return None
        real = self._places.resolve(folder, path)
        if real is None or not self._places.is_inside(real):
            return None
        if joined(folder, path) != real:
            if upward:
                return None
            self._linked.add(real)
        return real


def _is_alike(text: str) -> bool:
    """Tell whether a word looks like plain ASCII: look-alike or wide letters, dashes that are not hyphens."""
    if text.isascii() or any(char.isspace() for char in text):
        return False
    return unicodedata.normalize("NFKC", text.translate(_ALIKE)).isascii()
