"""The editing commands that the mode `trusted` adds: `sed` and `awk`, as long as they neither run nor hide anything."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from pilothouse.policy.awk_programs import AWKS, is_plain_awk, is_plain_variable
from pilothouse.policy.readers import Unknown, unallowed
from pilothouse.policy.script import Segment, Word
from pilothouse.policy.sed_scripts import is_plain_sed


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
