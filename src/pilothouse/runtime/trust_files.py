"""The content that a person trusts in a folder: settings, hooks and servers of engines, and the programs that these name.

Every file is known by its SHA-256, so a later change is noticed and can be shown. The look is bounded: it opens plain
files inside the folder only, reads at most `ALL_BYTES`, and visits at most `MAX_FILES`. Of a larger file, size, inode and
time of change count; of a link that leads out, the place it leads to.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from difflib import unified_diff
from hashlib import sha256
from itertools import islice
from typing import Any, Literal

from msgspec import Struct

from pilothouse.core.engine import TrustedFile

MAX_FILES = 2_000
FILE_BYTES = 1_000_000
ALL_BYTES = 16_000_000
TEXT_CHARS = 8_000
"""Longer files are kept without their text, so a change is named and not shown."""
ALL_TEXT_CHARS = 200_000
MAX_WORDS = 1_000
DIFF_LINES = 12

_STARTS = re.compile(r"command|args|cmd|notify|\w+(Helper|Refresh|Export)")
"""Keys of settings whose value is a program that runs, or its arguments."""
_QUOTES = str.maketrans("", "", "\"'")
_BREAKS = re.compile(r"[\s`;|&()<>=]+")
_HERE = re.compile(r"^(\$\{?[A-Z_]*PROJECT_DIR\}?/|\./)+")


class SeenFile(Struct, frozen=True, omit_defaults=True):
    mark: str
    """The SHA-256 of its content, or what else it is known by."""
    text: str = ""
    named_in: str = ""
    """The settings that start this file as a program."""


class TrustedContent(Struct, frozen=True):
    files: dict[str, SeenFile]
    whole: bool = True
    """False if there were more than `MAX_FILES`: such a folder cannot be trusted."""

    @property
    def digest(self) -> str:
        marks = sorted((path, seen.mark) for path, seen in self.files.items())
        return sha256(json.dumps(marks).encode()).hexdigest()


class Change(Struct, frozen=True):
    kind: Literal["added", "changed", "removed"]
    path: str
    lines: tuple[str, ...] = ()
    """The beginning of the difference, as lines that start with `+` or `-`."""

    def __str__(self) -> str:
        return f"{self.kind} {self.path}"


def read_content(folder: str, files: Iterable[TrustedFile]) -> TrustedContent:
    """Read the files that run or redirect something; `folder` is resolved already."""
    look = _Look(folder)
    look.visit([file.path for file in files if file.runs and has_section(folder, file)])
    for path, setting in list(look.named.items()):
        if _printed(path) not in look.files:
            look.visit([path], named_in=setting)
    return TrustedContent(look.files, look.visited <= MAX_FILES)


def has_section(folder: str, file: TrustedFile) -> bool:
    """Tell whether the file has the table that alone counts; a file that cannot be read as TOML counts."""
    if not file.section:
        return True
    try:
        with open(os.path.join(folder, file.path), "rb", opener=_open_plain) as held:
            return file.section in tomllib.loads(held.read(FILE_BYTES).decode())
    except FileNotFoundError:
        return False
    except (OSError, ValueError, RecursionError):
        return True


def _open_plain(name: str, flags: int) -> int:
    """Open without waiting for the writer of a pipe."""
    return os.open(name, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def compare(before: TrustedContent, now: TrustedContent) -> tuple[Change, ...]:
    return tuple(_compare(before.files, now.files))


def _compare(before: Mapping[str, SeenFile], now: Mapping[str, SeenFile]) -> Iterator[Change]:
    for path in sorted(before.keys() | now.keys()):
        old, new = before.get(path), now.get(path)
        if old is None:
            yield Change("added", path, _difference(None, new))
        elif new is None:
            yield Change("removed", path)
        elif old.mark != new.mark:
            yield Change("changed", path, _difference(old, new))


def _difference(old: SeenFile | None, new: SeenFile | None) -> tuple[str, ...]:
    """Return the first changed lines; none where the text of either was not kept."""
    if new is None or not new.text or (old is not None and not old.text):
        return ()
    before = old.text.splitlines() if old is not None else []
    lines = list(unified_diff(before, new.text.splitlines(), n=0, lineterm=""))[2:]
    shown = [line for line in lines if not line.startswith("@@")]
    more = (f"… {len(shown) - DIFF_LINES} more lines",) if len(shown) > DIFF_LINES else ()
    return (*shown[:DIFF_LINES], *more)


class _Look:
    """One look at a folder, with its bounds."""

    def __init__(self, folder: str) -> None:
        self.files: dict[str, SeenFile] = {}
        self.named: dict[str, str] = {}
        """Files that settings start as programs, each with the settings' path."""
        self.visited = 0
        self._folder = folder
        self._bytes = ALL_BYTES
        self._chars = ALL_TEXT_CHARS
        self._folders: set[str] = set()

    def visit(self, paths: Iterable[str], named_in: str = "") -> None:
        left = sorted(paths, reverse=True)
        while left and self.visited <= MAX_FILES:
            path = left.pop()
            self.visited += 1
            try:
                left += self._visit(path, named_in)
            except OSError as error:
                self._keep(path, SeenFile(f"unreadable: {error.strerror}"))

    def _keep(self, path: str, seen: SeenFile) -> None:
        self.files[_printed(path)] = seen

    def _visit(self, path: str, named_in: str) -> list[str]:
        """Note one file, or return what is in a folder. Sorted, so that the bounds fall on the same files each time."""
        full = os.path.join(self._folder, path)
        if not os.path.lexists(full):
            return []
        real = os.path.realpath(full)
        leads_to = "" if real == full else f"link to {_printed(real)}"
        is_inside = os.path.commonpath((real, self._folder)) == self._folder
        if not is_inside or not os.path.exists(real):
            self._keep(path, SeenFile(leads_to or "unreadable", named_in=named_in))
            return []
        found = os.stat(real)
        if not stat.S_ISDIR(found.st_mode):
            self._keep(path, self._note(path, real, found, leads_to, named_in))
            return []
        if leads_to:
            self._keep(path, SeenFile(leads_to))
        if real in self._folders:  # a link may lead back into a folder above it
            return []
        self._folders.add(real)
        with os.scandir(real) as entries:
            return sorted((f"{path}/{entry.name}" for entry in islice(entries, MAX_FILES + 1)), reverse=True)

    def _note(self, path: str, real: str, found: os.stat_result, leads_to: str, named_in: str) -> SeenFile:
        data = self._read(real, found)
        if data is None:
            known = f"size {found.st_size} inode {found.st_ino} changed {found.st_ctime_ns}"
            kind = known if stat.S_ISREG(found.st_mode) else "not a plain file"
            return SeenFile(f"{leads_to} {kind}".strip(), named_in=named_in)
        for name in self._named_programs(path, data) if not named_in else ():
            self.named.setdefault(name, path)
        mark = f"{leads_to} {sha256(data).hexdigest()}".strip()
        return SeenFile(mark, self._text(data), named_in)

    def _read(self, real: str, found: os.stat_result) -> bytes | None:
        """Return the content; None for a file that is not plain, or too large."""
        if not stat.S_ISREG(found.st_mode) or found.st_size > min(FILE_BYTES, self._bytes):
            return None
        # Without O_NONBLOCK, a pipe that takes the file's place now would block until a writer comes.
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(real, "rb", opener=lambda name, _: os.open(name, flags)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            data = file.read(FILE_BYTES + 1)
        self._bytes -= len(data)
        return data if len(data) <= FILE_BYTES else None

    def _text(self, data: bytes) -> str:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return ""
        if len(text) > min(TEXT_CHARS, self._chars):
            return ""
        self._chars -= len(text)
        return text

    def _named_programs(self, path: str, data: bytes) -> Iterator[str]:
        """Yield the files of the folder that these settings start."""
        try:
            settings = tomllib.loads(data.decode()) if path.endswith(".toml") else json.loads(data)
        except (ValueError, RecursionError):
            return
        for word in islice(_words(settings), MAX_WORDS):
            name = os.path.relpath(_HERE.sub("", word), self._folder) if word.startswith("/") else word
            name = os.path.normpath(_HERE.sub("", name))
            full = os.path.join(self._folder, name)
            if not name.startswith("..") and os.path.lexists(full) and not os.path.isdir(full):
                yield name


def _printed(path: str) -> str:
    """Return a text for every name, also one that is not UTF-8; two names never have the same."""
    return path.replace("\\", "\\\\").encode("utf-8", "backslashreplace").decode()


def _words(settings: Any) -> Iterator[str]:
    """Yield the words of every program that the settings name, at any depth."""
    left: list[tuple[Any, bool]] = [(settings, False)]
    while left:
        value, starts = left.pop()
        if isinstance(value, dict):
            left += [(held, starts or bool(_STARTS.fullmatch(key))) for key, held in value.items()]
        elif isinstance(value, list):
            left += [(held, starts) for held in value]
        elif starts and isinstance(value, str):
            yield from filter(None, _BREAKS.split(value.translate(_QUOTES)))
