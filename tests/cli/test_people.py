"""`users`, `pair` and `asks`: the machine's owner lets people in and out, and answers, from the shell."""

from __future__ import annotations

import asyncio
import getpass
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.cli.conftest import House, with_bots
from tests.shelf import ADDRESS, PLACE, SESSION

from pilothouse.core.ask import Ask, AskRow, Decision, Option, RuleOffer, hash_payload
from pilothouse.core.call import Call
from pilothouse.core.conversation import Conversation
from pilothouse.core.ids import AskId, TurnId, UserId
from pilothouse.core.message import Author, InboundMessage
from pilothouse.core.people import Approvers, Authority, People
from pilothouse.core.store import Tx
from pilothouse.runtime.admission import ask_to_join, pair, parse_code
from pilothouse.runtime.facts import NAME
from pilothouse.runtime.ports import new_id
from pilothouse.stores.sqlite import STORE, SqliteConfig

T = TypeVar("T")
ME = f"terminal:{getpass.getuser()}"
MAKE = {"tool": "Bash", "input": {"command": "make\x1b[31m all"}}


@pytest.fixture
def house(house: House) -> House:
    """People come from Telegram and from Discord."""
    with_bots(house)
    return house


def store(house: House, unit: Callable[[Tx], T]) -> T:
    async def work() -> T:
        async with STORE.open(SqliteConfig(path=str(house.home / "pilothouse.db"))) as opened:
            return await opened.write(unit)

    return asyncio.run(work())


def ask(house: House, id: str = "ask-one", kind: Any = "approval", **fields: Any) -> None:
    """An open ask that an engine waits for, somewhere else."""
    authority = fields.pop("authority", Authority(requesters=(UserId("telegram:1"),)))
    title, topic = fields.pop("title", "Run make?"), fields.pop("topic", "")
    asked = Ask(AskId(id), kind, title, MAKE, hash_payload(MAKE), expires_at=time.time() + 600, **fields)

    def unit(tx: Tx) -> None:
        tx.conversations.ensure(Conversation(PLACE, ADDRESS, 1.0))
        row = AskRow(
            asked,
            PLACE,
            SESSION.id,
            TurnId("turn-1"),
            "k",
            "open",
            time.time(),
            authority=authority,
            topic=topic,
        )
        tx.asks.add(row)

    store(house, unit)


def audit(house: House) -> list[tuple[str, str]]:
    return [(row.who, row.what) for row in store(house, lambda tx: tx.audit.list())]


def test_people_are_granted_listed_and_revoked(house: House) -> None:
    house.config.write_text('[people]\nowners = ["telegram:7"]\n')
    house.config.chmod(0o600)
    assert "telegram:5 is admin everywhere." in house.run("users", "grant", "telegram:5", "admin").stdout
    shop = house.home / "shop"
    shop.mkdir()
    house.run("users", "grant", "telegram:5", "owner", "--workspace", str(shop), "--name", "Eve")
    rows = [(row["user"], row["role"], row["workspace"], row["from"]) for row in house.json("users")]
    assert rows == [
        ("telegram:7", "owner", "", "config.toml"),
        (ME, "owner", "", "this machine"),
        ("telegram:5", "admin", "", "shell"),
        ("telegram:5", "owner", str(shop), "shell"),
    ]
    assert re.search(r"^telegram:5 +admin +everywhere +shell", house.run("users").stdout, re.MULTILINE)
    done = house.run("users", "revoke", "telegram:5", "--workspace", str(shop))
    assert done.stdout == f"telegram:5 is no longer owner in {shop}.\n"
    assert "no longer admin everywhere" in house.run("users", "revoke", "telegram:5").stdout
    assert len(house.json("users")) == 2
    assert [what for _, what in audit(house)].count("people.revoked") == 2


