"""Defines a parsed command: its segments, how they are joined, and what about it is not plain.

Port: `Parse` makes them of text, `Filesystem` looks at the machine for what text cannot tell. Neither decides anything.
A rule that forbids reads every segment of a script, nested ones too; a rule that allows wants a script without oddities.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

from msgspec import Struct

Form = Literal["plain", "home", "glob", "dynamic"]


class Word(Struct, frozen=True, gc=False):
    """`plain`: the text is what the program gets. `home`: it begins with `~/`. `glob`: a pattern of file names.

    Of a `dynamic` word the text is what can be told without running anything.
    """

    text: str
    form: Form = "plain"


class Redirect(Struct, frozen=True, gc=False):
    """A redirection. The target of `<<` and `<<<` is the text itself; `2>&1` has none."""

    op: str
    target: Word | None = None

    @property
    def changes(self) -> bool:
        return self.op not in ("<", "<<", "<<-", "<<<") and self.target is not None


class Segment(Struct, frozen=True, cache_hash=True, gc=False):
    """One command: a program and its words, redirections, and variables set for it alone."""

    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...] = ()
    assignments: tuple[Word, ...] = ()

    @property
    def name(self) -> str:
        return self.words[0].text if self.words else ""

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple([word.text for word in self.words])


class Pipe(Struct, frozen=True):
    """A pipeline. Each part runs in its own shell, so a `cd` in it has no effect outside."""

    parts: tuple[Node, ...]


class Subshell(Struct, frozen=True):
    body: Node
    redirects: tuple[Redirect, ...] = ()


class Chain(Struct, frozen=True):
    """A chain of statements, each with the operator before it: none, `&&`, `||` or `;`. Binds to the left."""

    items: tuple[tuple[str, Node], ...]


Node = Segment | Pipe | Subshell | Chain


class Script(Struct, frozen=True):
    """A parsed command text. `nested` holds segments inside substitutions, loops and functions."""

    body: Node
    nested: tuple[Segment, ...] = ()
    oddities: tuple[str, ...] = ()
    """Reasons why the script may do more than its segments say; empty for a plain script."""
    uncertain: bool = False
    """The segments may be incomplete: the text is too long, or shells may read it differently."""

    def segments(self) -> Iterator[Segment]:
        yield from segments_in(self.body)
        yield from self.nested


def segments_in(node: Node) -> Iterator[Segment]:
    """Yield the segments in the order of the text."""
    pending: list[Node] = [node]
    while pending:
        match pending.pop():
            case Segment() as segment:
                yield segment
            case Pipe(parts=parts):
                pending.extend(reversed(parts))
            case Subshell(body=body, redirects=redirects):
                if redirects:
                    yield Segment((), redirects)
                pending.append(body)
            case Chain(items=items):
                pending.extend(inner for _, inner in reversed(items))


NOTHING = Segment(())

Parse = Callable[[str], Script]
"""Parses a command text. Never raises: an unreadable text is a script with an oddity."""


def unreadable(why: str) -> Script:
    return Script(NOTHING, oddities=(why,), uncertain=True)


def no_parser(command: str) -> Script:
    """Return an unreadable script: without a parser no command is plain."""
    return unreadable("no parser for commands is configured")
