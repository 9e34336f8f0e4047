"""Recognises commands that only read, by the table of readers; and the few that change only the files that they name.

Strict: nothing is guessed. Returns the paths that a command reads and changes, which the caller must check, or the reason
why it may do more. The words are what the program gets: patterns are expanded before.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

from pilothouse.policy.editors import AWKS, read_awk, read_sed
from pilothouse.policy.reader_table import (
    FIND_FLAGS,
    FIND_TESTS,
    GIT,
    GIT_FIXED,
    GIT_NAMES,
    GIT_PATCHES,
    READERS,
    SEPARATE,
    VERSIONS,
    Reader,
    Reads,
    Unknown,
    word_set,
)


class _Split(Struct, frozen=True):
    options: tuple[str, ...]
    operands: tuple[str, ...]


TWO = word_set(
    "git jj npm pnpm yarn bun npx cargo go docker podman kubectl gh uv pip pip3 poetry make just gradle dotnet"
)
"""Programs whose second word says what they do."""
_SUBCOMMAND = re.compile(r"[A-Za-z][\w:-]{0,30}", re.ASCII)
_FILTER = re.compile(r"[A-Za-z0-9_.\[\]|:,\"' ?()/\-]*")
_TELLS_TOO_MUCH = re.compile(
    r"env|input|import|include|modulemeta|debug|getpath|@sh|limit|error|halt", re.IGNORECASE
)
_FORMAT = re.compile(r"(?:[^%\\]|%%|%[-+ #]*\d*(?:\.\d+)?[bcqs]|\\(?:[abefnrtv\\\"']|0?33|x1[bB]))*")
"""Formats that only print. `%n` sets a variable, and some shells evaluate numbers with side effects."""
_RUNS_GPG = re.compile(r"(?:format|pretty|sort)=.*(?:%[-+ ]?G|signature)", re.DOTALL)
"""Formats for which git starts gpg to check signatures."""
_COUNTING = re.compile(r"%([-+ #]*\d*(?:\.\d+)?)[dioxXueEfFgG]")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_CHECKS = word_set("-d -e -f -L -h -r -s -w -x")
_COMPARES = word_set("-eq -ne -lt -le -gt -ge")
_BRANCHES = word_set("-o -or , ! -not ( )")
_COUNTERS = word_set("du stat wc")
"""Programs that tell no contents of a file to which a link leads."""


def read_only(texts: Sequence[str]) -> Reads | Unknown:
    """Classify a command by the words that its program gets."""
    name, args = texts[0], texts[1:]
    if name in ("echo", ":") or (len(args) == 1 and f"{name}+{args[0]}" in VERSIONS):
        return Reads()
    special = _SPECIAL.get(name)
    if special is not None:
        return special(args)
    reader = READERS.get(name)
    if reader is None:
        return Unknown(f"not on your allow list: {told_name(texts)}")
    return _by_table(name, reader, args)


def told_name(texts: Sequence[str]) -> str:
    """Name a command as a person would: `npm test`, but `touch`."""
    what = texts[1] if texts[0] in TWO and len(texts) > 1 else ""
    return f"{texts[0]} {what}" if _SUBCOMMAND.fullmatch(what) else texts[0]


def _by_table(name: str, reader: Reader, args: Sequence[str]) -> Reads | Unknown:
    split = _split(name, reader, args)
    if isinstance(split, Unknown):
        return split
    operands, kind = split.operands, reader.operands
    if len(operands) > reader.most or (kind == "none" and operands):
        return Unknown(f"{name} is given more than it needs to only read")
    if kind == "stamp" and not all(text.startswith("+") for text in operands):
        return Unknown(f"{name} might set the clock")
    if kind not in ("paths", "pattern"):
        return Reads()
    if kind == "pattern" and {"e", "regexp", "files", "type-list"}.isdisjoint(split.options):
        operands = operands[1:]
    if any(text.startswith("@") for text in operands):
        return Unknown(f"{name} may read a list of names from @file")
    deep = "*" in reader.deep or not reader.deep.isdisjoint(split.options)
    return Reads(operands, deep, files=name == "diff")  # of two folders it follows the links in them


def _split(name: str, reader: Reader, args: Sequence[str]) -> _Split | Unknown:
    """Separate options from operands as getopt does; options may follow operands."""
    options: list[str] = []
    operands: list[str] = []
    pending = list(reversed(args))
    while pending:
        text = pending.pop()
        if text == "--":
            operands.extend(reversed(pending))
            break
        if text == "-" or not text.startswith("-"):
            operands.append(text)
            continue
        if text in reader.exact or (reader.numbers and text[1:].isascii() and text[1:].isdigit()):
            continue
        found = _long(reader, text, pending) if text.startswith("--") else _short(reader, text, pending)
        if found is None:
            return Unknown(f"{name} {text.partition('=')[0]} may do more than read")
        options += found
    return _Split(tuple(options), tuple(operands))


def _long(reader: Reader, text: str, pending: list[str]) -> list[str] | None:
    name, equals, value = text[2:].partition("=")
    if not equals and name in reader.long:
        return [name]
    if not equals and name in SEPARATE:
        value = pending[-1] if pending else ""
    if name not in reader.long_values or _RUNS_GPG.match(f"{name}={value}"):
        return None
    return [name] if equals or (name in SEPARATE and _take_value(pending)) else None


def _short(reader: Reader, text: str, pending: list[str]) -> list[str] | None:
    found: list[str] = []
    for at, letter in enumerate(text[1:], 1):
        rest = text[at + 1 :]
        if letter in reader.attached and rest.isascii() and rest.isdigit():
            return [*found, letter]
        if letter in reader.values:
            if rest and reader.apart:
                return None
            return [*found, letter] if rest or _take_value(pending) else None
        if letter not in reader.letters:
            return None
        found.append(letter)
    return found


def _take_value(pending: list[str]) -> bool:
    """Take the next word as the value, unless it might be an option."""
    if not pending or pending[-1].startswith("-"):
        return False
    pending.pop()
    return True


def _printf(args: Sequence[str]) -> Reads | Unknown:
    found = _split("printf", READERS["printf"], args)
    if isinstance(found, Unknown) or not found.operands:
        return Unknown("printf may set a variable")
    given, values = found.operands[0], found.operands[1:]
    if all(map(_NUMBER.fullmatch, values)):
        given = _COUNTING.sub(r"%\1s", given)
    return Reads() if _FORMAT.fullmatch(given) else Unknown("printf may set a variable")


def _command(args: Sequence[str]) -> Reads | Unknown:
    if len(args) == 2 and args[0] in ("-v", "-V") and not args[1].startswith("-"):
        return Reads()
    return Unknown("command runs another program")


def _bracket(args: Sequence[str]) -> Reads | Unknown:
    return _test(args[:-1]) if args and args[-1] == "]" else Unknown("not on your allow list: this test")


def _test(args: Sequence[str]) -> Reads | Unknown:
    """Accept a check of one file, text or number. Other forms may evaluate their words."""
    match list(args[1:] if args and args[0] == "!" else args):
        case [check, path] if check in _CHECKS:
            return Reads((path,))
        case ["-n" | "-z", _]:
            return Reads()
        case [one, "=" | "!=", other] if not one.startswith(("-", "(")) and not other.startswith("("):
            return Reads()
        case [one, sign, other] if sign in _COMPARES and one.isdigit() and other.isdigit():
            return Reads()
        case _:
            return Unknown("not on your allow list: this test")


def _make(args: Sequence[str]) -> Reads | Unknown:
    """`mkdir` and `touch` make what they name."""
    names = [text for text in args if text not in ("-p", "-v")]
    if not names or any(text.startswith("-") for text in names):
        return Unknown("creates folders with options other than -p and -v")
    return Reads(changes=tuple(names))


def _jq(args: Sequence[str]) -> Reads | Unknown:
    split = _split("jq", READERS["jq"], args)
    if isinstance(split, Unknown):
        return split
    if not split.operands:
        return Unknown("jq has no filter")
    text = split.operands[0]
    if not _FILTER.fullmatch(text) or _TELLS_TOO_MUCH.search(text):
        return Unknown("this filter may do more than pick values")
    return Reads(split.operands[1:])


def _find(args: Sequence[str]) -> Reads | Unknown:
    at = 1 if args and args[0] == "-P" else 0
    places: list[str] = []
    deep = False
    while at < len(args) and not args[at].startswith(("-", "(", "!", ",")):
        places.append(args[at])
        at += 1
    while at < len(args):
        text = args[at]
        if text == "-exec":
            found = _run_by_find(args, at)
            if isinstance(found, Unknown):
                return found
            places += [path for path in found.paths if path != "{}"]
            deep = True
            at = min(end for end in range(at, len(args)) if args[end] in (";", "+")) + 1
        elif text in FIND_TESTS:
            if at + 1 >= len(args):
                return Unknown(f"find {text} has no value")
            at += 2
        elif text in FIND_FLAGS:
            at += 1
        else:
            return Unknown(f"find {text} may do more than look")
    return Reads(tuple(places), deep)


def _run_by_find(args: Sequence[str], at: int) -> Reads | Unknown:
    """Accept a reader of the found file. A found link may lead out: only plain files may be read, or sizes be told."""
    inner = list(args[at + 1 :])
    end = next((end for end, text in enumerate(inner) if text in (";", "+")), 0)
    inner = inner[:end]
    if not inner or any("{}" in text and text != "{}" for text in inner):
        return Unknown("find -exec runs another program")
    several = [
        more
        for text in inner
        for more in ([text] * 3 if text == "{}" and args[at + 1 + end] == "+" else [text])
    ]
    found = read_only(several)
    if isinstance(found, Unknown) or "{}" not in found.paths or found.changes or found.git:
        return Unknown(f"find -exec {inner[0]} may do more than read")
    before = list(args[:at])
    plain = ("-type", "f") in pairwise(before) and _BRANCHES.isdisjoint(args)
    if found.deep or not (plain or inner[0] in _COUNTERS):
        return Unknown(f"find -exec {inner[0]} may follow links; add -type f before it")
    return found


def _git(args: Sequence[str]) -> Reads | Unknown:
    place: list[str] = []
    at = 0
    while at < len(args) and args[at] in ("-C", "--no-pager", "-P"):
        if args[at] == "-C":
            at += 1
            if at >= len(args) or args[at].startswith(("-", "~")) or place:
                return Unknown("cannot tell where git -C leads")
            place.append(args[at])
        at += 1
    rest = tuple(args[at:])
    if "+".join(rest) in GIT_FIXED:
        return Reads(tuple(place), git=(place or ["."])[0])
    if not rest:
        return Unknown("git has no subcommand")
    name = rest[0]
    reader = GIT.get(name)
    if reader is None:
        return Unknown(f"not on your allow list: {told_name(('git', name))}")
    found = _split(f"git {name}", reader, rest[1:])
    if isinstance(found, Unknown):
        return found
    operands = found.operands
    if len(operands) > reader.most or (reader.operands == "none" and operands):
        return Unknown(f"git {name} may do more than read here")
    outward = [text for text in operands if text.startswith(("/", "~")) or ".." in text.split("/")]
    if place and outward:
        return Unknown("cannot tell where git -C leads")
    if name == "diff":  # outside of a repository it compares any two files, links and all
        outward = [f"{place[0]}/{text}" if place else text for text in operands]
    deep = _tells_contents(name, frozenset(found.options))
    return Reads((*place, *outward), deep=deep, git=(place or ["."])[0])


def _tells_contents(name: str, options: frozenset[str]) -> bool:
    """Tell whether a git command prints contents of files that its words do not name."""
    match name:
        case "grep" | "show":
            return True
        case "cat-file":
            return options.isdisjoint("tse")
        case "status":
            return not options.isdisjoint({"v", "verbose"})
        case "diff":
            return options.isdisjoint(GIT_NAMES) or not options.isdisjoint(GIT_PATCHES)
        case "log" | "whatchanged" | "diff-tree":
            return not options.isdisjoint(GIT_PATCHES)
        case _:
            return False


_SPECIAL = {
    "[": _bracket,
    "command": _command,
    "find": _find,
    "git": _git,
    "jq": _jq,
    "mkdir": _make,
    "printf": _printf,
    "sed": read_sed,
    "test": _test,
    "touch": _make,
    **dict.fromkeys(AWKS, read_awk),
}
