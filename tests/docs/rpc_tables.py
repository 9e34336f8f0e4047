"""The tables of the protocol in docs/rpc.md: `python -m tests.docs.rpc_tables` writes them anew."""

from __future__ import annotations

import re

from tests.dists import ROOT

from pilothouse.channels.rpc.schema import render_tables

PAGE = ROOT / "docs" / "rpc.md"
BLOCK = re.compile(r"(<!-- generated [^\n]*-->\n).*?(<!-- end of the generated part -->)", re.DOTALL)


def with_tables(page: str) -> str:
    return BLOCK.sub(lambda found: f"{found[1]}\n{render_tables()}\n{found[2]}", page)


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
