"""Variables of a text whose value is known for all of it: set first of all, plainly, and by nothing else."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node as TreeNode

MAX_SETTLED = 20
"""Variables that are looked for in the whole text."""
_SETS_OTHERWISE = re.compile(
    rb"\b(?:read|eval|source|printf|mapfile|readarray|getopts|declare|typeset|local|unset|let|coproc|IFS)\b"
    rb"|(?:^|[\s;&|({])\.\s"
)
"""Ways to give a variable a value that do not look like one."""


def settled_in(root: TreeNode, source: bytes) -> tuple[str, ...]:
    """Only what plain assignments at the very beginning set, and nothing else names as a thing to set."""
    if _SETS_OTHERWISE.search(source):
        return ()
    names: list[str] = []
    for child in root.children:
        kind = child.type
        first = child
        while first.type == "list":
            first = first.children[0]
        if first.type == "variable_assignment":
            names.append(source[first.start_byte : first.end_byte].partition(b"=")[0].decode("utf-8"))
        if kind not in ("variable_assignment", ";", "\n", "comment") or len(names) == MAX_SETTLED:
            break
    return tuple(name for name in names if _is_set_once(name, source))


def _is_set_once(name: str, source: bytes) -> bool:
    word = re.escape(name.encode())
    return len(re.findall(rb"\b%s(?:\[[^\]]*\])?\+?=|\b(?:for|select)\s+%s\b" % (word, word), source)) == 1
