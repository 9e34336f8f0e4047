"""How statements in a row belong together: to a shell `|` binds closest, then `&&` and `||`, and `;` last.

The grammar (tree-sitter-bash 0.25.1) does not always think so: `a && b 2>&1 | c` and `a | b | c && d` are pipes to it,
and in a pipe a `cd` would not be felt outside. So what it calls a chain or a pipe is taken apart, and bound anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pilothouse.policy.script import NOTHING, Chain, Node, Pipe


def bind(items: Iterable[tuple[str, Node]]) -> Node:
    """Statements, each with what stands before it; nothing before the first. What is one by itself stays itself."""
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
    """The statements of which pipes and chains of `&&` and `||` among the items consist; all else stays whole."""
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
