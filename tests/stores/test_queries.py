"""Named queries: each says what it is for, and nothing that is polled reads a table from end to end."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pilothouse.core.queue import CONTROL_WAITLIST
from pilothouse.core.turn import ENDED, LIVE
from pilothouse.stores.sqlite.link import connect, load_queries, parse_queries
from pilothouse.stores.sqlite.migrate import MIGRATIONS, load_migrations, migrate

SQL = load_queries()
FOLDER = MIGRATIONS.parent

LISTINGS = {
    "audit.newest": "newest rows by the primary key",
    "audit.last": "newest row by the primary key",
    "conversations.newest": "newest rows by the primary key",
    "sessions.newest": "newest rows by the primary key",
    "turns.newest": "newest rows by the primary key",
    "schedules.oldest": "every schedule is wanted",
    "audit.head": "one row per table",
    "asks.newest": "newest rows by the primary key",
    "people.everybody": "everybody is wanted, and few are let in",
    "rules.oldest": "every rule is wanted",
    "prune.turns": "reads what was picked",
    "prune.finish": "reads what was picked",
}
"""Queries that nobody polls and that may walk a table; everything else must go through an index."""

GROWING = re.compile(
    r"^SCAN (inbox|outbox|turns|events|asks|outbox_parts|blobs|blob_uses|nodes|head|old|queued)\b"
)
OVER_UNFINISHED = {
    "inbox_lane",
    "inbox_conversation",
    "inbox_work",
    "inbox_claimed",
    "inbox_ready",
    "outbox_lane",
    "outbox_conversation",
    "outbox_claimed",
    "outbox_ready",
    "turns_held",
    "turns_queued",
    "turns_parked",
    "turns_unended",
    "asks_open",
    "asks_open_newest",
    "asks_questions",
    "asks_shown",
    "asks_topic",
    "asks_expiry",
    "nodes_alive",
}
"""Indexes that hold unfinished rows alone: walking one is cheap however long the history is."""


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[str]]]:
    path = tmp_path_factory.mktemp("plans") / "p.db"
    with closing(connect(path, 1.0)) as db:
        migrate(db, path, load_migrations())
        values = defaultdict(lambda: None)
        yield {
            name: [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {query}", values)]
            for name, query in SQL.items()
        }


def test_no_query_reads_a_growing_table(plans: dict[str, list[str]]) -> None:
    for name in sorted(set(SQL) - set(LISTINGS)):
        for step in plans[name]:
            index = re.search(r"INDEX (\w+)", step)
            if GROWING.match(step):
                assert index and index[1] in OVER_UNFINISHED, f"{name}: {step}"


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("inbox.waiting", "inbox_lane"),
        ("inbox.startable", "inbox_work"),
        ("inbox.startable", "turns_one_live"),
        ("inbox.startable", "turns_unended"),
        ("inbox.startable", "asks_alike"),
        ("inbox.next_ready_at", "inbox_ready"),
        ("inbox.claimed_by", "inbox_claimed"),
        ("inbox.unfinished", "inbox_conversation"),
        ("outbox.deliverable", "outbox_conversation"),
        ("outbox.of_no_turn", "outbox_conversation"),
        ("outbox.next_ready_at", "outbox_ready"),
        ("outbox.find_ref", "outbox_parts_ref"),
        ("turns.startable", "turns_queued"),
        ("turns.startable", "turns_one_live"),
        ("turns.parked_due", "turns_parked"),
        ("turns.next_parked_at", "turns_parked"),
        ("turns.live", "turns_one_live"),
        ("turns.live_in", "turns_live"),
        ("turns.held_by", "turns_held"),
        ("turns.newest_unended", "turns_unended"),
        ("turns.of_unended", "turns_unended"),
        ("events.after", "events_sequence"),
        ("asks.expired", "asks_expiry"),
        ("asks.next_expiry", "asks_expiry"),
        ("asks.open_in", "asks_open"),
        ("asks.open_questions", "asks_questions"),
        ("asks.open_about", "asks_topic"),
        ("asks.newest_open", "asks_open_newest"),
        ("asks.open_of", "asks_alike"),
        ("tallies.prune", "tallies_since"),
        ("asks.unused_answer", "asks_unused"),
        ("asks.unused_of", "asks_unused"),
        ("asks.open_at", "asks_shown"),
        ("schedules.due", "schedules_due"),
        ("schedules.next_at", "schedules_due"),
        ("nodes.alive", "nodes_alive"),
        ("inbox.prune", "inbox_ended"),
        ("prune.pick_turns", "turns_ended"),
    ],
)
def test_what_is_polled_goes_through_its_own_index(
    plans: dict[str, list[str]], name: str, index: str
) -> None:
    assert any(re.search(rf"\b{index}\b", step) for step in plans[name]), plans[name]


def test_every_query_says_what_it_is_for() -> None:
    for file in sorted((FOLDER / "sql").glob("*.sql")):
        for line in file.read_text("utf-8").splitlines():
            if line.startswith("-- name:"):
                assert re.fullmatch(r"-- name: \w+: [^.]{8,}", line), f"{file.name}: {line}"


def test_every_query_is_used() -> None:
    code = "".join(file.read_text("utf-8") for file in FOLDER.glob("*.py"))
    for name in SQL:
        table, _, verb = name.partition(".")
        named = f'"{name}"' in code or f'"{verb}"' in code or f'}}.{verb}"' in code
        assert named or verb.endswith("_unended"), f"{table}.{verb} is used nowhere"


def test_fragments_are_filled_in() -> None:
    parsed = parse_queries("-- name: _row: columns\na, b\n\n-- name: get: one\nSELECT {_row} FROM t\n")
    assert parsed == {"get": "SELECT a, b FROM t"}
    assert not [name for name, query in SQL.items() if "{" in query]


def test_the_schema_and_the_core_use_the_same_words() -> None:
    schema = (MIGRATIONS / "0001_start.sql").read_text("utf-8")
    live = re.search(r"turns_one_live ON turns \(session_id\) WHERE status IN \((.+)\)", schema)
    ended = re.search(r"turns_ended .+ WHERE status IN \((.+)\)", schema)
    assert live and {word.strip(" '") for word in live[1].split(",")} == LIVE
    assert ended and {word.strip(" '") for word in ended[1].split(",")} == ENDED
    assert f"lane <> '{CONTROL_WAITLIST}'" in schema
    assert Path(MIGRATIONS).is_dir()
