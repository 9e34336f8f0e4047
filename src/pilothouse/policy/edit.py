"""Recognises `sed` and `awk` commands that only edit, which the mode `trusted` adds.

Accepts a subset that every version of these programs reads alike. A sed script prints, deletes and substitutes; where a
pattern ends is never in doubt. An awk program consists of tokens from one short list: none names a file or a command.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from pilothouse.policy.reader_table import word_set
from pilothouse.policy.readers import Unknown, unallowed
from pilothouse.policy.script import Segment, Word

SEDS = frozenset({"sed", "gsed"})
MAX_SCRIPT = 1000
_DELIMITERS = "/|#,@"
_ESCAPE = r"\\[^\n\[cdox]"
"""`\\[` has its own place; `\\c`, `\\d`, `\\o` and `\\x` make other characters, the delimiter too."""


def _pattern(end: str) -> str:
    inside = rf"(?:\[:[a-z]+:\]|[^\\\[\]\n{end}])"
    return rf"(?:{_ESCAPE}|\\\[|[^\\\[\n{end}]|\[\^?{inside}+\])*"


def _substitute(end: str) -> str:
    return rf"s{end}{_pattern(end)}{end}(?:{_ESCAPE}|\\\[|[^\\\n{end}])*{end}[gpiI0-9]*"


_ADDRESS = rf"(?:\d+|\$|\d+~\d+|/{_pattern('/')}/I?)"
_COMMAND = "|".join(_substitute(re.escape(end)) for end in _DELIMITERS)
_ONE = re.compile(
    rf"[ \t]*(?:{_ADDRESS}(?:,(?:{_ADDRESS}|\+\d+))?[ \t]*)?!?[ \t]*(?:[pdqnN=]|{_COMMAND})[ \t]*(?=[;\n]|\Z)"
)

AWKS = word_set("awk gawk mawk nawk")
MAX_PROGRAM = 2000
_STRING = r'"(?:[^"\\\n]|\\[^\n])*"'
_BRACKET = r"\[\^?(?:\[:[a-z]+:\]|[^\\\[\]/\n])+\]"
_TOKEN = re.compile(
    rf"[ \t\n]*(?:(?P<string>{_STRING})|(?P<regex>/(?:[^/\\\[\n]|\\[^\n]|{_BRACKET})+/)"
    r"|(?P<number>\d+(?:\.\d+)?)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<called>[ \t]*\()?"
    r"|(?P<sign>\|\||&&|[<!=+*%-]=|>=|\+\+|--|!~|[-+*%^!~=<?:,;(){}\[\]$]))"
)
_WORDS = word_set(
    "BEGIN END NR NF FS OFS ORS RS FNR SUBSEP FILENAME print printf if else for while do in next exit delete "
    "break continue length"
)
_FUNCTIONS = word_set("length substr index split sub gsub match sprintf tolower toupper int")
_KEYWORDS = word_set("if for while print printf in")
"""A parenthesis behind them calls nothing."""
_NO_VARIABLES = word_set("getline function func nextfile switch case default return system close fflush")
_VARIABLE = re.compile(r"[a-z_][A-Za-z0-9_]*")
_BEFORE_REGEX = word_set("( { } ; , ! ~ !~ && ||")
_LAST_BLANKS = re.compile(r"[ \t\n]*")


class Edits(Struct, frozen=True):
    reads: tuple[Word, ...] = ()
    changes: tuple[Word, ...] = ()


_SED_LETTERS = "nErsuz"


def edit_only(segment: Segment) -> Edits | Unknown:
    """Only for a segment whose words are all static."""
    if any(word.form == "glob" and word.text[0] in "*?[" for word in segment.words):
        return Unknown("a pattern could become an option")
    if segment.name == "sed":
        return _sed(segment.words[1:])
    if segment.name in AWKS:
        return _awk(segment.words[1:])
    return unallowed(segment)


def _sed(args: Sequence[Word]) -> Edits | Unknown:
    scripts: list[Word] = []
    files: list[Word] = []
    in_place, suffix, given, pending = False, "", False, list(reversed(args))
    while pending:
        word = pending.pop()
        text = word.text
        if text in ("-e", "--expression") and pending:
            scripts.append(pending.pop())
            given = True
        elif found := re.fullmatch(r"(?:-i|--in-place=?)(\.[A-Za-z]+)?", text):
            in_place, suffix = True, found[1] or suffix
        elif text in ("--quiet", "--silent", "--regexp-extended") or re.fullmatch(
            rf"-[{_SED_LETTERS}]+", text
        ):
            continue
        elif text.startswith("-") and text != "-":
            return Unknown(f"sed {text} may do more than edit")
        else:
            files.append(word)
    if not given and files:
        scripts.append(files.pop(0))
    if not scripts or not all(word.form == "plain" and is_plain_sed(word.text) for word in scripts):
        return Unknown("this sed script may do more than edit")
    if not in_place:
        return Edits(tuple(files))
    kept = [Word(word.text + suffix, word.form) for word in files] if suffix else []
    return Edits((), (*files, *kept))


def _awk(args: Sequence[Word]) -> Edits | Unknown:
    rest = list(args)
    while rest and rest[0].text.startswith("-"):
        text = rest.pop(0).text
        if text in ("-F", "-v") and rest and not rest[0].text.startswith("-"):
            text += rest.pop(0).text
        if not (text.startswith("-F") and text != "-F") and not (
            text.startswith("-v") and is_plain_variable(text[2:])
        ):
            return Unknown(f"awk {text} may do more than read")
    if not rest or rest[0].form != "plain" or not is_plain_awk(rest[0].text):
        return Unknown("this awk program may do more than read")
    return Edits(tuple(rest[1:]))


def is_plain_sed(script: str) -> bool:
    """Whether it prints, deletes and substitutes, and neither runs, reads nor writes anything by itself."""
    if len(script) > MAX_SCRIPT:
        return False
    at = 0
    while True:
        found = _ONE.match(script, at)
        if found is None:
            return False
        at = found.end() + 1
        if not script[at:].strip(" \t\n"):
            return True


def is_plain_awk(program: str) -> bool:
    if len(program) > MAX_PROGRAM:
        return False
    at, before = 0, ";"
    while found := _TOKEN.match(program, at):
        if not _is_known(found, before):
            return False
        at = found.end()
        before = "(" if found["called"] else found["sign"] or "value"
    return at > 0 and _LAST_BLANKS.fullmatch(program, at) is not None


def _is_known(token: re.Match[str], before: str) -> bool:
    if token["regex"]:
        return before in _BEFORE_REGEX
    name = token["name"]
    if not name:
        return True
    if token["called"]:
        return name in _FUNCTIONS or name in _KEYWORDS
    return name in _WORDS or (
        _VARIABLE.fullmatch(name) is not None and name not in _FUNCTIONS | _NO_VARIABLES
    )


def is_plain_variable(assigned: str) -> bool:
    """Of `-v`: a name that means nothing to awk itself, or how it splits and joins."""
    name, equals, _ = assigned.partition("=")
    return bool(equals) and (
        name in ("FS", "OFS", "ORS", "RS")
        or (_VARIABLE.fullmatch(name) is not None and name not in _NO_VARIABLES)
    )
