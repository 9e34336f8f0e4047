"""A command's text as values: segments, how they are joined, and what about it is not plain.

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
    """`<<` and `<<<` have the text itself as their target; what only moves a descriptor has none."""

    op: str
    target: Word | None = None

    @property
    def changes(self) -> bool:
        return self.op not in ("<", "<<", "<<-", "<<<") and self.target is not None


class Segment(Struct, frozen=True, cache_hash=True, gc=False):
    """One command: a program, its words, what is set for it alone, and where its input and output go."""

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
    """Each part runs in a shell of its own: a `cd` in it is not felt outside."""

    parts: tuple[Node, ...]


class Subshell(Struct, frozen=True):
    body: Node
    redirects: tuple[Redirect, ...] = ()


class Chain(Struct, frozen=True):
    """Items with what stands before each: nothing, `&&`, `||` or `;`. They bind to the left."""

    items: tuple[tuple[str, Node], ...]


Node = Segment | Pipe | Subshell | Chain


class Script(Struct, frozen=True):
    """`nested` are the segments that stand where `body` does not show them: in a substitution, a loop, a function."""

    body: Node
    nested: tuple[Segment, ...] = ()
    oddities: tuple[str, ...] = ()
    """Why this may do more than its segments say, in a person's words; empty for a plain script."""
    uncertain: bool = False
    """The segments may not be all of it: it is too long, or shells may read it differently."""

    def segments(self) -> Iterator[Segment]:
        yield from segments_in(self.body)
        yield from self.nested


def segments_in(node: Node) -> Iterator[Segment]:
    """In the order in which they stand."""
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
"""Never raises: what cannot be read is a script with an oddity."""


def unreadable(why: str) -> Script:
    return Script(NOTHING, oddities=(why,), uncertain=True)


def no_parser(command: str) -> Script:
    """Where there is no parser no command is ever plain."""
    return unreadable("there is nothing here that can read commands")
