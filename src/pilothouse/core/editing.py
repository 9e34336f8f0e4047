"""The editing commands that the mode `trusted` adds: `sed` and `awk`, as long as they neither run nor hide anything."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from pilothouse.core.reading import Unknown, unallowed
from pilothouse.core.script import Segment, Word


class Edits(Struct, frozen=True):
    reads: tuple[Word, ...] = ()
    changes: tuple[Word, ...] = ()


_ADDRESS = r"(?:\d+|\$|\d+~\d+|/(?:\\.|[^/\\\n])*/I?)"
_SUBSTITUTE = r"s([/|#,@])(?:\\.|(?!\1)[^\\\n])*\1(?:\\.|(?!\1)[^\\\n])*\1[gpiI0-9]*"
_SED_ONE = re.compile(rf"\s*(?:{_ADDRESS}(?:,(?:{_ADDRESS}|\+\d+))?)?\s*!?\s*(?:[pdqnN=]|{_SUBSTITUTE})\s*")
MAX_SCRIPT = 1000
_SED_LETTERS = "nErsuz"
_AWK_FORBIDDEN = re.compile(r"[|><@`]|system|getline|ENVIRON|PROCINFO|close|printf\s*\(|srand|-f")


def edit_only(segment: Segment) -> Edits | Unknown:
    """Only for a segment whose words are all static."""
    if any(word.form == "glob" and word.text[0] in "*?[" for word in segment.words):
        return Unknown("a pattern could become an option")
    if segment.name == "sed":
        return _sed(segment.words[1:])
    if segment.name in ("awk", "gawk", "mawk"):
        return _awk(segment.words[1:])
    return unallowed(segment)


def _sed(args: Sequence[Word]) -> Edits | Unknown:
    scripts: list[str] = []
    files: list[Word] = []
    in_place, given, pending = False, False, list(reversed(args))
    while pending:
        word = pending.pop()
        text = word.text
        if text in ("-e", "--expression") and pending:
            scripts.append(pending.pop().text)
            given = True
        elif re.fullmatch(r"-i(\.[A-Za-z]+)?|--in-place(=\.[A-Za-z]+)?", text):
            in_place = True
        elif text in ("--quiet", "--silent", "--regexp-extended") or re.fullmatch(
            rf"-[{_SED_LETTERS}]+", text
        ):
            continue
        elif text.startswith("-") and text != "-":
            return Unknown(f"sed {text} may do more than edit")
        else:
            files.append(word)
    if not given and files:
        scripts.append(files.pop(0).text)
    if not scripts or not all(_is_sed_plain(script) for script in scripts):
        return Unknown("this sed script may do more than edit")
    return Edits((), tuple(files)) if in_place else Edits(tuple(files))


def _is_sed_plain(script: str) -> bool:
    if len(script) > MAX_SCRIPT:
        return False
    at = 0
    while True:
        found = _SED_ONE.match(script, at)
        if found is None:
            return False
        if found.end() == len(script):
            return True
        if script[found.end()] not in ";\n":
            return False
        at = found.end() + 1
        if not script[at:].strip():
            return True


def _awk(args: Sequence[Word]) -> Edits | Unknown:
    rest = list(args)
    while rest and rest[0].text.startswith("-"):
        text = rest.pop(0).text
        if text in ("-F", "-v") and rest and not rest[0].text.startswith("-"):
            rest.pop(0)
        elif not re.fullmatch(r"-F.+|-v\w+=.*", text):
            return Unknown(f"awk {text} may do more than read")
    if not rest or _AWK_FORBIDDEN.search(rest[0].text):
        return Unknown("this awk program may do more than read")
    return Edits(tuple(rest[1:]))
