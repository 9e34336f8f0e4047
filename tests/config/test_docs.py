"""The page that describes the settings tells every one of them, with its default and whether it reloads."""

from __future__ import annotations

import json

import msgspec
import pytest
from tests.dists import ROOT

from pilothouse.config import may_reload
from pilothouse.config.model import BudgetSection, GatewaySection, IsolationSection, LimitsSection, LogSection
from pilothouse.config.workspace import Preferences

PAGE = (ROOT / "docs" / "configuration.md").read_text()
ROWS = {
    cells[0].strip("` "): (cells[1].strip("` "), cells[-1].strip())
    for line in PAGE.splitlines()
    if line.startswith("| `") and len(cells := line.strip("|").split("|")) == 4
}


@pytest.mark.parametrize(
    ("section", "name", "default"),
    [
        (section, info.name, info.default)
        for section, model in (
            ("gateway", GatewaySection),
            ("budget", BudgetSection),
            ("limits", LimitsSection),
            ("isolation", IsolationSection),
            ("log", LogSection),
        )
        for info in msgspec.structs.fields(model)
    ],
)
def test_a_setting_stands_on_the_page(section: str, name: str, default: object) -> None:
    written, reload = ROWS[name]
    assert json.loads(written) == json.loads(msgspec.json.encode(default))
    assert reload == ("yes" if may_reload(f"{section}.{name}") else "restart")


def test_the_page_tells_what_a_workspace_may_wish() -> None:
    for name in Preferences.__struct_fields__:
        assert f"`{name}`" in PAGE[PAGE.index("## The workspace's file") :]
