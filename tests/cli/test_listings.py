"""Listings: aligned for people, one JSON document for programs, nothing made by looking."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cli.conftest import House

from pilothouse.cli.status import Status, render_status
from pilothouse.cli.table import BELOW, ago, cut, money, plain, render_table, width
from pilothouse.core.ids import Epoch
from pilothouse.core.store import Node, NodeInfo, Role
from pilothouse.runtime.channel_status import HealthNote

LISTINGS = ["sessions", "turns"]


@pytest.mark.parametrize("word", [*LISTINGS, "trace"])
def test_without_a_store_nothing_has_happened_and_none_is_made(house: House, word: str) -> None:
    words = [word, "x"] if word == "trace" else [word]
    done = house.run(*words)
    assert (done.returncode, done.stdout, done.stderr) == (0, "nothing has happened yet\n", "")
    assert house.run(*words, "--json").returncode == 0
    assert list(house.home.iterdir()) == []


TABLES = ["status", *LISTINGS, "trace", "engines", "channels", "config"]


def words_of(listing: str) -> list[str]:
    return [listing, "turn-abc111"] if listing == "trace" else [listing]


@pytest.mark.parametrize("word", TABLES)
@pytest.mark.parametrize("columns", [60, 100])
def test_a_listing_fits_the_terminal(lived_in: House, word: str, columns: int) -> None:
    _, screen = lived_in.on_a_terminal(*words_of(word), COLUMNS=str(columns))
    assert screen
    assert all(width(line) <= columns for line in screen.splitlines() if not line.startswith(f'{BELOW}"/'))


@pytest.mark.parametrize("word", [*TABLES, "doctor"])
def test_in_a_pipe_nothing_is_cut_and_every_row_is_one_line(lived_in: House, word: str) -> None:
    done = lived_in.run(*words_of(word), COLUMNS="40")
    assert (bool(done.stdout), done.stderr) == (True, "")
    assert "…" not in done.stdout
    assert not [line for line in done.stdout.splitlines() if line.startswith(" ")]


@pytest.mark.parametrize("word", ["sessions", "asks", "audit", "users", "rules"])
def test_the_word_list_changes_nothing(house: House, word: str) -> None:
    alone, listed = house.run(word, "--json"), house.run(word, "list", "--json")
    assert (listed.returncode, listed.stdout) == (0, alone.stdout)


def test_turns_are_rows_of_id_status_and_prompt(lived_in: House) -> None:
    lines = lived_in.run("turns").stdout.splitlines()
    assert lines[0].split() == ["TURN", "STATUS", "ENGINE", "AGO", "TOOK", "COST", "PROMPT"]
    assert lines[1].startswith("turn-abc111  done")
    assert "$0.25  mend the [31mroof please" in lines[1]
    assert "failed: auth" in lines[2]


def test_turns_can_be_narrowed(lived_in: House) -> None:
    assert [turn["id"] for turn in lived_in.json("turns", "--status", "failed")] == ["turn-abd222"]
    assert lived_in.json("turns", "-n", "1")[0]["id"] == "turn-abc111"
    assert lived_in.run("turns", "--conversation", "elsewhere").stdout == "No matching turns.\n"


def test_sessions_are_told_with_their_first_words_last_used_first(lived_in: House) -> None:
    found = lived_in.json("sessions")
    assert [row["id"] for row in found] == ["session-1", "session-2", "session-3"]
    assert found[0]["first_words"].startswith("mend the ")


def test_sessions_tell_turns_and_cost(lived_in: House) -> None:
    found = lived_in.json("sessions")
    assert (found[0]["id"], found[0]["turns"], found[0]["cost_usd"]) == ("session-1", 2, 0.25)
    lines = lived_in.run("sessions").stdout.splitlines()
    assert "session-1  puppet  2" in lines[1]
    assert lines[1].endswith("  mend the [31mroof please"), "and what it began with"


def test_a_cost_that_nobody_told_is_no_zero(lived_in: House) -> None:
    lines = lived_in.run("sessions").stdout.splitlines()[1:]
    assert [line.split()[3] for line in lines] == ["$0.25", "-", "$0.00"]
    assert [row["cost_usd"] for row in lived_in.json("sessions")] == [0.25, None, 0.0]


def test_status_is_for_people_and_keeps_the_nodes_for_verbose(lived_in: House) -> None:
    text = lived_in.run("status").stdout
    assert text.startswith(
        "gateway  not running → pilothouse up\nasks     1 waits for you: pilothouse asks\n"
    )
    for part in ("WAITS FOR YOU", "Run make?", "LAST ERRORS", "auth: log in again"):
        assert part in text
    assert "NODES" not in text and "home@box" not in text
    assert "home@box" in lived_in.run("status", "--verbose").stdout
    document = lived_in.json("status")
    assert set(document) == {"running", "nodes", "turns", "queues", "asks", "failures", "channels", "gone"}
    assert (document["running"], document["nodes"][0]["roles"]) == (False, ["engines"])


def test_status_says_which_channels_are_connected() -> None:
    def told(noted: HealthNote | None, *, runs: bool = True) -> list[str]:
        roles: tuple[Role, ...] = ("engines", "channels")
        node = Node(Epoch(1), NodeInfo("pilothouse up", "elsewhere", 7, "1"), roles, 100.0, 1, False)
        notes = {"discord": noted} if noted else {}
        status = Status([node] if runs else [], [], [], [], [], notes)
        return render_status(status, 10.0, enabled=["discord"]).splitlines()

    assert told(HealthNote(9.0, 5.0)) == [
        "gateway  running (pilothouse up, pid 7)",
        "discord  connected, heard 5s ago",
        "asks     none open",
    ]
    assert told(HealthNote(9.0, 5.0, "It is refused."))[1] == (
        "discord  in trouble: It is refused. (last heard 5s ago)"
    )
    assert told(None)[1] == "discord  connecting"
    assert told(HealthNote(9.0, 5.0, "It is refused."), runs=False)[:2] == [
        "gateway  not running → pilothouse up",
        "discord  not connected",
    ], "an old trouble is no news"


def test_status_says_that_a_chat_that_took_over_connects_no_channel() -> None:
    info = NodeInfo("pilothouse chat in ~/work", "elsewhere", 7, "1")
    node = Node(Epoch(1), info, ("engines", "scheduler"), 100.0, 1, False)
    status = Status([node], [], [], [], [], {"telegram": HealthNote(9.0, 5.0)})
    assert render_status(status, 10.0, enabled=["telegram"]).splitlines()[:2] == [
        "gateway   running (pilothouse chat in ~/work, pid 7)",
        "telegram  not connected: only a chat runs; close it and start pilothouse up",
    ]


def test_an_empty_status_has_the_same_shape(house: House) -> None:
    empty: dict[str, Any] = {
        "running": False,
        "nodes": [],
        "turns": [],
        "queues": [],
        "asks": [],
        "failures": [],
        "channels": {},
        "gone": {},
    }
    assert house.json("status") == empty


def test_engines_tell_what_works_and_the_exact_fix(lived_in: House) -> None:
    rows = {row["id"]: row for row in lived_in.json("engines")}
    assert rows["puppet"]["available"]
    assert rows["puppet"]["version"] == "1.2.3"
    assert rows["absent"]["fix"] == "npm install -g puppet-cli"
    assert rows["torn"]["problem"] == "did not load: RuntimeError: torn apart at import"
    assert "puppet-cli is not on PATH → npm install -g puppet-cli" in lived_in.run("engines").stdout


def test_channels_tell_what_is_on_and_what_is_missing(lived_in: House) -> None:
    rows = {row["id"]: row for row in lived_in.json("channels")}
    assert not rows["telegraph"]["enabled"]
    lived_in.config.write_text('[store]\nkind = "shelf"\n[channels.telegraph]\n')
    assert (
        "telegraph  broken  token is missing; put TELEGRAPH_TOKEN=… into .env"
        in lived_in.run("channels").stdout
    )
    rows = {row["id"]: row for row in lived_in.json("channels", TELEGRAPH_TOKEN="hunter22")}
    assert (rows["telegraph"]["enabled"], rows["telegraph"]["problem"]) == (True, "")
    (lived_in.home / ".env").write_text("TELEGRAPH_TOKEN=hunter22\n")
    rows = {row["id"]: row for row in lived_in.json("channels")}
    assert (rows["telegraph"]["enabled"], rows["telegraph"]["problem"]) == (True, "")


def test_a_table_is_aligned_and_gives_way_where_it_is_widest() -> None:
    rows = [("a", "x" * 100, "end"), ("漢字", "short", "end")]
    lines = render_table(("ONE", "TWO", "THREE"), rows, columns=50).splitlines()
    assert [width(line[: line.index("end")]) for line in lines[1:]] == [45, 45]
    assert all(width(line) <= 50 for line in lines)


def test_a_long_prompt_is_whole_where_there_is_room() -> None:
    prompt = "mend the roof " * 40
    assert prompt.strip() in render_table(("TURN", "PROMPT"), [("turn-1", prompt)])


def test_a_narrow_table_keeps_what_people_copy_and_drops_what_they_can_miss() -> None:
    rows = [("turn-3f9k2a7x1b2c", "done", "7.0s", "mend the roof and then the door")]
    text = render_table(("TURN", "STATUS", "TOOK", "PROMPT"), rows, columns=40, optional=("TOOK",))
    assert text.splitlines() == [
        "TURN               STATUS  PROMPT",
        "turn-3f9k2a7x1b2c  done    mend the roo…",
    ]


HEADS = ("ROW", "TIME", "WHO", "WHAT", "DETAIL")
REFUSED = (
    12,
    "11-16 05:48:15",
    "telegram:1234567890",
    "ask.refused",
    "ask=ask-0mf7x2k9q4ab why=only an admin may",
)


@pytest.mark.parametrize("columns", [60, 80])
def test_where_the_last_column_has_no_room_it_goes_below_and_nothing_is_cut(columns: int) -> None:
    text = render_table(HEADS, [REFUSED], columns, wrap=True, whole=HEADS[1:-1])
    lines = text.splitlines()
    assert [word for line in lines[-2:] for word in line.split()] == " ".join(map(str, REFUSED)).split()
    assert lines[-1] == f"    {REFUSED[-1]}"
    assert all(width(line) <= columns for line in lines)


def test_what_is_short_enough_stays_in_its_row_beside_what_goes_below() -> None:
    rows = [
        ("gateway.default_workspace", "default", "x"),
        ("gateway.busy", "/etc/pilothouse/config.toml", "y" * 50),
    ]
    assert render_table(("KEY", "FROM", "VALUE"), rows, 44, wrap=True).splitlines() == [
        "KEY                        FROM      VALUE",
        "gateway.default_workspace  default   x",
        "gateway.busy               …ouse/config.toml",
        "    " + "y" * 50,
    ]


def test_with_room_the_last_column_goes_on_in_its_place_and_another_gives_way() -> None:
    text = render_table(("KEY", "FROM", "VALUE"), [("busy", "f" * 40, "word " * 20)], 60, wrap=True)
    assert text.count("word") == 20
    assert "fff…" in text
    assert all(width(line) <= 60 for line in text.splitlines())


def test_of_a_path_the_end_is_kept() -> None:
    assert cut("/home/ada/.config/pilothouse/config.toml", 14) == "…e/config.toml"
    assert cut("~/src/shop/and/more", 6) == "…/more"
    assert cut("/review all of this", 8) == "/review…"


def test_a_channels_trouble_is_told_whole() -> None:
    trouble = (
        "Discord refuses the bot token. Take a new one at https://discord.com/developers, " + "a b " * 30
    )
    node = Node(Epoch(1), NodeInfo("up", "elsewhere", 7, "1"), ("engines", "channels"), 100.0, 1, False)
    status = Status([node], [], [], [], [], {"discord": HealthNote(0.0, 0.0, trouble)})
    for columns in (None, 60):
        assert " ".join(trouble.split()) in " ".join(render_status(status, 10.0, columns).split())


def test_a_last_column_that_wraps_loses_nothing() -> None:
    text = render_table(
        ("ENGINE", "WHAT"),
        [("a", "not on PATH → npm install -g the-longest-cli of all")],
        columns=40,
        wrap=True,
    )
    assert text.splitlines()[1:] == [
        "a       not on PATH → npm install -g",
        "        the-longest-cli of all",
    ]


def test_small_words() -> None:
    assert [ago(s) for s in (0.4, 59, 60, 7200, 90_000, -90, -0.5)] == [
        "0s",
        "59s",
        "1m",
        "2h",
        "1d",
        "in 1m",
        "now",
    ]
    assert [money(c) for c in (None, 0, 0.001, 1.5)] == ["-", "$0.00", "$0.0010", "$1.50"]
    assert cut("abcdef", 4) == "abc…"
    assert plain("a\n\x1b[31m b\0") == "a [31m b"
