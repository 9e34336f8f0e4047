"""docs/engines/codex.md and the code say the same: settings, keys that count, failures."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import msgspec

from pilothouse.core.outcome import FailureKind
from pilothouse.engines.codex.config import CodexConfig
from pilothouse.engines.codex.failures import WORDS
from pilothouse.engines.codex.home import FILES, FOLDERS, KEPT
from pilothouse.engines.failure_kinds import STATUSES

PAGE = (Path(__file__).parents[3] / "docs" / "engines" / "codex.md").read_text()


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def test_the_page_lists_every_key_with_its_default() -> None:
    found = re.findall(r"^\| `(\w+)` \| (.+?) \|", section("Settings"), flags=re.MULTILINE)
    wanted = [(field.name, _shown(field)) for field in msgspec.structs.fields(CodexConfig)]
    assert found == wanted


def _shown(field: msgspec.structs.FieldInfo) -> str:
    default = field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
    return "–" if default is None else f"`{msgspec.json.encode(default).decode()}`"


def test_the_page_names_what_counts_of_the_users_home() -> None:
    home = section("Its own home")
    assert [name for name in (*KEPT, *FILES, *FOLDERS) if f"`{name}`" not in home] == []


def test_the_page_has_every_kind_of_failure() -> None:
    rows = [row.rsplit("|", 2)[-2] for row in section("Failures").splitlines() if row.startswith("|")]
    kinds = {word for last in rows for word in re.findall(r"`(\w+)`", last)}
    assert kinds == set(get_args(FailureKind))
    assert {*WORDS.values(), *STATUSES.values()} <= kinds