def test_whom_the_file_lets_in_only_the_file_puts_out(house: House) -> None:
    house.config.write_text('[people]\nmembers = ["telegram:7"]\n')
    house.config.chmod(0o600)
    done = house.run("users", "revoke", "telegram:7")
    assert done.returncode == 1
    assert str(house.config) in done.stderr and "remove the id there" in done.stderr
    assert "cannot be revoked" in house.run("users", "revoke", ME).stderr
    assert "granted nothing" in house.run("users", "revoke", "telegram:9").stderr


def test_what_was_taken_and_what_the_file_keeps_is_one_message(house: House) -> None:
    house.config.write_text('[people]\nmembers = ["telegram:7"]\n')
    house.config.chmod(0o600)
    for person, role in (("telegram:7", "admin"), (ME, "owner")):
        house.run("users", "grant", person, role)
    done = house.run("users", "revoke", "telegram:7", COLUMNS="1000")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "error: telegram:7 is no longer admin everywhere, but telegram:7 is still member everywhere,"
        f" by {house.config}: remove the id there; that takes effect at once.\n"
    )
    mine = house.run("users", "revoke", ME, COLUMNS="1000")
    assert mine.stdout == ""
    assert f"{ME} is no longer owner everywhere, but {ME} is the user of this machine" in mine.stderr
    assert [row["from"] for row in house.json("users")] == ["config.toml", "this machine"]


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["bob", "member"], "channel:id"),
        (["telegram:1", "king"], "king"),
        (["telegram:1", "member", "--workspace", "/nope"], "/nope"),
        (
            ["nope:1", "member"],
            """'nope:1' cannot be anyone's id: there is no channel "nope"; installed: discord, tele""",
        ),
        (["telegram:@ada", "owner"], "on Telegram an id is a number, such as 12345; leave it out"),
        (["discord:ada", "owner"], "on Discord an id is a long number"),
    ],
)
def test_a_grant_that_means_nothing_is_refused(house: House, words: list[str], hint: str) -> None:
    done = house.run("users", "grant", *words)
    assert done.returncode != 0
    assert hint in done.stderr
    assert not (house.home / "pilothouse.db").exists()


@pytest.mark.parametrize("person", [ME, "terminal:ada", "telegram:-1001234567890", "telegraph:ada"])
def test_whoever_a_channel_may_know_can_be_granted(house: House, person: str) -> None:
    assert house.run("users", "grant", person, "member").stdout == f"{person} is member everywhere.\n"


def test_a_grant_closes_the_question_whether_to_let_them_in(house: House) -> None:
    message = InboundMessage(ADDRESS, Author(UserId("telegram:5"), "Eve"), "1", "may I?")
    other = InboundMessage(ADDRESS, Author(UserId("telegram:6"), "Bob"), "2", "may I?")
    for one in (message, other):
        store(house, lambda tx, one=one: ask_to_join(tx, new_id, People(), one, time.time()))
    house.run("users", "grant", "telegram:5", "admin")
    (left,) = store(house, lambda tx: tx.asks.open_about("join"))
    assert left.ask.payload["user"] == "telegram:6"


def test_an_ask_has_one_word_wherever_it_is_listed(house: House) -> None:
    ask(house, topic="join")
    assert re.search(r"ask-one +join +open", house.run("asks").stdout)
    assert re.search(r"ask-one +join +\d+s", house.run("status").stdout)
    assert re.search(r"kind +join\nresult +open", house.run("asks", "show", "ask-one").stdout)


def test_a_code_that_nobody_can_send_anywhere_says_so(house: House) -> None:
    alone = house.run("pair", "--json")
    assert "No channel is on" in alone.stderr
    assert json.loads(alone.stdout)["code"]
    house.config.write_text("[channels.telegraph]\nenabled = false\n")
    assert "No channel is on" in house.run("pair").stderr
    house.config.write_text("[channels.telegraph]\n")
    assert house.run("pair").stderr == ""


