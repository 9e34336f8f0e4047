"""Finds commands inside substitutions, loops, functions and here-documents, for rules that deny or ask.

How they are joined does not matter there. The constructs around them are oddities, with the reasons listed here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pilothouse.policy.script import Redirect, Segment, Word
from pilothouse.policy.shell.words import WORDS, read_word

if TYPE_CHECKING:
    from tree_sitter import Node as TreeNode

ODD: dict[str, str] = {
    "command_substitution": "runs a command inside another",
    "process_substitution": "runs a command inside another",
    "simple_expansion": "depends on a variable",
    "expansion": "depends on a variable",
    "arithmetic_expansion": "contains an arithmetic expansion",
    "variable_assignment": "sets a variable",
    "variable_assignments": "sets variables",
    "declaration_command": "sets a variable",
    "unset_command": "unsets a variable",
    "function_definition": "defines a function",
    "heredoc_redirect": "feeds a text to a command (<<)",
    "herestring_redirect": "feeds a text to a command (<<<)",
    "for_statement": "contains a loop",
    "c_style_for_statement": "contains a loop",
    "while_statement": "contains a loop",
    "if_statement": "contains a condition",
    "case_statement": "contains a condition",
    "compound_statement": "groups commands",
    "test_command": "tests a condition",
    "ERROR": "cannot be read as a shell command",
}
UNREADABLE = ODD["ERROR"]
BACKGROUND = "runs something in the background (&)"
LINE_JOIN = "joins lines with a backslash, which shells read differently"
NEWLINE = "has several lines of commands"
HIDDEN = "contains characters that shells may read differently"
DYNAMIC = "contains a word that is only known at run time"
NAMELESS = "the name of its program is quoted or put together"
TURNED = "changes the folder after a negation (!)"
TOO_DEEP = "is nested too deeply"
UNCERTAIN = frozenset({UNREADABLE, HIDDEN, TOO_DEEP, LINE_JOIN})
"""Oddities with which the segments may be incomplete."""

REDIRECTS = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect"})


class Nested:
    """Collects the segments below some nodes of one tree, and adds to `oddities`."""

    def __init__(self, source: bytes, oddities: dict[str, None]) -> None:
        self._source = source
        self._oddities = oddities
        self.segments: list[Segment] = []

    def descend(self, top: TreeNode, *, itself: bool = False) -> None:
        """Collect every command below a node. Iterates, because the depth of the text is not limited."""
        pending = [top] if itself else top.children[::-1]
        while pending:
            node = pending.pop()
            kind = node.type
            if kind in ODD:
                self._oddities[ODD[kind]] = None
            if kind == "command":
                self.segments.append(self._command(node))
            elif kind in REDIRECTS:
                self.segments.append(Segment((), (self._redirect(node),)))
            elif kind == "variable_assignment":
                self.segments.append(Segment((), (), (Word(self.text(node), "dynamic"),)))
            elif kind == "for_statement":
                self.segments.append(self._loop(node))
            if node.child_count:
                pending += node.children[::-1]

    def text(self, node: TreeNode) -> str:
        """Return the original text. The node itself has the one with replaced characters."""
        return self._source[node.start_byte : node.end_byte].decode("utf-8")

    def fed(self, node: TreeNode) -> Word:
        """Return the text of a here-document or a here-string."""
        texts = [
            self.text(child) for child in node.children if child.type == "heredoc_body" or child.type in WORDS
        ]
        return Word("\n".join(texts), "dynamic")

    def _command(self, node: TreeNode) -> Segment:
        words = [child for child in node.children if child.type in WORDS or child.type == "command_name"]
        return Segment(tuple(self._word(child) for child in words))

    def _word(self, node: TreeNode) -> Word:
        named = node.type == "command_name" and node.children
        return read_word(node.children[0] if named else node, self._source)

    def _loop(self, node: TreeNode) -> Segment:
        """Return the values of a loop as words of a command, and as values of its variable."""
        words = [read_word(child, self._source) for child in node.children if child.type in WORDS]
        names = [self.text(child) for child in node.children if child.type == "variable_name"]
        name = names[0] if names else ""
        values = tuple(Word(f"{name}={word.text}", "dynamic") for word in words) if name else ()
        return Segment((Word("for"), *words), (), values)

    def _redirect(self, node: TreeNode) -> Redirect:
        if node.type != "file_redirect":
            return Redirect("<<", self.fed(node))
        ops = [
            child.type
            for child in node.children
            if child.type not in WORDS and child.type != "file_descriptor"
        ]
        targets = [read_word(child, self._source) for child in node.children if child.type in WORDS]
        return Redirect(ops[0] if ops else ">", targets[0] if targets else None)
