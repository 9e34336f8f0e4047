"""Command text → script: without a grammar where none is needed, else by tree-sitter's grammar of bash.

Rules: nothing raises, and nothing is guessed; a text beyond a bound is not read at all.
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
"""The grammar is shown a plain character for every byte of a foreign one: tree-sitter-bash 0.25.1 looks those up beyond
the end of a table, and the process dies of it. `%` means nothing to it, and is no part of a name, as those are not."""
MAX_BYTES = 100_000
MAX_SIGNS = 15_000
"""Characters that mean something to a shell. The grammar takes its time for them, holds up everybody, and cannot be stopped."""
_SIGNS = b"$`\"'(){}[]<>&|;=\\#!"
MAX_DOCUMENTS = 50
"""Here-documents in one text: the grammar takes ever longer for each."""
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


class BashParser:
    """Callable, a `Parse`. A parser is made for the first command that needs it; each thread has its own."""

    def __init__(self) -> None:
        self._made = threading.local()

    def __call__(self, command: str) -> Script:
        text = command.strip(" \t\n")
        if len(text) <= MAX_SIGNS and "<<" not in text and (plain := read_plain(text)):
            return plain  # and no bound could have been met
        try:
            source = text.encode("utf-8")
        except UnicodeEncodeError:
            return unreadable(UNREADABLE)
        if len(source) > MAX_BYTES:
            return unreadable(f"it is longer than {MAX_BYTES} bytes")
        if b"\0" in source or source.count(b"<<") > MAX_DOCUMENTS:
            return unreadable(UNREADABLE)
        if len(source) > MAX_SIGNS and len(source) - len(source.translate(None, _SIGNS)) > MAX_SIGNS:
            return unreadable("there is too much in it to read")
        try:
            return self._read(source)
        except UnicodeDecodeError:  # the grammar, which is not shown foreign characters, cut one in two
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
