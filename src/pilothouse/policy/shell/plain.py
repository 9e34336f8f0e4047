"""Command text → script without a grammar, where none is needed: programs and their words, joined as usual.

Most commands are of this kind: words that no shell changes, whole strings in quotes, `&&`, `||`, `|` and `;` between
them. Rules: one pattern covers every character, or nothing is said; what is said is what the grammar would say of the
same text, and a test holds the two together.
"""

from __future__ import annotations

import re

from pilothouse.policy.reader_table import word_set
from pilothouse.policy.script import Redirect, Script, Segment, Word
from pilothouse.policy.shell.binding import bind

_STATEMENT = re.compile(
    r"([A-Za-z_./][A-Za-z0-9_./\-]*"
    r"(?: +(?:[A-Za-z0-9_@%+:,./\-][A-Za-z0-9_@%+:,./=^\-]*|'[\n -&(-~]*'|\"[\n !#%-\[\]-_a-~]*\")(?=[ ;&|]|\Z))*)"
    r"((?<! -) +2>&1)? *(&&|\|\|?|;|\Z) *"
)
"""A program and its words, where its errors go, and what joins it to the next one. A word ends at a blank or a joint:
what hangs together of several parts is left to the grammar, as are strings in which something could be replaced. There
is one way to read any text by it, so there is little to try twice; quantifiers that never try are wrong before Python
3.11.5 where they stand behind a group."""
_WORD = re.compile(r"'[^']*'|\"[^\"]*\"|[^ ]+")
_RESERVED = word_set(
    "if then elif else fi for select while until do done case esac in function time coproc "
    "declare typeset export readonly local unset unsetenv let test"
)
"""What may make of the words behind it something else than words of a command, to one shell or another."""
_ERRORS_TOO = (Redirect(">&"),)


def read_plain(text: str) -> Script | None:
    """None if there is anything in it that takes a grammar to tell."""
    known: dict[str, Segment] = {}
    items: list[tuple[str, Segment]] = []
    sign, at = "", 0
    while found := _STATEMENT.match(text, at):
        raw, redirect, joint = found.groups()
        segment = known.get(raw)
        if segment is None:
            texts = _texts(raw)
            if not _RESERVED.isdisjoint(texts):
                return None
            segment = known[raw] = Segment(tuple(map(Word, texts)))
        items.append((sign, Segment(segment.words, _ERRORS_TOO) if redirect else segment))
        if not joint:
            return Script(bind(items))
        sign, at = joint, found.end()
    return None


def _texts(raw: str) -> list[str]:
    if "'" not in raw and '"' not in raw:
        return raw.split()
    return [word[1:-1] if word[0] in "'\"" else word for word in _WORD.findall(raw)]
