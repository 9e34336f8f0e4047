"""Print the figures that watch the floor plan: rooms, file sizes, module names, and cycles between rooms.

A room is a folder below `src/pilothouse`; in `runtime`, `engines` and `channels` each subfolder is one too.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import grimp

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "pilothouse"
SPLIT = ("runtime", "engines", "channels")
SMALL, LARGE = 60, 400
NOUNS = frozenset({"binding", "settings"})
"""Words of the glossary that end like a gerund and are none."""
PARTICLES = frozenset({"in", "out", "to", "up"})


def room_of(parts: tuple[str, ...]) -> str:
    """Name the room of a module, given its path below the package."""
    if len(parts) == 1:
        return "."
    return "/".join(parts[:2]) if parts[0] in SPLIT and len(parts) > 2 else parts[0]


def is_gerund(name: str) -> bool:
    """Tell whether a module is named after an action: `asking`, `carrying_out`, but not `typing_indicator`."""
    words = [word for word in name.split("_") if word not in PARTICLES]
    return bool(words) and words[-1] not in NOUNS and words[-1].endswith(("ing", "ings"))


def lines_of(path: Path) -> int:
    return len(path.read_text().splitlines())


def functions(paths: Iterable[Path]) -> Iterator[int]:
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield (node.end_lineno or node.lineno) - node.lineno + 1


def strongly_connected(edges: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the groups of rooms that import each other in a circle."""

    def reach(start: str) -> set[str]:
        seen: set[str] = set()
        pending = list(edges.get(start, ()))
        while pending:
            room = pending.pop()
            if room not in seen:
                seen.add(room)
                pending.extend(edges.get(room, ()))
        return seen

    reached = {room: reach(room) for room in edges}
    groups = {
        frozenset({room, *(to for to in reached[room] if room in reached.get(to, ()))}) for room in edges
    }
    return sorted(sorted(group) for group in groups if len(group) > 1)


def room_cycles() -> list[list[str]]:
    graph = grimp.build_graph("pilothouse", cache_dir=".cache/grimp")
    edges: dict[str, set[str]] = defaultdict(set)

    def room(module: str) -> str:
        """Files that stand directly in the package or in `runtime` count as rooms of their own here."""
        parts = tuple(module.split(".")[1:])
        is_package = (PACKAGE.joinpath(*parts) / "__init__.py").exists()
        if not is_package and (len(parts) == 1 or (parts[0] == "runtime" and len(parts) == 2)):
            return "/".join(parts)
        return room_of((*parts, "__init__") if is_package else parts)

    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            if room(module) != room(imported):
                edges[room(module)].add(room(imported))
    return strongly_connected(edges)


def show(title: str, names: Iterable[str]) -> None:
    found = sorted(names)
    print(f"{title:<44}{len(found):>6}")
    for name in found:
        print(f"    {name}")


def main() -> None:
    paths = sorted(PACKAGE.rglob("*.py"))
    rooms: dict[str, list[int]] = defaultdict(list)
    for path in paths:
        rooms[room_of(path.relative_to(PACKAGE).parts)].append(lines_of(path))
    print(f"{'room':<28}{'files':>6}{'lines':>8}")
    for room, sizes in sorted(rooms.items()):
        print(f"{room:<28}{len(sizes):>6}{sum(sizes):>8}")
    print(f"{'all':<28}{len(paths):>6}{sum(map(sum, rooms.values())):>8}\n")

    modules = {path: str(path.relative_to(PACKAGE)) for path in paths if path.name != "__init__.py"}
    lengths = sorted(functions(paths))
    print(f"{'function lines, p95 / max':<44}{lengths[len(lengths) * 95 // 100]:>6} / {lengths[-1]}")
    small = [name for path, name in modules.items() if lines_of(path) < SMALL]
    print(f"{f'files under {SMALL} lines':<44}{len(small):>6}")
    show(f"files over {LARGE} lines", (name for path, name in modules.items() if lines_of(path) > LARGE))
    show("gerund module names", (name for path, name in modules.items() if is_gerund(path.stem)))
    show("cycles between rooms", (" ↔ ".join(cycle) for cycle in room_cycles()))
    shared = Counter(path.stem for path in modules)
    print(f"{'names that are a module in several places':<44}{sum(n > 1 for n in shared.values()):>6}")
    for stem, _ in sorted((stem, n) for stem, n in shared.items() if n > 1):
        print(f"    {stem:<18}{' '.join(name for path, name in modules.items() if path.stem == stem)}")


if __name__ == "__main__":
    main()
