"""Recognises commands that only read, by the table of readers.

Strict: nothing is guessed. Returns the paths that a command reads, which the caller must check, or the reason why it is
not known to only read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from pilothouse.policy.reader_table import (
    FIND_FLAGS,
    FIND_TESTS,
    GIT,
    GIT_FIXED,
    GIT_NAMES,
    GIT_PATCHES,
    READERS,
    SEPARATE,
    TWO,
    VERSIONS,
    Reader,
)
from pilothouse.policy.script import Segment, Word


class Reads(Struct, frozen=True):
    """The paths that a command reads; with `deep` everything below them, too.

    `git`: it obeys the repository's settings, and reads the whole repository where it is deep.
    """

    paths: tuple[Word, ...] = ()
    deep: bool = False
    git: bool = False


class Unknown(Struct, frozen=True):
    """The reason why a command is not known to only read. With `program` not even its program is known."""

    why: str
    program: bool = False


class _Split(Struct, frozen=True):
    options: tuple[str, ...]
    operands: tuple[Word, ...]


_LINES = re.compile(r"(\d+|\$)(,(\d+|\$|\+\d+))?p(;(\d+|\$)(,(\d+|\$|\+\d+))?p)*")
"""Scripts of `sed -n` that print some lines of a file."""
_FILTER = re.compile(r"[A-Za-z0-9_.\[\]|:,\"' ?()/\-]*")
_TELLS_TOO_MUCH = re.compile(
    r"env|input|import|include|modulemeta|debug|getpath|@sh|limit|error|halt", re.IGNORECASE
)
_FORMAT = re.compile(r"(?:[^%\\]|%%|%[-+ #]*\d*(?:\.\d+)?[bcqs]|\\(?:[abefnrtv\\\"']|0?33|x1[bB]))*")
"""Formats that only print. `%n` sets a variable, and some shells evaluate numbers with side effects."""
_COUNTING = re.compile(r"%([-+ #]*\d*(?:\.\d+)?)[dioxXueEfFgG]")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_NEWER = re.compile(r"-newer[aBcm][aBcmt]")
_CHECKS = frozenset({"-d", "-e", "-f", "-L", "-h", "-r", "-s", "-w", "-x"})

_SUBCOMMAND = re.compile(r"[A-Za-z][\w:-]{0,30}", re.ASCII)

NO_GLOB = "a pattern could become an option"


def read_only(segment: Segment) -> Reads | Unknown:
    """Classify a segment. Call it only if all words are static."""
    name, args = segment.name, segment.words[1:]
    if len(args) == 1 and args[0].text in VERSIONS.get(name, ()):
        return Reads()
    special = _SPECIAL.get(name)
    if special is not None:
        return special(args)
    reader = READERS.get(name)
    if reader is None:
        return unallowed(segment)
    return _by_table(name, reader, args)


def unallowed(segment: Segment) -> Unknown:
    """Name the command as a rule would: `npm test`, but `touch`."""
    name, args = segment.name, segment.words[1:]
    what = args[0].text if name in TWO and args else ""
    told = f"{name} {what}" if _SUBCOMMAND.fullmatch(what) else name
    return Unknown(f"no rule allows {told}", program=True)


def _by_table(name: str, reader: Reader, args: Sequence[Word]) -> Reads | Unknown:
    split = _split(name, reader, args)
    if isinstance(split, Unknown):
        return split
    operands = split.operands
    if len(operands) > reader.most or (reader.operands == "none" and operands):
        return Unknown(f"{name} is given more than it needs to only read")
    if reader.operands == "stamp" and not all(word.text.startswith("+") for word in operands):
        return Unknown(f"{name} might set the clock")
    deep = reader.deep == "*" or not frozenset(reader.deep.split()).isdisjoint(split.options)
    if reader.operands == "paths":
        return Reads(operands, deep)
    if reader.operands == "text then paths":
        given = {"e", "regexp", "files", "type-list"} & set(split.options)
        return Reads(operands if given else operands[1:], deep)
    return Reads()


def _split(name: str, reader: Reader, args: Sequence[Word]) -> _Split | Unknown:
    """Separate options from operands as getopt does; options may follow operands."""
    options: list[str] = []
    operands: list[Word] = []
    pending = list(reversed(args))
    while pending:
        word = pending.pop()
        text = word.text
        if word.form == "glob" and text[0] in "*?[":
            return Unknown(NO_GLOB)
        if text == "--":
            operands.extend(reversed(pending))
            if any(word.form == "glob" and word.text[0] in "*?[" for word in pending):
                return Unknown(NO_GLOB)
            break
        if text == "-" or not text.startswith("-"):
            operands.append(word)
            continue
        if word.form != "plain":
            return Unknown(NO_GLOB)
        if text in reader.exact or (reader.numbers and text[1:].isascii() and text[1:].isdigit()):
            continue
        found = _long(reader, text, pending) if text.startswith("--") else _short(reader, text, pending)
        if found is None:
            return Unknown(f"{name} {text.partition('=')[0]} may do more than read")
        options += found
    return _Split(tuple(options), tuple(operands))


def _long(reader: Reader, text: str, pending: list[Word]) -> list[str] | None:
    name, equals, _ = text[2:].partition("=")
    if equals:
        return [name] if name in reader.long_values else None
    if name in reader.long:
        return [name]
    if name in reader.long_values and name in SEPARATE and _take_value(pending):
        return [name]
    return None


def _short(reader: Reader, text: str, pending: list[Word]) -> list[str] | None:
    found: list[str] = []
    for at, letter in enumerate(text[1:], 1):
        rest = text[at + 1 :]
        if letter in reader.attached and rest.isascii() and rest.isdigit():
            return [*found, letter]
        if letter in reader.values:
            if rest and reader.apart:
                return None
            return [*found, letter] if rest or _take_value(pending) else None
        if letter not in reader.flags:
            return None
        found.append(letter)
    return found


def _take_value(pending: list[Word]) -> bool:
    """Take the next word as the value, unless it might be an option or a pattern."""
    if not pending or pending[-1].form == "glob" or pending[-1].text.startswith("-"):
        return False
    pending.pop()
    return True


def _echo(args: Sequence[Word]) -> Reads | Unknown:
    return Reads() if all(word.form != "glob" for word in args) else Unknown(NO_GLOB)


def _printf(args: Sequence[Word]) -> Reads | Unknown:
    found = _split("printf", READERS["printf"], args)
    if isinstance(found, Unknown):
        return found
    if not found.operands or found.operands[0].form != "plain":
        return Unknown(NO_GLOB)
    given, values = found.operands[0].text, found.operands[1:]
    if all(word.form == "plain" and _NUMBER.fullmatch(word.text) for word in values):
        given = _COUNTING.sub(r"%\1s", given)
    return Reads() if _FORMAT.fullmatch(given) else Unknown("printf may set a variable")


def _command(args: Sequence[Word]) -> Reads | Unknown:
    if len(args) == 2 and args[0].text in ("-v", "-V") and not args[1].text.startswith("-"):
        return Reads()
    return Unknown("command runs another program")


def _test(args: Sequence[Word]) -> Reads | Unknown:
    """Accept a check of one file. Other forms of `test` may evaluate their words."""
    if len(args) == 2 and args[0].text in _CHECKS and args[1].form in ("plain", "home"):
        return Reads((args[1],))
    return Unknown("no rule allows this test", program=True)


def _sed(args: Sequence[Word]) -> Reads | Unknown:
    texts = [word.text for word in args]
    if len(texts) >= 2 and texts[0] == "-n" and _LINES.fullmatch(texts[1]):
        files = args[2:]
        if not any(word.text.startswith("-") or word.text[:1] in "*?[" for word in files):
            return Reads(tuple(files))
    return Unknown("sed may change files", program=True)


def _jq(args: Sequence[Word]) -> Reads | Unknown:
    split = _split("jq", _JQ, args)
    if isinstance(split, Unknown):
        return split
    if not split.operands:
        return Unknown("jq has no filter")
    text = split.operands[0].text
    if not _FILTER.fullmatch(text) or _TELLS_TOO_MUCH.search(text):
        return Unknown("this filter may do more than pick values")
    return Reads(split.operands[1:])


_JQ = Reader(
    "text then paths", "cMCrjaSes", long=frozenset({"compact-output", "raw-output", "sort-keys", "slurp"})
)


def _find(args: Sequence[Word]) -> Reads | Unknown:
    at = 1 if args and args[0].text == "-P" else 0
    places: list[Word] = []
    while at < len(args) and not _begins_expression(args[at].text):
        if args[at].form == "glob" and args[at].text[0] in "*?[":
            return Unknown(NO_GLOB)
        places.append(args[at])
        at += 1
    while at < len(args):
        text = args[at].text
        if args[at].form == "glob":
            return Unknown(NO_GLOB)
        if text in FIND_TESTS or _NEWER.fullmatch(text):
            if at + 1 >= len(args) or args[at + 1].form == "glob":
                return Unknown(NO_GLOB)
            at += 2
        elif text in FIND_FLAGS:
            at += 1
        else:
            return Unknown(f"find {text} may do more than look")
    return Reads(tuple(places))


def _begins_expression(text: str) -> bool:
    return text.startswith(("-", "(", "!", ","))


def _git(args: Sequence[Word]) -> Reads | Unknown:
    place: list[Word] = []
    at = 0
    while at < len(args) and args[at].text in ("-C", "--no-pager", "-P"):
        if args[at].text == "-C":
            if (
                at + 1 >= len(args)
                or args[at + 1].form != "plain"
                or args[at + 1].text.startswith("-")
                or place
            ):
                return Unknown("cannot tell where git -C leads")
            place.append(args[at + 1])
            at += 1
        at += 1
    rest = args[at:]
    if tuple(word.text for word in rest) in GIT_FIXED:
        return Reads(tuple(place), git=True)
    if not rest:
        return Unknown("git has no subcommand")
    name = rest[0].text
    reader = GIT.get(name)
    if reader is None or name.startswith("-"):
        return Unknown(f"no rule allows git {name}", program=True)
    found = _split(f"git {name}", reader, rest[1:])
    if isinstance(found, Unknown):
        return found
    if len(found.operands) > reader.most or (reader.operands == "none" and found.operands):
        return Unknown(f"git {name} may do more than read here")
    outward = _outward(found.operands)
    if place and outward:
        return Unknown("cannot tell where git -C leads")
    if name == "diff":  # outside of a repository it compares any two files, links and all
        outward = [
            Word(f"{place[0].text}/{word.text}", word.form) if place else word for word in found.operands
        ]
    return Reads((*place, *outward), deep=_tells_contents(name, frozenset(found.options)), git=True)


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


def _outward(operands: Iterable[Word]) -> list[Word]:
    """Return the operands of git that might lead out of the repository."""
    return [
        word
        for word in operands
        if word.form != "plain" or word.text.startswith("/") or ".." in word.text.split("/")
    ]


_SPECIAL = {
    ":": _echo,
    "command": _command,
    "echo": _echo,
    "find": _find,
    "git": _git,
    "jq": _jq,
    "printf": _printf,
    "sed": _sed,
    "test": _test,
}
