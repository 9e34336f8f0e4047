"""Renders the change that an approval would make to a file as a unified diff. Pure: the current file is passed in.

The engine says what changes (`Call.change`). A preview that cannot show all of it says so.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from difflib import SequenceMatcher
from pathlib import PurePosixPath

from msgspec import Struct

from pilothouse.core.call import Cell, Change, Replacement

CONTEXT = 3
COMPARED_LINES = 2000
"""Beyond this many lines, the differing part is shown as removed and added, without comparing lines."""
WHOLE_CHARS = 200_000


class Found(Struct, frozen=True):
    """The current file: its text (None if there is no file), or the reason why it is not shown."""

    text: str | None = None
    problem: str = ""


def render_change(change: Change, found: Found, cwd: str = "") -> str:
    """Render the whole diff, with a note before it where needed; at most `WHOLE_CHARS` long."""
    if change.diff is not None:
        return _bounded(change.diff)
    name = _relative(change.path, cwd)
    if change.cell is not None:
        return _bounded(_cell(change.cell, found, name))
    if found.problem or (found.text is None and change.replacements):
        why = found.problem or "there is no such file now"
        return _bounded(f"({why}; only what is asked for is shown)\n{_apart(change, name)}")
    before = found.text
    if change.content is not None:
        return _bounded(diff_of(before, change.content, name))
    after, notes = _replaced(before or "", change.replacements)
    return _bounded("\n".join([*notes, diff_of(before, after, name) if not notes else _apart(change, name)]))


def diff_of(before: str | None, after: str, name: str) -> str:
    """Render a unified diff; `before` is None for a new file."""
    if before == after:
        return "(nothing would change)"
    old, new = _lines(before or ""), _lines(after)
    if old == new and before is not None:
        return "(only line ends would change)"
    head = [f"--- {'/dev/null' if before is None else name}", f"+++ {name}"]
    return "\n".join([*head, *_hunks(old, new)])


def _hunks(old: list[str], new: list[str]) -> Iterator[str]:
    """Skip the common start and end, so that a small change to a long file is cheap."""
    same = 0
    while same < min(len(old), len(new)) and old[same] == new[same]:
        same += 1
    tail = 0
    while tail < min(len(old), len(new)) - same and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    start, old_end, new_end = max(0, same - CONTEXT), len(old) - tail, len(new) - tail
    after = min(tail, CONTEXT)
    left, right = old[start : old_end + after], new[start : new_end + after]
    if max(old_end, new_end) - same > COMPARED_LINES:
        codes = [
            ("equal", 0, same - start, 0, same - start),
            ("replace", same - start, old_end - start, same - start, new_end - start),
            ("equal", old_end - start, len(left), new_end - start, len(right)),
        ]
        groups = [codes]
    else:
        groups = list(SequenceMatcher(None, left, right, autojunk=False).get_grouped_opcodes(CONTEXT))
    for group in groups:
        yield from _hunk(group, left, right, start)


def _hunk(
    codes: list[tuple[str, int, int, int, int]], old: list[str], new: list[str], offset: int
) -> Iterator[str]:
    (_, a, _, b, _), (_, _, a_end, _, b_end) = codes[0], codes[-1]
    yield f"@@ -{_range(a + offset, a_end - a)} +{_range(b + offset, b_end - b)} @@"
    for kind, i, i_end, j, j_end in codes:
        if kind == "equal":
            yield from (f" {line}" for line in old[i:i_end])
        else:
            yield from (f"-{line}" for line in old[i:i_end])
            yield from (f"+{line}" for line in new[j:j_end])


def _range(start: int, length: int) -> str:
    first = start + 1 if length else start
    return str(first) if length == 1 else f"{first},{length}"


def _replaced(text: str, replacements: tuple[Replacement, ...]) -> tuple[str, list[str]]:
    """Apply the edits; return the text, and why it cannot be trusted, if so."""
    notes = list[str]()
    for one in replacements:
        times = text.count(one.old) if one.old else int(not text)
        if not times:
            notes.append("(the text to replace is not in the file as it is now)")
        elif times > 1 and not one.everywhere:
            notes.append(f"(the text to replace is in the file {times} times)")
        text = text.replace(one.old, one.new, -1 if one.everywhere else 1) if one.old else one.new + text
    return text, list(dict.fromkeys(notes))


def _apart(change: Change, name: str) -> str:
    """Render the change without the file, so without line numbers."""
    lines = [f"--- {name}", f"+++ {name}"]
    for one in change.replacements or (Replacement("", change.content or ""),):
        lines += [
            "@@ everywhere @@" if one.everywhere else "@@ @@",
            *(f"-{line}" for line in _lines(one.old)),
            *(f"+{line}" for line in _lines(one.new)),
        ]
    return "\n".join(lines)


def _cell(cell: Cell, found: Found, name: str) -> str:
    mode, id = cell.mode, cell.id
    where = f"{name} {f'cell {id}' if id else 'first cell'}"
    before = _source(found.text, id) if mode != "insert" else None
    after = "" if mode == "delete" else cell.source
    if mode == "replace" and before is None:
        return (
            f"(that cell cannot be read now; only what is asked for is shown)\n{diff_of(None, after, where)}"
        )
    return f"({mode} {where})\n{diff_of(before, after, where)}"


def _source(notebook: str | None, id: str) -> str | None:
    """Return the source of a notebook cell, by its id or as `cell-N`; None if not found."""
    try:
        cells = json.loads(notebook or "")["cells"]
        numbered = [(cell, cell.get("id"), f"cell-{n}") for n, cell in enumerate(cells)]
        cell = next(cell for cell, *names in numbered if id in names or not id)
        return "".join(cell["source"])
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration, RecursionError):
        return None


def _lines(text: str) -> list[str]:
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines and not lines[-1] else lines


def _relative(path: str, cwd: str) -> str:
    whole = PurePosixPath(path)
    return str(whole.relative_to(cwd)) if cwd and whole.is_relative_to(cwd) else path


def _bounded(diff: str) -> str:
    if len(diff) <= WHOLE_CHARS:
        return diff
    return f"{diff[:WHOLE_CHARS]}\n… {len(diff) - WHOLE_CHARS:,} more characters; the payload has all of them"


UNSEEN = Found(problem="the file was not looked at")

LookAtFile = Callable[[str, str], Awaitable[Found]]
"""Reads the file at a path, if it is inside the folder given second."""


async def not_looked_at(path: str, folder: str) -> Found:
    return UNSEEN
