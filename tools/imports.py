"""Guard two rules that layers cannot express: no import cycle, and each library only where it belongs.

`core` and `runtime` import nothing foreign beyond a short list, so that no vendor's change can reach them;
a vendor's SDK is imported by one adapter and by nobody else.
"""

import sys
from collections.abc import Iterator, Mapping

import grimp

PACKAGE = "pilothouse"

# What these parts may import besides themselves and the standard library.
ALLOWED: Mapping[str, frozenset[str]] = {
    "pilothouse.core": frozenset({"msgspec"}),
    "pilothouse.policy": frozenset({"msgspec"}),
    "pilothouse.runtime": frozenset({"anyio", "cronsim", "msgspec"}),
    "pilothouse.testing": frozenset({"anyio", "hypothesis", "msgspec", "pytest"}),
}

# Where alone a library may be imported.
HOMES: Mapping[str, tuple[str, ...]] = {
    "click": ("pilothouse.__main__", "pilothouse.cli"),
    "cronsim": ("pilothouse.runtime.schedules",),
    "discord": ("pilothouse.channels.discord",),
    "h11": ("pilothouse.http.forward", "pilothouse.http.server"),
    "httpcore2": ("pilothouse.http",),
    "httpx2": ("pilothouse.http", "pilothouse.mcp_client"),
    "mcp": ("pilothouse.agent_tools", "pilothouse.mcp_client"),
    "mcp_types": ("pilothouse.agent_tools", "pilothouse.mcp_client"),
    "prompt_toolkit": ("pilothouse.channels.terminal",),
    "psycopg": ("pilothouse.stores",),
    "pydantic_ai": ("pilothouse.engines.native",),
    "pyromark": ("pilothouse.channels.telegram",),
    "rich": ("pilothouse.cli", "pilothouse.channels.terminal"),
    "segno": ("pilothouse.cli.pair",),
    "sqlite3": ("pilothouse.stores", "pilothouse.engines.opencode.database"),
    "textual": ("pilothouse.cli",),
    "uvicorn": ("pilothouse.agent_tools",),
    "websockets": ("pilothouse.engines.codex",),
}


def is_within(module: str, part: str) -> bool:
    return module == part or module.startswith(part + ".")


def find_strays(edges: Mapping[str, set[str]]) -> Iterator[str]:
    """Say each import of a library from a place where it does not belong."""
    for module, imported in sorted(edges.items()):
        for library in sorted(imported):
            homes = HOMES.get(library)
            if homes and not any(is_within(module, home) for home in homes):
                yield f"{module} imports {library}, which belongs to {' and '.join(homes)}"
            if library in sys.stdlib_module_names or is_within(library, PACKAGE):
                continue
            for part, allowed in ALLOWED.items():
                if is_within(module, part) and library not in allowed:
                    yield f"{module} imports {library}; {part} may import only {', '.join(sorted(allowed))}"


def find_cycle(edges: Mapping[str, set[str]]) -> list[str]:
    """Return one import cycle as a closed path, or an empty list."""
    done: set[str] = set()
    for start in sorted(edges):
        path: list[str] = []
        pending: list[tuple[str, bool]] = [(start, True)]
        while pending:
            module, entering = pending.pop()
            if not entering:
                path.pop()
                done.add(module)
            elif module in path:
                return [*path[path.index(module) :], module]
            elif module not in done:
                path.append(module)
                pending.append((module, False))
                pending.extend((to, True) for to in sorted(edges.get(module, ()), reverse=True))
    return []


def main() -> int:
    graph = grimp.build_graph(PACKAGE, include_external_packages=True, cache_dir=".cache/grimp")
    ours = {module for module in graph.modules if is_within(module, PACKAGE)}
    edges = {module: graph.find_modules_directly_imported_by(module) for module in ours}
    faults = list(find_strays(edges))
    if cycle := find_cycle({module: edges[module] & ours for module in ours}):
        faults.append("import cycle: " + " → ".join(cycle))
    for fault in faults:
        print(fault)
    if not faults:
        print(f"{len(ours)} modules: no cycle, every library in its place")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
