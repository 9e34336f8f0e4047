"""Command text → script: without a grammar where none is needed, else by tree-sitter's grammar of bash.

Rules: nothing raises, and nothing is guessed; a text beyond a bound is not read at all.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from msgspec import structs

from pilothouse.policy.script import Script, unreadable
from pilothouse.policy.shell.oddities import LINE_JOIN, UNREADABLE
from pilothouse.policy.shell.plain import read_plain
from pilothouse.policy.shell.tree import JOINED, read_statements

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
