"""`pilothouse cost`: money by every key that it knows, and a note where an engine reported none."""

from __future__ import annotations

import time

import pytest
from tests.cli.conftest import House

from pilothouse.config import find_zone
from pilothouse.core.budget import Spent, day_of
from pilothouse.core.ids import ConversationId, EngineId
from pilothouse.core.store import Tx
from pilothouse.stores.sqlite import STORE, SqliteConfig

ZONE = f"Etc/GMT{time.gmtime().tm_hour - 12:+d}"
"""Where it is noon now, so that no day ends while these tests run. The sign is as POSIX has it."""
TODAY = day_of(time.time(), find_zone(ZONE))
LONG_AGO = day_of(time.time() - 50 * 86_400, find_zone(ZONE))


def fill(tx: Tx) -> None:
    main, team = ConversationId("memory:main"), ConversationId("memory:team")
    claude, script = EngineId("claude"), EngineId("script")
    tx.spending.add(Spent(TODAY, main, "/shop", claude, "message", 3, 0, 0.75))
    tx.spending.add(Spent(TODAY, team, "/shop", claude, "schedule", 1, 0, 2.5))
    tx.spending.add(Spent(TODAY, team, "/roof", script, "message", 2, 2, 0.0, 0.1))
    tx.spending.add(Spent(LONG_AGO, main, "/shop", claude, "message", 1, 0, 9.0))


@pytest.fixture
async def used(house: House) -> House:
    async with STORE.open(SqliteConfig(path=str(house.home / "pilothouse.db"))) as store:
        await store.write(fill)
    return house


@pytest.mark.anyio
async def test_the_dearest_cause_comes_first_and_what_was_not_told_is_said(used: House) -> None:
    lines = used.run("cost").stdout.splitlines()
    assert lines[0].split() == ["CAUSE", "TURNS", "COST", "UNKNOWN"]
    assert [line.split()[:3] for line in lines[1:3]] == [
        ["schedule", "1", "$2.50"],
        ["message", "5", "$0.75"],
    ]
    assert "$3.25 in 6 turns. 2 turns reported no price and are not included." in lines[3]


@pytest.mark.anyio
async def test_one_turn_that_did_not_tell_is_one(house: House) -> None:
    spent = Spent(TODAY, ConversationId("memory:a"), "/shop", EngineId("script"), "message", 1, 1, 0.0)

    def add(tx: Tx) -> None:
        tx.spending.add(spent)

    async with STORE.open(SqliteConfig(path=str(house.home / "pilothouse.db"))) as store:
        await store.write(add)
    assert "in 1 turn. 1 turn reported no price and is not included." in house.run("cost").stdout


@pytest.mark.anyio
async def test_at_60_columns_no_word_is_broken(used: House) -> None:
    used.config.write_text(f'[budget]\nall_usd = 5.0\ntime_zone = "{ZONE}"\n')
    _, screen = used.on_a_terminal("cost", COLUMNS="60")
    assert max(map(len, screen.splitlines())) <= 60
    assert "2 turns reported no price and are not included." in " ".join(screen.split())


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("conversation", ["memory:team", "memory:main"]),
        ("workspace", ["/shop", "/roof"]),
        ("engine", ["claude", "script"]),
        ("day", [TODAY]),
    ],
)
async def test_it_adds_up_by_whatever_one_asks_for(used: House, by: str, names: list[str]) -> None:
    told = used.json("cost", "--by", by)
    assert [line["name"] for line in told["lines"]] == names
    assert told["total"]["cost_usd"] == 3.25 and told["total"]["untold"] == 2
    assert sum(line["cost_usd"] for line in told["lines"]) == 3.25


@pytest.mark.anyio
async def test_since_reaches_further_back_and_the_days_budget_is_told(used: House) -> None:
    used.config.write_text(f'[budget]\nall_usd = 5.0\ntime_zone = "{ZONE}"\n')
    used.config.chmod(0o600)
    told = used.json("cost", "--since", "60d", "--by", "day")
    assert [line["name"] for line in told["lines"]] == [LONG_AGO, TODAY]
    assert (told["today"]["spent_usd"], told["today"]["cap_usd"]) == (3.25, 5.0)
    assert "Today's budget for everything: $3.35 of $5.00 ($0.10 assumed)" in used.run("cost").stdout


@pytest.mark.anyio
async def test_since_an_hour_ago_counts_the_whole_day_and_says_so(used: House) -> None:
    used.config.write_text(f'[budget]\ntime_zone = "{ZONE}"\n')
    told = used.json("cost", "--since", "1h")
    assert (told["since"], told["total"]["cost_usd"]) == (TODAY, 3.25)
    shown = used.run("cost", "--since", "1h").stdout
    assert f"Whole days since {TODAY} ({ZONE}): $3.25 in 6 turns." in shown


def test_without_a_store_nothing_was_spent_and_none_is_made(house: House) -> None:
    assert house.run("cost").stdout == "nothing has happened yet\n"
    assert list(house.home.iterdir()) == []
