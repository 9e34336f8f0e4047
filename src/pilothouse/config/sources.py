"""Reads the sources of settings: the file, `.env`, the environment. Each becomes a flat table of leaves.

A leaf keeps its source, for messages, and its rank, to compare layers.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import tomllib
from collections.abc import Callable, Container, Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from pilothouse.config.problems import InvalidConfig, Problem

PREFIX = "PILOTHOUSE__"
FILE, WORKSPACE_FILE, ENVIRONMENT, FLAG = range(4)
MAX_BYTES = 1_000_000

REFERENCE = re.compile(r"\$(\$?)\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""`${NAME}`; `$${NAME}` is an escaped one."""

Key = tuple[str, ...]


class Leaf(Struct, frozen=True):
    """One setting. `raw` is the text of an environment variable, whose type only the field knows.

    `reference` is the text in the file before `${NAME}` was replaced; messages show it. If it is nothing but the
    reference, `origin` is where the name gets its value.
    """

    value: Any
    source: str
    rank: int = FILE
    raw: str | None = None
    reference: Any = None
    origin: str = ""

    @property
    def shown(self) -> Any:
        return self.value if self.reference is None else self.reference

    @property
    def names(self) -> list[str]:
        """The names whose values were put into its text."""
        text = self.reference if isinstance(self.reference, str) else ""
        return [name for doubled, name in REFERENCE.findall(text) if not doubled]

    @property
    def location(self) -> str:
        """The place to change the setting, for messages."""
        return self.origin or (in_environment(self.source) if self.rank == ENVIRONMENT else self.source)


Leaves = dict[Key, Leaf]

_AT = re.compile(r"(.*) \(at line (\d+), column (\d+)\)$", re.DOTALL)
_ENV_LINE = re.compile(r"^(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)$")
_ESCAPE = re.compile(r"\\(.)")


def in_environment(name: str) -> str:
    return f"{name} in the environment, which counts before .env"


def in_file(name: str, file: Path) -> str:
    return f"{file} ({name})"


def dotted(key: Key) -> str:
    return ".".join(part if re.fullmatch(r"[\w-]+", part) else f'"{part}"' for part in key)