def test_the_first_code_makes_the_owner_and_the_next_a_member(house: House) -> None:
    text = house.run("pair").stdout
    assert "lets the first who sends it in as owner" in text and "works once, for 10 minutes" in text
    code = parse_code(text.splitlines()[0])
    assert code is not None
    sender = Author(UserId("telegram:5"), "Eve")
    grant, _ = store(house, lambda tx: pair(tx, new_id, People(), code, sender, time.time()))
    assert grant is not None and grant.role == "owner"
    assert house.json("pair")["role"] == "member"
    assert house.json("pair", "--role", "admin")["role"] == "admin"
    assert {house.json("pair")["code"] for _ in range(3)} != {code}


def test_what_waits_is_listed_and_shown_whole(house: House) -> None:
    assert house.run("asks").stdout == "No open asks.\n"
    ask(house)
    ask(house, "ask-two", authority=Authority(Approvers(("admin",), quorum=2)))
    listed = house.run("asks").stdout
    assert re.search(
        r"^ask-two +approval +open +\w+ +0 of 2 +telegram:7 +The engine asks: Run make\?",
        listed,
        re.MULTILINE,
    )
    shown = house.run("asks", "show", "two").stdout
    assert hash_payload(MAKE) in shown and "2 people must allow this" in shown
    assert "command: make\\u001b[31m all" in shown, "and nothing in it drives the terminal"
    assert house.json("asks", "show", "ask-two")["ask"]["payload"] == MAKE


def test_a_list_names_the_command_that_would_run_and_not_the_words_of_the_model(house: House) -> None:
    command = "rm -rf build " + "a-folder " * 30 + "\u202e/"
    ask(
        house,
        title="Delete the folder build\nIt is old.",
        asker="Claude Code",
        call=Call("command", "Bash", command=command),
    )
    for words in (["asks"], ["status"], ["asks", "show", "one"]):
        told = house.run(*words).stdout
        assert "Claude Code wants to run:" in told and "a-folder \\u202e/" in told
        assert "Delete the folder build" not in told
    assert "It is old." in told, "the engine's reason is shown with the whole ask"


def test_in_a_pipe_what_is_asked_is_listed_whole(house: House) -> None:
    title = "Run make with " + "a flag and " * 20 + "nothing else?"
    ask(house, title=title)
    assert title in house.run("asks").stdout


def test_an_answer_from_the_shell_is_the_owners_and_is_said_where_it_was_asked(house: House) -> None:
    ask(house, offers=(RuleOffer("session", "allow command make"),))
    refused = house.run("asks", "allow", "one", "--always")
    assert refused.returncode == 1 and "can only be allowed once" in refused.stderr
    done = house.run("asks", "allow", "one", "--session")
    assert (done.returncode, done.stdout) == (
        0,
        f"Allowed for this session by {getpass.getuser()}: Run make?\n",
    )
    (row,) = [row for row in house.json("asks", "--all") if row["ask"]["id"] == "ask-one"]
    assert (row["state"], row["decision"]["by"], row["decision"]["remember"]) == ("answered", ME, "session")
    said = store(house, lambda tx: tx.outbox.by_key("ask:ask-one:settled"))
    assert said is not None and "Allowed" in bytes(said.body).decode()
    again = house.run("asks", "deny", "one", "--reason", "too late")
    assert again.returncode == 1
    assert f"Already answered by {getpass.getuser()}: allowed" in again.stderr
    assert audit(house)[:3] == [(ME, "ask.refused"), (ME, "ask.allow"), (ME, "ask.refused")]


def test_a_question_is_answered_by_options_or_in_words(house: House) -> None:
    options = (Option("r", "Red"), Option("b", "Blue: cold"))
    ask(house, "ask-q1", "question", options=options, many=True)
    ask(house, "ask-q2", "question", options=options, free_text=True)
    assert house.json("asks", "answer", "ask-q1", "1", "blue")["accepted"]
    assert house.json("asks", "answer", "ask-q2", "rather", "green")["accepted"]
    decisions = {row["ask"]["id"]: row["decision"] for row in house.json("asks", "--all")}
    assert decisions["ask-q1"]["options"] == ["r", "b"]
    assert decisions["ask-q2"]["text"] == "rather green"


