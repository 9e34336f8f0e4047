"""Commands that stand where no plain script has any: in a substitution, a loop, a function, a text that is fed.

They are found for rules that forbid, and how they are joined is not asked. What they stand in is an oddity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pilothouse.policy.script import Redirect, Segment, Word
from pilothouse.policy.shell.words import WORDS, read_word

if TYPE_CHECKING:
    from tree_sitter import Node as TreeNode

ODD: dict[str, str] = {
    "command_substitution": "it runs a command inside another",
    "process_substitution": "it runs a command inside another",
    "simple_expansion": "it depends on a variable",
    "expansion": "it depends on a variable",
    "arithmetic_expansion": "it computes what it runs",
    "variable_assignment": "it sets a variable",
    "variable_assignments": "it sets variables",
    "declaration_command": "it sets a variable",
    "unset_command": "it unsets a variable",
    "function_definition": "it defines a function",
    "heredoc_redirect": "it feeds a text to a command (<<)",
    "herestring_redirect": "it feeds a text to a command (<<<)",
    "for_statement": "it is a loop",
    "c_style_for_statement": "it is a loop",
    "while_statement": "it is a loop",
    "if_statement": "it branches",
    "case_statement": "it branches",
    "compound_statement": "it groups commands",
    "test_command": "it tests a condition",
    "ERROR": "it cannot be read as a shell command",
}
UNREADABLE = ODD["ERROR"]
BACKGROUND = "it runs something in the background (&)"
LINE_JOIN = "it joins lines with a backslash, which shells and readers see differently"
NEWLINE = "it is several lines of commands"
HIDDEN = "its parts are not what they look like"
DYNAMIC = "a part of it is only known when it runs"
NAMELESS = "which program it runs is not plain"
TURNED = "it changes the folder and takes success for failure (!)"
TOO_DEEP = "it is nested too deeply"
UNCERTAIN = frozenset({UNREADABLE, HIDDEN, TOO_DEEP, LINE_JOIN})
"""With one of these, the segments that were found may not be all."""

REDIRECTS = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect"})


class Nested:
    """What is found below some nodes of one tree. `oddities` is the whole reading's, and gets what they are."""

    def __init__(self, source: bytes, oddities: dict[str, None]) -> None:
        self._source = source
        self._oddities = oddities
        self.segments: list[Segment] = []

    def descend(self, top: TreeNode, *, itself: bool = False) -> None:
        """Every command below a node, however deep; no recursion, for the depth is somebody else's choice."""
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
        """As it was written: the node's own text is what the grammar was shown."""
        return self._source[node.start_byte : node.end_byte].decode("utf-8")

    def fed(self, node: TreeNode) -> Word:
        """The text of a heredoc or a here-string, as it stands."""
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
        """What it goes through, as words of a command: each may be run in its turn, by the loop's name for it."""
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
