"""The pages about Claude and the code say the same: settings, variables, tools, failures. Lines are in test_wire_types."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from pilothouse.engines.claude.config import FALLBACKS, FILE_TOOLS, HELPER_TOOLS, ClaudeConfig
from pilothouse.engines.claude.failures import ROWS
from pilothouse.engines.claude.texts import TOOLS

DOCS = Path(__file__).parents[3] / "docs"
USER_PAGE = (DOCS / "engines" / "claude.md").read_text()
INTERNALS = (DOCS / "internals" / "claude.md").read_text()


def section(page: str, title: str) -> str:
    return page.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def test_the_page_lists_every_tool_with_its_kind() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| `(\w+)` \|", section(INTERNALS, "Tools"), flags=re.MULTILINE))
    assert rows == {name: kind for name, (kind, _) in TOOLS.items()}


def test_the_page_lists_every_key_and_its_variable() -> None:
    found = re.findall(
        r"^\| `(\w+)` \| .+? \| (?:`(\w+)`|–) \|", section(USER_PAGE, "Settings"), flags=re.MULTILINE
    )
    variables = {fallback.key: fallback.variable for fallback in FALLBACKS}
    assert found == [(key, variables.get(key, "")) for key in ClaudeConfig.__struct_fields__]


def test_the_page_lists_every_default() -> None:
    found = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|", section(USER_PAGE, "Settings"), flags=re.MULTILINE))
    fallbacks = {fallback.key: fallback.default for fallback in FALLBACKS}
    for field in msgspec.structs.fields(ClaudeConfig):
        default = fallbacks.get(field.name, None if field.default is msgspec.NODEFAULT else field.default)
        shown = "–" if default is None else f"`{msgspec.json.encode(default).decode()}`"
        assert found[field.name] == ("the fourteen below" if field.name == "tools" else shown)


def test_the_page_names_the_tools() -> None:
    assert " ".join(FILE_TOOLS) in USER_PAGE
    assert " ".join(HELPER_TOOLS) in USER_PAGE


def test_the_page_has_every_kind_of_failure() -> None:
    kinds = set(re.findall(r"\| `(\w+)` \|$", section(INTERNALS, "Failures"), flags=re.MULTILINE))
    assert kinds == {kind for _, kind in ROWS}
