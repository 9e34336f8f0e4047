"""Parses a command text: simple ones by one regular expression, all others by tree-sitter's grammar of bash.

Never raises and never guesses; a text beyond a bound is not read. The regular expression must agree with the grammar on
every text that it accepts; `tests/policy/test_plain.py` compares them.
"""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING

from msgspec import structs

from pilothouse.policy.reader_table import word_set
from pilothouse.policy.script import Redirect, Script, Segment, Word, unreadable
from pilothouse.policy.shell.nested import LINE_JOIN, UNREADABLE
from pilothouse.policy.shell.tree import JOINED, bind, read_statements

if TYPE_CHECKING:
    from tree_sitter import Parser

_PLAIN = bytes.maketrans(bytes(range(128, 256)), b"%" * 128)
"""Replaces bytes of non-ASCII characters for the grammar: tree-sitter-bash 0.25.1 looks them up beyond the end of a table
and crashes the process. `%` has no meaning to it and is no part of a name."""
MAX_BYTES = 100_000
MAX_SIGNS = 15_000
"""Characters with a meaning to a shell. The grammar is slow with many of them, and cannot be interrupted."""
_SIGNS = b"$`\"'(){}[]<>&|;=\\#!"
MAX_DOCUMENTS = 50
"""Here-documents in one text. The grammar needs more time for each."""
_STATEMENT = re.compile(
    r"([A-Za-z_./][A-Za-z0-9_./\-]*"
    r"(?: +(?:[A-Za-z0-9_@%+:,./\-][A-Za-z0-9_@%+:,./=^\-]*|'[\n -&(-~]*'|\"[\n !#%-\[\]-_a-~]*\")(?=[ ;&|]|\Z))*)"
    r"((?<! -) +2>&1)? *(&&|\|\|?|;|\Z) *"
)
"""A program and its words, `2>&1`, and the operator that follows. A word ends at a blank or an operator; words of several
parts, and strings with expansions, are left to the grammar. Every text has one reading, so there is little backtracking;
possessive quantifiers behind a group are wrong before Python 3.11.5."""
_WORD = re.compile(r"'[^']*'|\"[^\"]*\"|[^ ]+")
_RESERVED = word_set(
    "if then elif else fi for select while until do done case esac in function time coproc "
    "declare typeset export readonly local unset unsetenv let test"
)
"""Words that change the meaning of the words behind them, in one shell or another."""
_ERRORS_TOO = (Redirect(">&"),)


class BashParser:
    """A `Parse`. The parser is created for the first command that needs it, once per thread."""

    def __init__(self) -> None:
        self._made = threading.local()

    def __call__(self, command: str) -> Script:
        text = command.strip(" \t\n")
        if len(text) <= MAX_SIGNS and "<<" not in text and (plain := read_plain(text)):
            return plain  # too short for any bound
        try:
            source = text.encode("utf-8")
        except UnicodeEncodeError:
            return unreadable(UNREADABLE)
        if len(source) > MAX_BYTES:
            return unreadable(f"is longer than {MAX_BYTES} bytes")
        if b"\0" in source or source.count(b"<<") > MAX_DOCUMENTS:
            return unreadable(UNREADABLE)
        if len(source) > MAX_SIGNS and len(source) - len(source.translate(None, _SIGNS)) > MAX_SIGNS:
            return unreadable("is too complex to read")
        try:
            return self._read(source)
        except UnicodeDecodeError:  # the grammar cut a character in two
            return unreadable(UNREADABLE)

    def _read(self, source: bytes) -> Script:
        parser = self._parser
        script = _read(parser, source)
        if JOINED not in source:
            return script
        # A line may go on in the middle of a word: `a\⏎#; rm b` has no comment, though it looks like one.
        # Both readings are searched for commands, and neither is trusted.
        joined = _read(parser, source.replace(JOINED, b""))
        nested = (*script.nested, *joined.segments())
        return structs.replace(script, nested=nested, oddities=(*script.oddities, LINE_JOIN), uncertain=True)

    @property
    def _parser(self) -> Parser:
        found: Parser | None = getattr(self._made, "parser", None)
        if found is None:
            found = self._made.parser = _make_parser()
        return found


def _read(parser: Parser, source: bytes) -> Script:
    shown = source if source.isascii() else source.translate(_PLAIN)
    tree = parser.parse(shown)  # held until the last node was read
    return read_statements(tree.root_node, source)


def _make_parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def read_plain(text: str) -> Script | None:
    """Read a simple text; None if it needs the grammar."""
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
