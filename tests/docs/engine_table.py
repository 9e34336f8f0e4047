"""The table of engines and abilities in docs/engines/README.md: `python -m tests.docs.engine_table` writes it anew."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tests.dists import ROOT

from pilothouse.bootstrap.abilities import ABILITIES, abilities_of
from pilothouse.core.engine import EngineSpec
from pilothouse.plugins import Loaded, Plugins

PAGE = ROOT / "docs" / "engines" / "README.md"
BLOCK = re.compile(r"(<!-- abilities -->\n).*?(<!-- /abilities -->)", re.DOTALL)


def built_in() -> list[EngineSpec]:
    """Return them in order; of the ready-made agents, which depend on what is installed, only their type."""
    plugins = Plugins()
    rows = [row for row in plugins.engines() if isinstance(row, Loaded) and row.dist == "pilothouse"]
    return [plugins.engine("acp"), *(row.spec for row in rows if row.spec.is_found is None)]


def table(specs: Sequence[EngineSpec]) -> str:
    can = [abilities_of(spec) for spec in specs]
    heads = ["| |", *(f" {spec.title} |" for spec in specs)]
    rows = [
        f"| **{name}**: {ability.means} | {' | '.join(_cell(one.get(name, '?')) for one in can)} |\n"
        for name, ability in ABILITIES.items()
    ]
    return f"{''.join(heads)}\n|---|{'---|' * len(specs)}\n{''.join(rows)}"


def _cell(has: str) -> str:
    return {"no": "–"}.get(has, has)


def page(specs: Sequence[EngineSpec]) -> str:
    """Return the page with the table of today."""
    return BLOCK.sub(lambda found: f"{found[1]}{table(specs)}{found[2]}", PAGE.read_text())


if __name__ == "__main__":
    PAGE.write_text(page(built_in()))
