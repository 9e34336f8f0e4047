"""Command text → script, by tree-sitter's grammar of bash.

Rules: nothing raises, and nothing is guessed; every byte of a plain script is accounted for: what stands between two
nodes may only be blank; a node of a kind that is not named here is an oddity, and the commands inside it are still
found. The grammar is forgiving, a shell is not: that is why gaps and doubled targets are looked at.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import structs

from pilothouse.core.script import (
    NOTHING,
    Chain,
    Node,
    Pipe,
    Redirect,
    Script,
    Segment,
    Subshell,
    Word,
    unreadable,
)
from pilothouse.shell.oddities import BACKGROUND, DYNAMIC, HIDDEN, NAMELESS, NEWLINE, ODD, UNREADABLE
from pilothouse.shell.settling import settled_in
from pilothouse.shell.words import SIMPLEST, SIMPLEST_ROW, read_word

if TYPE_CHECKING:
    from tree_sitter import Node as TreeNode
    from tree_sitter import Parser

_JOINED = b"\\\n"
_PLAIN = bytes.maketrans(bytes(range(128, 256)), b"%" * 128)
"""The grammar is shown a plain character for every byte of a foreign one: tree-sitter-bash 0.25.1 looks those up beyond
the end of a table, and the process dies of it. `%` means nothing to it, and is no part of a name, as those are not."""
MAX_BYTES = 100_000
MAX_SIGNS = 15_000
"""Characters that mean something to a shell. The grammar takes its time for them, holds up everybody, and cannot be stopped."""
_SIGNS = b"$`\"'(){}[]<>&|;=\\#!"
MAX_DEPTH = 60
MAX_DOCUMENTS = 50
"""Here-documents in one text: the grammar takes ever longer for each."""

_WORDS = frozenset(
    {"word", "number", "string", "raw_string", "concatenation", "ansi_c_string", "translated_string"}
    | {
        "simple_expansion",
        "expansion",
        "command_substitution",
        "process_substitution",
        "arithmetic_expansion",
    }
    | {"brace_expression", "extglob_pattern", "regex"}
)
_REDIRECTS = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect"})


class BashSegmenter:
    """Callable, a `Segmenter`. A parser is made when the first command comes; each thread has its own."""

    def __init__(self) -> None:
        self._made = threading.local()

    def __call__(self, command: str) -> Script:
        try:
            source = command.strip(" \t\n").encode("utf-8")
        except UnicodeEncodeError:
            return unreadable(UNREADABLE, command)
        if len(source) > MAX_BYTES:
            return unreadable(f"it is longer than {MAX_BYTES} bytes", command)
        if b"\0" in source or source.count(b"<<") > MAX_DOCUMENTS:
            return unreadable(UNREADABLE, command)
        if len(source) > MAX_SIGNS and len(source) - len(source.translate(None, _SIGNS)) > MAX_SIGNS:
            return unreadable("there is too much in it to read", command)
        try:
            return self._read(source)
        except UnicodeDecodeError:  # the grammar, which is not shown foreign characters, cut one in two
            return unreadable(UNREADABLE, command)

    def _read(self, source: bytes) -> Script:
        parser = self._parser
        script = _read(parser, source)
        if not script.nested or _JOINED not in source:
            return script
        # Inside what is never plain nobody looks at gaps, and a line may go on in the middle of a word.
        joined = _read(parser, source.replace(_JOINED, b""))
        return structs.replace(script, nested=(*script.nested, *joined.segments()))

    @property
    def _parser(self) -> Parser:
        found: Parser | None = getattr(self._made, "parser", None)
        if found is None:
            found = self._made.parser = _make_parser()
        return found


def _read(parser: Parser, source: bytes) -> Script:
    shown = source if source.isascii() else source.translate(_PLAIN)
    tree = parser.parse(shown)  # held until the last node was read
    return _Reading(source).script(tree.root_node)


def _make_parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


class _Reading:
    """One pass over one tree."""

    def __init__(self, source: bytes) -> None:
        self._source = source
        self._oddities: dict[str, None] = {}
        self._nested: list[Segment] = []

    def script(self, root: TreeNode) -> Script:
        if root.has_error:
            self._odd(UNREADABLE)
        body = self._sequence(root.children, 0, len(self._source), 0)
        unread = self._source.decode("utf-8") if {UNREADABLE, HIDDEN} & self._oddities.keys() else ""
        settled = settled_in(root, self._source) if b"$" in self._source and b"=" in self._source else ()
        return Script(body, tuple(self._nested), tuple(self._oddities), unread, settled)

    def _text(self, node: TreeNode) -> str:
        """As it was written: the node's own text is what the grammar was shown."""
        return self._source[node.start_byte : node.end_byte].decode("utf-8")

    def _odd(self, why: str) -> None:
        self._oddities[why] = None

    def _gap(self, start: int, end: int, *, lines: bool = False) -> bytes:
        """What stands between two nodes: only blanks, or there is more to it than we see."""
        gap = self._source[start:end]
        if not gap or gap == b" ":
            return gap
        gap = gap.replace(_JOINED, b"")  # a shell joins the lines: without a blank beside it, also two words
        if gap.strip(b" \t\n" if lines else b" \t"):
            self._odd(HIDDEN)
        return gap

    def _sequence(self, children: Sequence[TreeNode], start: int, stop: int, depth: int) -> Node:
        """Statements in a row, from one byte to another, with `;`, `&`, lines and comments between them."""
        items: list[tuple[str, Node]] = []
        separated = True
        for child in children:
            gap = self._gap(start, child.start_byte, lines=True)
            separated = separated or b"\n" in gap
            if b"\n" in gap and items:
                self._odd(NEWLINE)
            start = child.end_byte
            if child.type in (";", "\n", "&", ";;"):
                self._odd_separator(child.type)
                separated = True
            elif child.type == "comment":
                if child.start_byte and self._source[child.start_byte - 1] not in b" \t\n;":
                    self._odd(HIDDEN)
            else:
                if not separated:
                    self._odd(HIDDEN)
                items.append((";" if items else "", self._statement(child, depth)))
                separated = False
        self._gap(start, stop, lines=True)
        return items[0][1] if len(items) == 1 else Chain(tuple(items)) if items else NOTHING

    def _odd_separator(self, kind: str) -> None:
        if kind == "&":
            self._odd(BACKGROUND)
        elif kind == "\n":
            self._odd(NEWLINE)
        elif kind == ";;":
            self._odd(UNREADABLE)

    def _statement(self, node: TreeNode, depth: int) -> Node:
        if depth > MAX_DEPTH:
            self._odd("it is nested too deeply")
            return self._strange(node)
        match node.type:
            case "command":
                return self._command(node)
            case "list":
                return self._list(node, depth)
            case "pipeline":
                return self._pipeline(node, depth)
            case "redirected_statement":
                return self._redirected(node, depth)
            case "negated_command" if len(node.children) == 2:
                self._gap(node.children[0].end_byte, node.children[1].start_byte)
                return self._statement(node.children[1], depth + 1)
            case "subshell":
                inner = [child for child in node.children if child.type not in ("(", ")")]
                return Subshell(self._sequence(inner, node.start_byte + 1, node.end_byte - 1, depth + 1))
            case _:
                self._odd(ODD.get(node.type, UNREADABLE))
                return self._strange(node)

    def _list(self, node: TreeNode, depth: int) -> Node:
        """A long chain is a deep tree that leans to the left; here it is one row."""
        items: list[tuple[str, Node]] = []
        while (kind := node.type) == "list" and len(children := node.children) == 3:
            left, joint, right = children
            sign = joint.type
            self._gap(left.end_byte, joint.start_byte)
            self._gap(joint.end_byte, right.start_byte, lines=True)
            if sign not in ("&&", "||"):
                self._odd(UNREADABLE)
            self._gap(right.end_byte, node.end_byte)
            items.append((sign, self._statement(right, depth + 1)))
            node = left
        if kind == "list":
            self._odd(UNREADABLE)
            items.append(("", self._strange(node)))
        else:
            items.append(("", self._statement(node, depth + 1)))
        return Chain(tuple(reversed(items)))

    def _pipeline(self, node: TreeNode, depth: int) -> Node:
        parts: list[Node] = []
        end = node.start_byte
        for index, child in enumerate(node.children):
            self._gap(end, child.start_byte, lines=True)
            end = child.end_byte
            if index % 2 == 0:
                parts.append(self._statement(child, depth + 1))
            elif child.type not in ("|", "|&"):
                self._odd(UNREADABLE)
        self._gap(end, node.end_byte)
        return Pipe(tuple(parts))

    def _redirected(self, node: TreeNode, depth: int) -> Node:
        body: Node = NOTHING
        redirects: list[Redirect] = []
        end = node.start_byte
        for child in node.children:
            self._gap(end, child.start_byte)
            end = child.end_byte
            if child.type in _REDIRECTS:
                redirect, more = self._redirect(child)
                redirects.append(redirect)
                if more:  # `echo > file words`: the grammar takes the words for further targets
                    body = _with_words(body, more)
            else:
                body = self._statement(child, depth + 1)
        self._gap(end, node.end_byte)
        return _with_redirects(body, tuple(redirects))

    def _command(self, node: TreeNode) -> Segment:
        """Where the grammar counts as many words as a row of the simplest ones has, it has nothing to add to them."""
        raw = self._source[node.start_byte : node.end_byte]
        if SIMPLEST_ROW.fullmatch(raw):
            texts = raw.decode("ascii").split(" ")
            if len(texts) == node.child_count:
                return Segment(tuple(map(Word, texts)))
        return self._any_command(node)

    def _any_command(self, node: TreeNode) -> Segment:
        words: list[Word] = []
        redirects: list[Redirect] = []
        assignments: list[Word] = []
        end = node.start_byte
        for child in node.children:
            kind = child.type
            gap = self._gap(end, child.start_byte)
            if not gap and end != node.start_byte:
                self._odd(HIDDEN)
            end = child.end_byte
            if kind == "word" and SIMPLEST.fullmatch(raw := self._source[child.start_byte : end]):
                words.append(Word(raw.decode("ascii")))  # nearly every word there is
            elif kind == "command_name":
                words.append(self._name(child))
            elif kind == "variable_assignment":
                assignments.append(self._assignment(child))
            elif kind in _REDIRECTS:
                redirect, more = self._redirect(child)
                redirects.append(redirect)
                words += more
            else:
                words.append(self._word(child))
        self._gap(end, node.end_byte)
        return Segment(tuple(words), tuple(redirects), tuple(assignments))

    def _name(self, node: TreeNode) -> Word:
        children = node.children
        plain = len(children) == 1 and children[0].type == "word"
        word = self._word(children[0] if len(children) == 1 else node)
        raw = self._source[node.start_byte : node.end_byte]
        if not plain or word.form != "plain" or b"\\" in raw:
            self._odd(NAMELESS)
        return word

    def _word(self, node: TreeNode) -> Word:
        if node.type not in _WORDS:
            self._odd(ODD.get(node.type, UNREADABLE))
        word = read_word(node, self._source)
        if word.form == "dynamic":
            inner = node.type if node.type in ODD else ""
            before = len(self._oddities)
            self._descend(node)
            if inner:
                self._odd(ODD[inner])
            elif len(self._oddities) == before:
                self._odd(DYNAMIC)
        return word

    def _assignment(self, node: TreeNode) -> Word:
        self._odd(ODD["variable_assignment"])
        self._descend(node)
        return Word(self._text(node), "dynamic")

    def _redirect(self, node: TreeNode) -> tuple[Redirect, list[Word]]:
        """The redirection, and words of the command that stand behind it."""
        if node.type != "file_redirect":
            self._odd(ODD[node.type])
            self._descend(node)
            return Redirect("<<<" if node.type == "herestring_redirect" else "<<", self._fed(node)), []
        op, targets, end = "", list[Word](), node.start_byte
        for child in node.children:
            self._gap(end, child.start_byte)
            end = child.end_byte
            if child.type in _WORDS:
                targets.append(self._word(child))
            elif child.type != "file_descriptor":
                op = child.type
        self._gap(end, node.end_byte)
        if len(targets) > 1:
            self._odd(HIDDEN)
        if op in (">&-", "<&-") or (op in (">&", "<&") and targets and targets[0].text in ("0", "1", "2")):
            return Redirect(op), targets[1:]
        return Redirect(op, targets[0] if targets else Word("", "dynamic")), targets[1:]

    def _fed(self, node: TreeNode) -> Word:
        """The text of a heredoc or a here-string, as it stands."""
        kinds = ("heredoc_body", *_WORDS)
        texts = [self._text(child) for child in node.children if child.type in kinds]
        return Word("\n".join(texts), "dynamic")

    def _strange(self, node: TreeNode) -> Node:
        """A statement that is never plain: its commands are still found."""
        self._descend(node, itself=True)
        return NOTHING

    def _descend(self, top: TreeNode, *, itself: bool = False) -> None:
        """Every command below a node, however deep; no recursion, for the depth is somebody else's choice."""
        pending = [top] if itself else list(reversed(top.children))
        while pending:
            node = pending.pop()
            if node.type in ODD:
                self._odd(ODD[node.type])
            if node.type == "command":
                self._nested.append(self._flat(node))
            elif node.type in _REDIRECTS:
                self._nested.append(Segment((), (self._flat_redirect(node),)))
            elif node.type == "variable_assignment":
                text = Word(self._text(node), "dynamic")
                self._nested.append(Segment((), (), (text,)))
            elif node.type == "for_statement":
                self._nested.append(self._loop(node))
            pending.extend(reversed(node.children))

    def _flat(self, node: TreeNode) -> Segment:
        words = [child for child in node.children if child.type in _WORDS or child.type == "command_name"]
        return Segment(tuple(self._flat_word(child) for child in words))

    def _loop(self, node: TreeNode) -> Segment:
        """What it goes through, as words of a command: each may be run in its turn, by the loop's name for it."""
        words = [read_word(child, self._source) for child in node.children if child.type in _WORDS]
        names = [self._text(child) for child in node.children if child.type == "variable_name"]
        name = names[0] if names else ""
        values = tuple(Word(f"{name}={word.text}", "dynamic") for word in words) if name else ()
        return Segment((Word("for"), *words), (), values)

    def _flat_word(self, node: TreeNode) -> Word:
        return read_word(
            node.children[0] if node.type == "command_name" and node.children else node, self._source
        )

    def _flat_redirect(self, node: TreeNode) -> Redirect:
        if node.type != "file_redirect":
            return Redirect("<<", self._fed(node))
        ops = [
            child.type
            for child in node.children
            if child.type not in _WORDS and child.type != "file_descriptor"
        ]
        targets = [read_word(child, self._source) for child in node.children if child.type in _WORDS]
        return Redirect(ops[0] if ops else ">", targets[0] if targets else None)


def _with_words(body: Node, more: Sequence[Word]) -> Node:
    if isinstance(body, Segment):
        return Segment((*body.words, *more), body.redirects, body.assignments)
    return Chain((("", body), (";", Segment(tuple(more)))))


def _with_redirects(body: Node, redirects: tuple[Redirect, ...]) -> Node:
    """The grammar hangs a redirection on a whole chain or pipe; a shell gives it to the last command."""
    match body:
        case Segment(words=words, redirects=own, assignments=assignments):
            return Segment(words, (*own, *redirects), assignments)
        case Subshell(body=inner, redirects=own):
            return Subshell(inner, (*own, *redirects))
        case Pipe(parts=parts):
            return Pipe((*parts[:-1], _with_redirects(parts[-1], redirects)))
        case Chain(items=items):
            joint, last = items[-1]
            return Chain((*items[:-1], (joint, _with_redirects(last, redirects))))
