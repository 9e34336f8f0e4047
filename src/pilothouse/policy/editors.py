"""Recognises `sed` and `awk` programs that only print and compute.

Accepts a subset that every version of these programs reads alike. A sed script prints, deletes and substitutes; where a
pattern ends is never in doubt. An awk program consists of tokens from one short list: none names a file or a command.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pilothouse.policy.reader_table import Reads, Unknown, word_set

SEDS = frozenset({"sed", "gsed"})
AWKS = word_set("awk gawk mawk nawk")
MAX_SCRIPT = 2000
_ESCAPE = r"\\[^\n\[cdox]"
"""`\\[` has its own place; `\\c`, `\\d`, `\\o` and `\\x` make other characters, the delimiter too."""


def _pattern(end: str) -> str:
    inside = rf"(?:\[:[a-z]+:\]|[^\\\[\]\n{end}])"
    return rf"(?:{_ESCAPE}|\\\[|[^\\\[\n{end}]|\[\^?{inside}+\])*"


def _substitute(end: str) -> str:
    return rf"s{end}{_pattern(end)}{end}(?:{_ESCAPE}|\\\[|[^\\\n{end}])*{end}[gpiI0-9]*"


_ADDRESS = rf"(?:\d+|\$|\d+~\d+|/{_pattern('/')}/I?)"
_SUBSTITUTE = "|".join(_substitute(re.escape(end)) for end in "/|#,@")
_SED = re.compile(
    rf"[ \t]*(?:{_ADDRESS}(?:,(?:{_ADDRESS}|\+\d+))?[ \t]*)?!?[ \t]*(?:[pdqnN=]|{_SUBSTITUTE})[ \t]*(?=[;\n]|\Z)"
)
_SED_OPTION = re.compile(r"-[nErsuz]+|--quiet|--silent|--regexp-extended")
_IN_PLACE = re.compile(r"(?:-i|--in-place=?)(\.[A-Za-z]+)?")

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
_CALLED = _FUNCTIONS | word_set("if for while print printf in")
"""Names before a parenthesis: behind the last six it calls nothing."""
_NO_VARIABLES = word_set("getline function func nextfile switch case default return system close fflush")
_VARIABLE = re.compile(r"[a-z_][A-Za-z0-9_]*")
_BEFORE_REGEX = word_set("( { } ; , ! ~ !~ && ||")
_LAST_BLANKS = re.compile(r"[ \t\n]*")


def read_sed(args: Sequence[str]) -> Reads | Unknown:
    """Return the files of a `sed` command, or the reason why it may do more than edit."""
    scripts: list[str] = []
    files: list[str] = []
    in_place, suffix, given, pending = False, "", False, list(reversed(args))
    while pending:
        text = pending.pop()
        if text in ("-e", "--expression") and pending:
            scripts.append(pending.pop())
            given = True
        elif found := _IN_PLACE.fullmatch(text):
            in_place, suffix = True, found[1] or suffix
        elif _SED_OPTION.fullmatch(text):
            continue
        elif text.startswith("-") and text != "-":
            return Unknown(f"sed {text} may do more than edit")
        else:
            files.append(text)
    if not given and files:
        scripts.append(files.pop(0))
    if not scripts or not all(map(is_plain_sed, scripts)):
        return Unknown("this sed script may do more than edit")
    if not in_place:
        return Reads(tuple(files))
    return Reads(changes=(*files, *([text + suffix for text in files] if suffix else [])))


def read_awk(args: Sequence[str]) -> Reads | Unknown:
    """Return the files of an `awk` command, or the reason why it may do more than read."""
    rest = list(args)
    while rest and rest[0].startswith("-"):
        text = rest.pop(0)
        if text in ("-F", "-v") and rest and not rest[0].startswith("-"):
            text += rest.pop(0)
        if not (text.startswith("-F") and text != "-F") and not (
            text.startswith("-v") and _is_plain_variable(text[2:])
        ):
            return Unknown(f"awk {text} may do more than read")
    if not rest or not is_plain_awk(rest[0]):
        return Unknown("this awk program may do more than read")
    if any("=" in text for text in rest[1:]):
        return Unknown("awk takes a word with = for a variable")
    return Reads(tuple(rest[1:]))


def is_plain_sed(script: str) -> bool:
    """Tell whether it prints, deletes and substitutes, and neither runs, reads nor writes anything by itself."""
    at = 0
    while len(script) <= MAX_SCRIPT:
        found = _SED.match(script, at)
        if found is None:
            return False
        at = found.end() + 1
        if not script[at:].strip(" \t\n"):
            return True
    return False


def is_plain_awk(program: str) -> bool:
    if len(program) > MAX_SCRIPT:
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
        return name in _CALLED
    return name in _WORDS or (
        _VARIABLE.fullmatch(name) is not None and name not in _FUNCTIONS | _NO_VARIABLES
    )


def _is_plain_variable(assigned: str) -> bool:
    """Tell whether `-v` names a variable that means nothing to awk, or how awk splits and joins."""
    name, equals, _ = assigned.partition("=")
    return bool(equals) and (
        name in ("FS", "OFS", "ORS", "RS")
        or (_VARIABLE.fullmatch(name) is not None and name not in _NO_VARIABLES)
    )
