"""How statements in a row belong together: to a shell `|` binds closest, then `&&` and `||`, and `;` last."""

from __future__ import annotations

from collections.abc import Iterable

from pilothouse.core.script import NOTHING, Chain, Node, Pipe


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


def in_a_row(parts: Iterable[Node]) -> Chain:
    return Chain(tuple((";" if at else "", part) for at, part in enumerate(parts)))