def read_bytes(path: Path, limit: int = MAX_BYTES, *, links: bool = True) -> bytes | None:
    """Read a regular file, or return None if there is none. Pipes, and links if so asked, are refused."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if links else os.O_NOFOLLOW)
    try:
        with open(path, "rb", opener=lambda name, _: _open_regular(name, flags)) as file:
            content = file.read(limit + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidConfig([Problem(str(path), "", f"cannot be read: {error.strerror}")]) from error
    if len(content) > limit:
        raise InvalidConfig([Problem(str(path), "", f"is larger than the {limit} bytes that are allowed")])
    return content


def _open_regular(name: str, flags: int) -> int:
    descriptor = os.open(name, flags)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is not a regular file")


def read_text(path: Path, limit: int = MAX_BYTES, *, links: bool = True) -> str | None:
    content = read_bytes(path, limit, links=links)
    try:
        return None if content is None else content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise InvalidConfig([Problem(f"{path}:{line}", "", "is not UTF-8 text")]) from error


def read_toml(path: Path, limit: int = MAX_BYTES, *, links: bool = True) -> dict[str, Any]:
    """Parse a TOML file; a missing one is empty."""
    text = read_text(path, limit, links=links)
    try:
        return tomllib.loads(text or "")
    except tomllib.TOMLDecodeError as error:
        raise InvalidConfig([_broken_toml(path, text or "", str(error))]) from error
    except RecursionError as error:
        raise InvalidConfig([Problem(str(path), "", "is nested too deeply")]) from error


def _broken_toml(path: Path, text: str, message: str) -> Problem:
    if found := _AT.match(message):
        reason, line, column = found.groups()
    else:
        reason = message.removesuffix(" (at end of document)")
        lines = text.split("\n")
        line, column = str(len(lines)), str(len(lines[-1]) + 1)
    return Problem(f"{path}:{line}:{column}", "", f"this is not valid TOML: {reason}")


def flatten(tree: Mapping[str, Any], source: str, rank: int = FILE, at: Key = ()) -> Leaves:
    """Flatten a tree. An empty table is a leaf too: `[channels.x]` alone enables the channel."""
    leaves: Leaves = {}
    for name, value in tree.items():
        if isinstance(value, dict) and value:
            leaves |= flatten(value, source, rank, (*at, name))
        else:
            leaves[*at, name] = Leaf(value, source, rank)
    return leaves


def merge(lower: Leaves, higher: Leaves) -> Leaves:
    """Merge two layers; `higher` wins, also where one has a table and the other a value."""
    wide = {key[:end] for key in higher for end in range(1, len(key))}
    kept = {
        key: leaf
        for key, leaf in lower.items()
        if key not in wide and not any(key[:end] in higher for end in range(1, len(key)))
    }
    return kept | higher


def unset_names(value: Any, names: Container[str]) -> list[str]:
    """Return the `${NAME}`s in a value, however deep, that are not set."""
    if isinstance(value, dict):
        return unset_names([*value.values()], names)
    if isinstance(value, list):
        return [name for item in value for name in unset_names(item, names)]
    found = REFERENCE.findall(value) if isinstance(value, str) else ()
    return [name for doubled, name in found if not doubled and name not in names]


def below(leaves: Leaves, at: Key) -> Leaves:
    """Return the leaves under `at`, with keys relative to it."""
    return {key[len(at) :]: leaf for key, leaf in leaves.items() if key[: len(at)] == at}


def unflatten(leaves: Leaves) -> Any:
    if () in leaves:
        return leaves[()].value
    tree: dict[str, Any] = {}
    for name in dict.fromkeys(key[0] for key in leaves):
        tree[name] = unflatten(below(leaves, (name,)))
    return tree


def read_env_file(path: Path) -> dict[str, str]:
    """Read `NAME=value` lines. Error messages never show the line: it may be a secret."""
    found: dict[str, str] = {}
    for number, line in enumerate((read_text(path) or "").splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not (parts := _ENV_LINE.match(line.strip())):
            text = f"line {number} is not of the form NAME=value"
            raise InvalidConfig([Problem(f"{path}:{number}", "", text)])
        found[parts[1]] = _unquote(parts[2])
    return found


def read_env_names(path: Path, names: Iterable[str]) -> dict[str, str]:
    """Read only these names from a file that is not ours, ignoring everything else in it."""
    wanted, found = set(names), dict[str, str]()
    for line in (read_text(path) or "").splitlines():
        if (parts := _ENV_LINE.match(line.strip())) and parts[1] in wanted:
            found[parts[1]] = _unquote(parts[2])
    return found


def _unquote(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1]
    if len(text) > 1 and text[0] == text[-1] == '"':
        return _ESCAPE.sub(lambda found: {"n": "\n", "t": "\t"}.get(found[1], found[1]), text[1:-1])
    return re.split(r"\s#", text, maxsplit=1)[0].rstrip()


def parse_literal(text: str) -> Any:
    """Parse a TOML literal; anything else stays text."""
    try:
        tree = tomllib.loads(f"v = {text}")
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
    return tree["v"] if len(tree) == 1 else text


def read_environment(environ: Mapping[str, str], names: Callable[[Key], Iterable[str]]) -> Leaves:
    """Read `PILOTHOUSE__SECTION__KEY`. `names` lists the names under a key: variables cannot spell case or dashes."""
    leaves: Leaves = {}
    for variable, raw in sorted(environ.items()):
        if variable.startswith(PREFIX):
            key: Key = ()
            for word in variable.removeprefix(PREFIX).split("__"):
                key = (*key, _spell(word, names(key)))
            leaves[key] = Leaf(parse_literal(raw), variable, ENVIRONMENT, raw)
    return leaves


def _spell(word: str, known: Iterable[str]) -> str:
    plain = word.lower()
    return next((name for name in known if name.lower().replace("-", "_") == plain), plain)