def test_one_person_at_the_shell_is_no_quorum(house: House) -> None:
    ask(house, authority=Authority(Approvers(("admin",), quorum=2)))
    assert "1 of 2 said yes" in house.run("asks", "allow", "one").stdout
    assert house.run("asks", "allow", "one").returncode == 1
    assert house.json("asks")[0]["state"] == "open"


def test_the_one_that_is_open_is_meant_and_not_those_that_are_settled(house: House) -> None:
    for id in ("ask-ab", "ask-ac", "ask-ad"):
        ask(house, id)
    for id in ("ab", "ad"):
        assert house.run("asks", "deny", id).returncode == 0
    assert house.json("asks", "show", "ask-a")["ask"]["id"] == "ask-ac"
    assert house.json("asks", "show", "ab")["ask"]["id"] == "ask-ab"
    assert house.run("asks", "deny", "a").returncode == 0
    assert "Several asks" in house.run("asks", "show", "a").stderr


def test_a_settled_ask_tells_who_decided_what_and_what_ran(house: House) -> None:
    for id in ("ask-once", "ask-used", "ask-changed", "ask-denied", "ask-late"):
        ask(house, id)

    def settle(tx: Tx) -> None:
        at, alice = time.time(), UserId("telegram:7")
        tx.set_fact(NAME.of(alice), "Alice")
        edited = {"command": "make none"}
        for id, decision in {
            "ask-once": Decision("allow", by=alice),
            "ask-used": Decision("allow", by=alice, remember="session"),
            "ask-changed": Decision("allow", by=alice, input=edited),
            "ask-denied": Decision("deny", by=alice, text="not today"),
        }.items():
            tx.asks.move(AskId(id), "answered", at=at, decision=decision)
        tx.asks.mark_used(AskId("ask-used"))
        tx.asks.mark_used(AskId("ask-changed"))
        tx.asks.move(AskId("ask-late"), "expired", at=at)

    store(house, settle)
    listed = house.run("asks", "--all").stdout
    for row in (
        r"ask-once +approval +allowed, by Alice",
        r"ask-used +approval +allowed for this session, by Alice",
        r"ask-changed +approval +allowed with a change, by Alice",
        r"ask-denied +approval +denied: not today, by Alice",
        r"ask-late +approval +expired",
    ):
        assert re.search(row, listed), listed
    shown = {
        id: house.run("asks", "show", f"ask-{id}").stdout
        for id in ("once", "used", "changed", "denied", "late")
    }
    assert re.search(
        r"result +allowed, by Alice \(telegram:7\), \d+s ago\nran +not yet: the engine", shown["once"]
    )
    assert "ran     yes, exactly as shown below" in shown["used"] and "Changed to" not in shown["used"]
    assert "ran     yes, with the change below" in shown["changed"]
    assert shown["changed"].endswith("Changed to:\n\ntool: Bash\ncommand: make none\n")
    assert "ran     no\n" in shown["denied"] and "expired: nobody answered in time" in shown["late"]


def test_what_there_is_not_is_said(house: House) -> None:
    ask(house, "ask-ab")
    ask(house, "ask-ac")
    assert "There is no ask" in house.run("asks", "allow", "zz").stderr
    assert "Several asks" in house.run("asks", "deny", "ask-a").stderr
    done = house.run("asks", "deny", "zz", "--json")
    assert done.returncode == 1 and "zz" in done.stderr
    assert json.loads(house.run("asks", "--json").stdout)[0]["state"] == "open"


def test_looking_makes_no_store(house: House) -> None:
    house.run("asks")
    house.run("users")
    assert not list(Path(house.home).glob("*.db"))
