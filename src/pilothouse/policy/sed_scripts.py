"""Scripts of `sed`: the few that are known to only edit, and those that may run a command.

Known is a grammar so small that every sed reads it alike: where a pattern ends is never in doubt, for no bracket has the
delimiter, a bracket or a backslash in it, and only escapes that every sed knows are there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

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
_MAY_RUN = re.compile(r"(?<![A-Za-z])e|[gpiImM]e")
"""`e` as a command or as a flag; generously, also in what is only a text."""
_LETTERED = re.compile(r"(?:(?<![A-Za-z])|(?<=[IM]))s(?=([A-Za-z]))")
"""Where a letter may be the delimiter."""
_FILE = re.compile(r"(?:(?<![A-Za-z])|(?<=[gpiIeEmM]))(?=[rRwW][ \t]*([^\n;}]+))")
_VALUES = "efl"


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


def sed_may_run(texts: tuple[str, ...]) -> bool:
    """Of a command that begins with `sed`: whether a script in it may run something. Files with scripts are not read."""
    return any(not is_plain_sed(script) and _may_run(script) for script in _scripts(texts[1:]))


def _may_run(script: str) -> bool:
    if len(script) > MAX_SCRIPT:
        return "e" in script
    if _MAY_RUN.search(script):
        return True
    return any(
        re.search(rf"{found[1]}[gpiImMw\d]*e", script[found.end() + 1 :])
        for found in _LETTERED.finditer(script)
    )


def sed_files(texts: tuple[str, ...]) -> list[str]:
    """What its scripts may name as files to read or to write, right behind a letter too."""
    scripts = [script for script in _scripts(texts[1:]) if not is_plain_sed(script)]
    return [name for script in scripts for name in _FILE.findall(script[:MAX_SCRIPT])]


def _scripts(args: tuple[str, ...]) -> Iterator[str]:
    """Every text that a sed might take for its script."""
    given, operands, pending = False, list[str](), list(reversed(args))
    while pending:
        text = pending.pop()
        if text.startswith("--"):
            given = given or text.startswith(("--e", "--f"))
            if text.startswith("--e"):
                yield text.partition("=")[2] or (pending.pop() if pending else "")
            elif text.startswith("--f") and "=" not in text and pending:
                pending.pop()
        elif text.startswith("-") and text != "-":
            at = next((at for at, letter in enumerate(text) if letter in _VALUES + "i"), 0)
            value = text[at + 1 :]
            if text[at] in _VALUES:
                value = value or (pending.pop() if pending else "")
            if text[at] == "e":
                yield value
            given = given or text[at] in "ef"
        else:
            operands.append(text)
    if not given:
        yield from operands[:1]
