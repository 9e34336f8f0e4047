"""`pilothouse cost`: sums what turns cost, and shows the day's budget."""

from __future__ import annotations

import sys
import time
from typing import get_args

import click
import msgspec

from pilothouse.bootstrap.terminal_text import say
from pilothouse.cli.options import json_option, since_option
from pilothouse.cli.store import NOTHING_YET, load_plain, read_store
from pilothouse.cli.table import money, print_json, print_table
from pilothouse.config import BudgetSection, find_zone
from pilothouse.core.budget import CapStatus, Scope, Spent, day_of
from pilothouse.core.store import Tx
from pilothouse.runtime.budget.ledger import By, CostLine, describe_cap, sum_up, total

RECENT_S = 30 * 86_400.0


@click.command("cost")
@click.option(
    "--by", type=click.Choice(get_args(By)), default="cause", show_default=True, help="What to add up."
)
@since_option
@json_option
def command(by: By, since: float | None, as_json: bool) -> None:
    """Sum what turns cost, as the engines report it; without --since, for the last 30 days."""
    budget, now = load_plain().config.budget, time.time()
    zone = find_zone(budget.time_zone)
    first = day_of(now - RECENT_S if since is None else since, zone)
    found = read_store(lambda tx: (tx.spending.of(since=first), _today(tx, budget, day_of(now, zone))))
    rows, cap = found or ([], None)
    lines = sum_up(rows, by)
    if as_json:
        print_json(_document(by, first, lines, rows, cap))
        return
    print_table((by.upper(), "TURNS", "COST", "UNKNOWN"), [_row(line) for line in lines], NOTHING_YET)
    if rows:
        say(_closing(total(rows), first, budget.time_zone), sys.stdout)
    if cap is not None:
        say(f"Today's budget for everything: {describe_cap(cap)}", sys.stdout)


def _today(tx: Tx, budget: BudgetSection, day: str) -> CapStatus | None:
    return None if budget.all_usd is None else tx.spending.cap_status(Scope("all"), day, budget.all_usd)


def _row(line: CostLine) -> tuple[object, ...]:
    return line.name or "-", line.turns, money(line.cost_usd), line.untold or ""


def _closing(all_of_it: CostLine, first: str, zone: str) -> str:
    words = f"Whole days since {first} ({zone}): {money(all_of_it.cost_usd)} in {_turns(all_of_it.turns)}."
    if not all_of_it.untold:
        return words
    are = "is" if all_of_it.untold == 1 else "are"
    return f"{words} {_turns(all_of_it.untold)} reported no price and {are} not included."


def _turns(count: int) -> str:
    return f"{count} turn{'' if count == 1 else 's'}"


def _document(
    by: By, first: str, lines: list[CostLine], rows: list[Spent], cap: CapStatus | None
) -> dict[str, object]:
    return {
        "by": by,
        "since": first,
        "lines": msgspec.to_builtins(lines),
        "total": msgspec.to_builtins(total(rows)),
        "today": msgspec.to_builtins(cap),
    }
