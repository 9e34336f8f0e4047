"""docs/commands.md lists every command of a chat, and the role that it needs."""

from __future__ import annotations

import re

from tests.dists import ROOT

from pilothouse.core.people import AUTHORITY
from pilothouse.runtime.commands.table import COMMANDS

PAGE = (ROOT / "docs" / "commands.md").read_text()
ROWS = re.findall(r"^\| `/(\w+)[^`]*` \| (.+) \| (\w+) \|$", PAGE, flags=re.MULTILINE)


def test_the_page_lists_every_command_with_its_role() -> None:
    assert [(name, role) for name, _, role in ROWS] == [
        (name, AUTHORITY[f"command.{name}"]) for name in COMMANDS
    ]


def test_the_page_says_what_needs_a_higher_role() -> None:
    for name, meaning, _ in ROWS:
        higher = {AUTHORITY[key] for key in AUTHORITY if key.startswith(f"command.{name}.")}
        assert {
            role
            for role in ("admin", "owner")
            if f"needs an {role}" in meaning or f"need an {role}" in meaning
        } == higher
