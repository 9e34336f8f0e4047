"""Turns the grammar's tree into a script, statement by statement.

Accounts for every byte of a plain script: only blanks may stand between two nodes. A node of an unknown kind is an oddity;
the commands inside it are still found. The grammar is more forgiving than a shell, so gaps and doubled targets are checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pilothouse.policy.script import (
    NOTHING,
    Chain,
    Node,
    Pipe,
    Redirect,
    Script,
    Segment,
    Subshell,
    Word,
    segments_in,
)
from pilothouse.policy.shell.nested import (
    BACKGROUND,
    DYNAMIC,
    HIDDEN,
    NAMELESS,
    NEWLINE,
    ODD,
    REDIRECTS,
    TOO_DEEP,
    TURNED,
    UNCERTAIN,
    UNREADABLE,
    Nested,
)
from pilothouse.policy.shell.words import SIMPLEST, SIMPLEST_ROW, WORDS, read_word

if TYPE_CHECKING:
    from tree_sitter import Node as TreeNode

JOINED = b"\\\n"
"""A shell removes it, also inside a word."""
MAX_DEPTH = 60


def read_statements(root: TreeNode, source: bytes) -> Script:
    return _Reading(source).script(root)


class _Reading:
    """Reads one tree in one pass."""

    def __init__(self, source: bytes) -> None:
        self._source = source
        self._oddities: dict[str, None] = {}
        self._nested = Nested(source, self._oddities)
        self._simplest: dict[bytes, Segment] = {}

    def script(self, root: TreeNode) -> Script:
        if root.has_error:
            self._odd(UNREADABLE)
        body = self._sequence(root.children, 0, len(self._source), 0)
        uncertain = not UNCERTAIN.isdisjoint(self._oddities)
        return Script(body, tuple(self._nested.segments), tuple(self._oddities), uncertain)

    def _odd(self, why: str) -> None:
        self._oddities[why] = None

    def _gap(self, start: int, end: int, *, lines: bool = False) -> bytes:
        """Return the text between two nodes. Anything but blanks is an oddity."""
        gap = self._source[start:end]
        if not gap or gap == b" ":
            return gap
        gap = gap.replace(JOINED, b"")  # without a blank beside it, a shell joins two words
        if gap.strip(b" \t\n" if lines else b" \t"):
            self._odd(HIDDEN)
        return gap

    def _sequence(self, children: Sequence[TreeNode], start: int, stop: int, depth: int) -> Node:
        """Read statements with `;`, `&`, newlines and comments between them."""
        items: list[tuple[str, Node]] = []
        separated = True
        for child in children:
            gap = self._gap(start, child.start_byte, lines=True)
            if b"\n" in gap:
                separated = True
                if items:
                    self._odd(NEWLINE)
            start = child.end_byte
            kind = child.type
            if kind in (";", "\n", "&", ";;"):
                self._odd_separator(kind)
                separated = True
            elif kind == "comment":
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
            self._odd(TOO_DEEP)
            return self._strange(node)
        kind = node.type
        match kind:
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
                body = self._statement(node.children[1], depth + 1)
                if any(one.name == "cd" for one in segments_in(body)):
                    self._odd(TURNED)
                return body
            case "subshell":
                inner = [child for child in node.children if child.type not in ("(", ")")]
                return Subshell(self._sequence(inner, node.start_byte + 1, node.end_byte - 1, depth + 1))
            case _:
                self._odd(ODD.get(kind, UNREADABLE))
                return self._strange(node)

    def _list(self, node: TreeNode, depth: int) -> Node:
        """Flatten a chain: the grammar nests it to the left."""
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
        return bind(apart(reversed(items)))

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
        return bind(apart(("|" if at else "", part) for at, part in enumerate(parts)))

    def _redirected(self, node: TreeNode, depth: int) -> Node:
        body: Node = NOTHING
        words: list[Word] = []
        redirects: list[Redirect] = []
        end = node.start_byte
        for child in node.children:
            self._gap(end, child.start_byte)
            end = child.end_byte
            if child.type in REDIRECTS:
                redirect, more = self._redirect(child)
                redirects.append(redirect)
                words += more  # `echo > file words`: the grammar reads the words as targets
            else:
                body = self._statement(child, depth + 1)
        self._gap(end, node.end_byte)
        return _with_more(body, tuple(words), tuple(redirects))

    def _command(self, node: TreeNode) -> Segment:
        """Split simple words directly, if the grammar counts as many."""
        raw = self._source[node.start_byte : node.end_byte]
        found = self._simplest.get(raw)
        if found is None and SIMPLEST_ROW.fullmatch(raw):
            found = self._simplest[raw] = Segment(tuple(map(Word, raw.decode("ascii").split(" "))))
        if found is not None and len(found.words) == node.child_count:
            return found
        return self._any_command(node)

    def _any_command(self, node: TreeNode) -> Segment:
        words: list[Word] = []
        redirects: list[Redirect] = []
        assignments: list[Word] = []
        begin = end = node.start_byte
        for child in node.children:
            start = child.start_byte
            if not self._gap(end, start) and end != begin:
                self._odd(HIDDEN)
            end = child.end_byte
            kind = child.type
            if kind == "word" and SIMPLEST.fullmatch(raw := self._source[start:end]):
                words.append(Word(raw.decode("ascii")))  # the common case
            elif kind == "command_name":
                words.append(self._name(child))
            elif kind == "variable_assignment":
                assignments.append(self._assignment(child))
            elif kind in REDIRECTS:
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
        kind = node.type
        if kind not in WORDS:
            self._odd(ODD.get(kind, UNREADABLE))
        word = read_word(node, self._source)
        if word.form == "dynamic":
            before = len(self._oddities)
            self._nested.descend(node)
            if kind in ODD:
                self._odd(ODD[kind])
            elif len(self._oddities) == before:
                self._odd(DYNAMIC)
        return word

    def _assignment(self, node: TreeNode) -> Word:
        self._odd(ODD["variable_assignment"])
        self._nested.descend(node)
        return Word(self._nested.text(node), "dynamic")

    def _redirect(self, node: TreeNode) -> tuple[Redirect, list[Word]]:
        """Return the redirection, and the words of the command behind it."""
        kind = node.type
        if self._source[max(0, node.start_byte - 1) : node.start_byte] == b"}":
            self._odd(ODD["variable_assignment"])  # `{NAME}>file` sets NAME; the grammar reads a word
        if kind != "file_redirect":
            self._odd(ODD[kind])
            self._nested.descend(node)
            return Redirect("<<<" if kind == "herestring_redirect" else "<<", self._nested.fed(node)), []
        op, targets, end = "", list[Word](), node.start_byte
        for child in node.children:
            self._gap(end, child.start_byte)
            end = child.end_byte
            if child.type in WORDS:
                targets.append(self._word(child))
            elif child.type != "file_descriptor":
                op = child.type
        self._gap(end, node.end_byte)
        if len(targets) > 1:
            self._odd(HIDDEN)
        if op in (">&-", "<&-") or (op in (">&", "<&") and targets and targets[0].text in ("0", "1", "2")):
            return Redirect(op), targets[1:]
        return Redirect(op, targets[0] if targets else Word("", "dynamic")), targets[1:]

    def _strange(self, node: TreeNode) -> Node:
        """Search a statement that is never plain for commands."""
        self._nested.descend(node, itself=True)
        return NOTHING


def _with_more(body: Node, words: tuple[Word, ...], redirects: tuple[Redirect, ...]) -> Node:
    """Attach a redirection to the last command, as a shell does; the grammar attaches it to the whole chain or pipe."""
    match body:
        case Segment(words=own, redirects=others, assignments=assignments):
            return Segment((*own, *words), (*others, *redirects), assignments)
        case Subshell() if words:
            return Chain((("", body), (";", Segment(words, redirects))))
        case Subshell(body=inner, redirects=others):
            return Subshell(inner, (*others, *redirects))
        case Pipe(parts=parts):
            return Pipe((*parts[:-1], _with_more(parts[-1], words, redirects)))
        case Chain(items=items):
            joint, last = items[-1]
            return Chain((*items[:-1], (joint, _with_more(last, words, redirects))))


def bind(items: Iterable[tuple[str, Node]]) -> Node:
    """Join statements, each with the operator before it: `|` binds closest, then `&&` and `||`, then `;`.

    The grammar (tree-sitter-bash 0.25.1) differs: it reads `a && b 2>&1 | c` and `a | b | c && d` as pipes, in which a `cd`
    would have no effect outside. So its chains and pipes are taken apart and joined again.
    """
    parts: list[Node] = []
    chain: list[tuple[str, Node]] = []
    pipe: list[Node] = []
    joint = ""
    for sign, node in (*items, (";", NOTHING)):
        if sign == "|":
            pipe.append(node)
            continue
        if pipe:
            chain.append((joint, pipe[0] if len(pipe) == 1 else Pipe(tuple(pipe))))
        if sign == ";":
            parts.append(chain[0][1] if len(chain) == 1 else Chain(tuple(chain)))
            chain.clear()
        joint = "" if sign == ";" else sign
        pipe = [node]
    return parts[0] if len(parts) == 1 else in_a_row(parts)


def apart(items: Iterable[tuple[str, Node]]) -> Iterator[tuple[str, Node]]:
    """Take pipes, and chains of `&&` and `||`, apart into their statements."""
    for sign, node in items:
        match node:
            case Chain(items=((_, first), *others)) if all(joint != ";" for joint, _ in others):
                yield from apart(((sign, first), *others))
            case Pipe(parts=(first, *others)):
                yield from apart(((sign, first), *(("|", other) for other in others)))
            case _:
                yield sign, node


def in_a_row(parts: Iterable[Node]) -> Chain:
    return Chain(tuple((";" if at else "", part) for at, part in enumerate(parts)))
