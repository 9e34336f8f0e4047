"""Programs of `awk`: those that are known to only compute and print, and the commands that others run.

Known is a program whose every token is in one short list: no name of a file and no command can stand in it. A `/` counts
only where no awk could divide, so that there is no doubt about where a pattern of text begins.
"""

from __future__ import annotations

import re

from pilothouse.policy.reader_table import word_set

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

_LITERAL = rf"(?:{_STRING})"
_RUN_LITERALLY = re.compile(
    rf"\bsystem[ \t]*\([ \t]*({_LITERAL})[ \t]*\)"
    rf"|\|&?[ \t]*({_LITERAL})[ \t]*(?=[;}}\n]|\Z)"
    rf"|(?<=[{{;(\n])[ \t]*({_LITERAL})[ \t]*\|&?[ \t]*getline"
)
_STRINGS = re.compile(_STRING)
_RUNS = re.compile(r"system|\||@")


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


def awk_runs(program: str) -> tuple[list[str], bool]:
    """The commands that a program runs, as they stand in it; and whether it may run others, which it puts together."""
    if not _RUNS.search(program) or is_plain_awk(program):
        return [], False
    found = [next(filter(None, groups))[1:-1] for groups in _RUN_LITERALLY.findall(program)]
    rest = _STRINGS.sub('""', _RUN_LITERALLY.sub(" ", program)).replace("||", " ")
    return [command.replace("\\", "") for command in found], _RUNS.search(rest) is not None
