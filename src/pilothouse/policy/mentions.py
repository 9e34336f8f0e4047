"""Finds the texts and the paths that a call mentions, and where each path leads, for rules that deny or ask."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from pilothouse.core.call import Call
from pilothouse.policy.commands import Command, Commands
from pilothouse.policy.paths import MAX_CHARS, WorkspacePaths, joined, paths_in

_HOME = re.compile(r"\$\{?HOME\}?")
_HERE = re.compile(r"\$\{?(?:OLD)?PWD\}?|^~[+\-](?=/|$)")
"""The folder before the last `cd` counts as this one: every folder that a `cd` leads to is searched."""
_WILD = re.compile(r"[?\[(][^/]*")
_UNSETTLED = re.compile(r"(?<!\$)\{[^{}]*(?:,|\.\.)|(?<!\$)\([^()]*\|[^()]*\)|^[^$]*/[^$:]*\$")
"""A word that a shell spells out: `src/{a,b}.py`, `src/(a|b).py`, `src/$x`."""
MAX_TEXTS = 1000
MAX_INPUT = 200_000
"""Characters of all texts together."""
MAX_FOLDERS = 64
"""Folders that a path may begin in, by all the ways that `cd` may go."""
MAX_LOOKS = 30_000
"""Paths that are followed, from all folders together."""


def find_texts(given: Any) -> tuple[list[str], bool]:
    """Return the texts of an input, and whether there are more of them."""
    found: list[str] = []
    pending, room = [given], MAX_INPUT
    while pending and len(found) < MAX_TEXTS and room >= 0:
        match pending.pop():
            case str() as text:
                found.append(text[:room])
                room -= len(text)
            case Mapping() as inner:
                pending.extend(inner.values())
            case list() as items:
                pending.extend(items)
            case _:
                pass
    return found, bool(pending) or room < 0


class MentionedPaths(Struct, frozen=True):
    """The paths of a call. A pattern may mean those in `maybe`, and others in the folders `unseen`."""

    reals: list[str]
    maybe: list[str]
    unseen: list[str]
    complete: bool
    """Every path was followed from every folder."""


def find_paths(
    call: Call, texts: Sequence[str], commands: Commands, places: WorkspacePaths
) -> MentionedPaths:
    """Follow every path of the call, and of the texts in its input, from every folder that it may begin in; expand patterns as of now."""
    written = _written_paths(call, [*texts, *commands.words])
    settled = [_HERE.sub(".", _HOME.sub("~", text)) for text in commands.dynamic]
    globs = dict.fromkeys((*commands.globs, *[path for path in settled if path.startswith("~/")]))
    spelled_out = [path for path in settled if _UNSETTLED.search(path)]
    reals: dict[str, None] = {}
    unseen: dict[str, None] = {}
    maybe: dict[str, None] = {}
    folders = _folders(call, commands, places)
    room = min(MAX_FOLDERS, max(1, MAX_LOOKS // max(1, len(written))))
    for folder in folders[:room]:
        meant: list[str] = []
        unclear = list(spelled_out)
        for path in globs:
            expanded = places.filesystem.expand(folder, path)
            meant += expanded or ()
            if expanded is None:
                unclear.append(path)
                wide = places.filesystem.expand(folder, _WILD.sub("*", path)) or ()
                maybe |= {real: None for one in wide if (real := places.resolve(folder, one))}
                unseen |= {"/": None} if "**" in path else {}
        unseen.update((places.resolve(folder, _fixed_part(path)) or "/", None) for path in unclear)
        for path in (*written, *meant):
            real = places.resolve(folder, path)
            reals[real or joined(folder, path)] = None
            if real is None and not path.startswith("~"):
                unseen["/"] = None  # a loop, or a path that means another file to each process
    return MentionedPaths(list(reals), list(maybe), list(unseen), len(folders) <= room)


def _folders(call: Call, commands: Commands, places: WorkspacePaths) -> list[str]:
    """Return the folders where a relative path may begin: here, and each that a `cd` leads to. One more than the bound is cut."""
    start = places.resolve("/", call.cwd) if call.cwd.startswith("/") else None
    folders = dict.fromkeys(folder for folder in (start, places.root) if folder)
    for place in dict.fromkeys(_moves(commands.found)):
        for folder in list(folders):
            if real := places.resolve(folder, place):
                folders[real] = None
            if len(folders) > MAX_FOLDERS:
                return list(folders)
    return list(folders) or ["/"]


def _written_paths(call: Call, words: list[str]) -> list[str]:
    """Everything in the call that could be a path, as written; no system accepts a longer one."""
    if call.kind in ("read", "change"):
        return list(call.paths)
    found = dict.fromkeys(words)
    whole = "".join(found)
    signs = [sign for sign in "=:$" if sign in whole]
    for word in list(found):
        if word[:1] in ("-", "@", "~") or (signs and any(sign in word for sign in signs)):
            found.update(dict.fromkeys(_inside(word)))
    return [path for path in found if path and len(path) <= MAX_CHARS]


def _inside(word: str) -> Iterator[str]:
    """Paths that are a part of a word: `--file=a`, `-fa`, `@a`, `host:a`, `$HOME/a`."""
    if "://" in word:
        word = word.partition("://")[2]
        yield word
    if "$" in word or word[:1] == "~":
        word = _HERE.sub(".", _HOME.sub("~", word))
        yield word
    yield from paths_in(word)


def _moves(commands: list[Command]) -> Iterator[str]:
    """The folders that commands say they, or the next ones, run in."""
    for command in commands:
        if command.name in ("cd", "pushd"):
            yield from (_HOME.sub("~", text) for text in command.texts[1:2])
        elif command.name in ("git", "make", "tar", "env"):
            for option, place in zip(command.texts, command.texts[1:], strict=False):
                if option == "-C":
                    yield _HOME.sub("~", place)


def _fixed_part(pattern: str) -> str:
    """The folder before the first character that a shell expands."""
    head = re.split(r"[*?\[{($]", pattern, maxsplit=1)[0]
    return head.rpartition("/")[0] or ("/" if pattern.startswith("/") else ".")
