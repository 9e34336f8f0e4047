"""Pairing: a code from the machine lets in whoever sends it, once, soon, and nobody who guesses."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runtime.puppet import PuppetEngine, Strings, until_interrupted
from tests.runtime.rig import MEMBER, STRANGER, Rig, open_rig

from pilothouse.core.ask import Ask
from pilothouse.core.ids import AskId, ConversationId, UserId
from pilothouse.core.message import Author, InboundMessage, MessageEdited
from pilothouse.core.people import People, Role
from pilothouse.runtime.admission import (
    ALPHABET,
    CODE_OPEN_S,
    MAX_TRIES,
    MAX_TRIES_BY_ANYONE,
    has_owner,
    offer_pairing,
    parse_code,
)
from pilothouse.testing.clock import FakeClock

CODE = "K7QM2XFP"
SHOWN = "K7QM-2XFP"
MACHINE = UserId("terminal:ada")


async def offer(rig: Rig, role: Role = "owner", code: str = CODE, workspace: str = "") -> None:
    at = rig.ports.clock.now()
    await rig.store.write(lambda tx: offer_pairing(tx, code, role=role, workspace=workspace, at=at))


@pytest.mark.parametrize(
    "text",
    [
        SHOWN,
        SHOWN.lower(),
        f" {SHOWN}\n",
        f"`{SHOWN}`",
        f"**{SHOWN}**",
        f"/pair {SHOWN}",
        "/pair k7qm2xfp",
        "/pair@bot K7QM 2XFP",
    ],
)
async def test_a_code_lets_its_sender_in_however_they_send_it(tmp_path: Path, text: str) -> None:
    async with open_rig(tmp_path, people=People()) as rig:
        await offer(rig)
        assert (await rig.channel.say(text, author=STRANGER)).state == "queued"
        await rig.until_said("You are let in as owner.")
        await rig.channel.say("hello", author=STRANGER)
        await rig.until_said("you said: hello")
        assert not any(CODE[:4] in strings.prompt.text for strings in rig.engine.turns)


async def test_a_code_counts_once(tmp_path: Path) -> None:
    other = Author(UserId("memory:other"), "Other")
    async with open_rig(tmp_path) as rig:
        await offer(rig, "member")
        assert (await rig.channel.say(SHOWN, author=STRANGER)).state == "queued"
        assert "is wrong" in (await rig.channel.say(SHOWN, author=other)).text
        assert await rig.store.read(lambda tx: tx.people.of(other.id)) == []


async def test_pairing_closes_the_question_whether_to_let_them_in(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await rig.channel.say("hello", "office")
        await rig.channel.say("may I?", "lobby", author=STRANGER)
        ask = await rig.until_asked("Let Stranger", ConversationId("memory:office"))
        await offer(rig, "admin")
        await rig.channel.say(SHOWN, "lobby", author=STRANGER)
        assert await rig.store.read(lambda tx: tx.asks.open_about("join")) == []
        row = await rig.store.read(lambda tx: tx.asks.get(ask.id))
        assert (row and row.state) == "withdrawn"
        await rig.until_said("No longer open: Let Stranger")
        await rig.until_said("(let in as admin)")


async def test_a_pairing_that_lets_in_is_logged_as_no_refusal(tmp_path: Path) -> None:
    async with open_rig(tmp_path, people=People()) as rig:
        await offer(rig)
        await rig.channel.say(SHOWN, author=STRANGER)
        assert [name for name, _ in rig.logged if name.startswith("message.")][:1] == ["message.accepted"]
        await rig.channel.say("0000-0000", author=Author(UserId("memory:other"), "Other"))
        assert "message.refused" in [name for name, _ in rig.logged]


async def test_a_platform_that_brings_the_code_twice_does_no_harm(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await offer(rig, "member")
        await rig.channel.say(SHOWN, author=STRANGER, native_id="once")
        again = await rig.channel.say(SHOWN, author=STRANGER, native_id="once")
        assert again.state == "duplicate"
        await rig.until_idle()
        assert rig.engine.turns == []


async def test_a_code_that_is_over_or_was_replaced_is_no_code(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_rig(tmp_path, clock=clock) as rig:
        await offer(rig)
        await offer(rig, code="0" * 8)
        assert "is wrong" in (await rig.channel.say(SHOWN, author=STRANGER)).text
        await clock.advance(601)
        assert "has expired" in (await rig.channel.say("0000-0000", author=STRANGER)).text
        assert await rig.store.read(lambda tx: tx.people.everybody()) == []


async def test_whoever_guesses_is_soon_not_heard_any_more(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await offer(rig)
        told = [(await rig.channel.say(f"/pair 0000000{n}", author=STRANGER)).text for n in range(8)]
        assert all("is wrong" in text for text in told[:MAX_TRIES])
        assert "Too many" in told[MAX_TRIES]
        assert told[MAX_TRIES + 1 :] == [""] * (8 - MAX_TRIES - 1)
        assert not (await rig.channel.say(SHOWN, author=STRANGER)).text, "not even with the right one"
        friend = Author(UserId("memory:friend"), "Friend")
        assert (await rig.channel.say(SHOWN, author=friend)).state == "queued", "others are not locked out"


async def test_a_code_that_many_guess_at_is_withdrawn(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await offer(rig)
        for number in range(MAX_TRIES_BY_ANYONE):
            guesser = Author(UserId(f"memory:g{number}"), "G")
            await rig.channel.say("0000-0000", author=guesser)
        assert "is wrong" in (await rig.channel.say(SHOWN, author=STRANGER)).text
        await offer(rig, code="1" * 8)
        await rig.channel.say("0000-0000", author=Author(UserId("memory:another"), "G"))
        friend = Author(UserId("memory:friend"), "Friend")
        assert (await rig.channel.say("1111-1111", author=friend)).state == "queued", "a new code counts anew"


async def test_whoever_is_let_in_already_can_rise_with_a_code_but_never_fall(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await offer(rig, "admin")
        await rig.channel.say(f"/pair {SHOWN}", author=MEMBER)
        await rig.until_said("You are let in as admin.")
        await offer(rig, "member", code="1" * 8)
        await rig.channel.say("/pair 1111-1111", author=MEMBER)
        await rig.until_said("You are already an admin here.")
        (grant,) = await rig.until(lambda tx: tx.people.of(MEMBER.id))
        assert grant.role == "admin"


@pytest.mark.parametrize("place", ["main", "group"])
async def test_a_code_alone_is_a_code_from_whoever_is_let_in_already_too(tmp_path: Path, place: str) -> None:
    async with open_rig(tmp_path) as rig:
        await offer(rig, "admin")
        receipt = await rig.channel.say(f"`{SHOWN}`", place, author=MEMBER, private=place == "main")
        await rig.until_said("You are let in as admin.")
        assert (await rig.inbox_row(receipt)).kind == "command"
        await rig.until_idle()
        assert rig.engine.turns == []


async def test_a_code_alone_is_a_code_even_where_nothing_else_is_a_command(tmp_path: Path) -> None:
    async def ask(strings: Strings) -> None:
        await strings.start()
        await strings.ask(Ask(AskId("q"), "question", "What name?", free_text=True))

    async with open_rig(tmp_path, PuppetEngine(ask)) as rig:
        await rig.channel.say("go", author=MEMBER)
        asked = await rig.until_asked()
        await offer(rig, "admin")
        message = InboundMessage(rig.channel.address(), MEMBER, "n2", SHOWN, overheard=True)
        await rig.gateway.desk.accept(message)
        await rig.until_said("You are let in as admin.")
        row = await rig.store.read(lambda tx: tx.asks.get(asked.id))
        assert row is not None
        assert row.state == "open", "a code is no answer"


async def test_a_code_whose_time_is_over_is_no_message_either(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_rig(tmp_path, clock=clock) as rig:
        await offer(rig, "admin")
        await clock.advance(CODE_OPEN_S + 1)
        await rig.channel.say(SHOWN, author=MEMBER)
        await rig.until_said("has expired")
        assert rig.engine.turns == []


async def test_a_message_that_waits_cannot_become_a_code(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(until_interrupted)) as rig:
        await rig.channel.say("one", author=MEMBER)
        await rig.until_live()
        address = rig.channel.address()
        waits = await rig.gateway.desk.accept(InboundMessage(address, MEMBER, "n1", "two"))
        await offer(rig, "admin")
        changed = await rig.gateway.desk.edited(MessageEdited(address, MEMBER, "n1", SHOWN))
        assert "cannot be edited into a command" in changed.text
        assert CODE[:4].encode() not in bytes((await rig.inbox_row(waits)).body)


async def test_what_only_looks_like_a_code_is_a_message_of_whoever_is_let_in(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await offer(rig, "admin")
        await rig.channel.say("2024-2025", author=MEMBER)
        await rig.until_said("you said: 2024-2025")
        await rig.channel.say(SHOWN, author=MEMBER)
        await rig.until_said("You are let in as admin.")


@pytest.mark.parametrize("role", ["owner", "admin", "member"])
async def test_whom_a_code_gives_nothing_leaves_it_for_somebody_else(tmp_path: Path, role: Role) -> None:
    async with open_rig(tmp_path, people=People({MEMBER.id: "owner"})) as rig:
        await offer(rig, role)
        await rig.channel.say(f"/pair {SHOWN}", author=MEMBER)
        await rig.until_said("You are already the owner here.")
        assert await rig.store.read(lambda tx: tx.people.everybody()) == []
        await rig.channel.say(SHOWN, author=STRANGER)
        await rig.until_said(f"You are let in as {role}.")


async def test_a_code_for_a_workspace_lets_in_there_alone(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await offer(rig, "member", workspace=str(tmp_path / "other"))
        await rig.channel.say(SHOWN, author=STRANGER)
        await rig.until_said("You are let in as member of")
        assert "no access to the workspace" in (await rig.channel.say("hello", author=STRANGER)).text


async def test_the_house_has_no_owner_until_somebody_is_one(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        alone = People({MACHINE: "owner"})
        assert not await rig.store.read(lambda tx: has_owner(tx, alone, MACHINE))
        configured = People({MACHINE: "owner", UserId("telegram:1"): "owner"})
        assert await rig.store.read(lambda tx: has_owner(tx, configured, MACHINE))
        await offer(rig)
        await rig.channel.say(SHOWN, author=STRANGER)
        assert await rig.store.read(lambda tx: has_owner(tx, alone, MACHINE))


@pytest.mark.parametrize("text", [SHOWN, f"/pair {SHOWN}", f"/pair {CODE}"])
async def test_the_code_itself_is_nowhere_in_the_store(tmp_path: Path, text: str) -> None:
    async with open_rig(tmp_path) as rig:
        await offer(rig, "member")
        await rig.channel.say(text, author=MEMBER)
        await rig.until_said("The code is still valid for somebody else.")
        await rig.channel.say(text, author=STRANGER)
        await rig.until_idle()
    for file in tmp_path.glob("pilothouse.db*"):
        if file.is_file():
            assert CODE.encode() not in file.read_bytes()
            assert SHOWN.encode() not in file.read_bytes()


@given(st.text(alphabet=ALPHABET, min_size=8, max_size=8), st.sampled_from(["", "/pair "]))
def test_every_code_that_can_be_drawn_is_understood(code: str, before: str) -> None:
    assert parse_code(f"{before}{code[:4]}-{code[4:]}") == code


@pytest.mark.parametrize(
    "text", ["hello", "K7QM2XFP", "K7QM-2XFP please", "/pair", "/pairs K7QM-2XFP", "ILOU-ILOU", ""]
)
def test_what_is_no_code_is_no_try(text: str) -> None:
    assert parse_code(text) is None
