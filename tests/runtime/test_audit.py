"""The audit log tells every authorisation, ask, answer, command, change of trust and cause of a turn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.runtime.puppet import PuppetEngine, Strings, echo
from tests.runtime.rig import MEMBER, STRANGER, Rig, open_rig

from pilothouse.channels.memory import PERSON
from pilothouse.core.ask import Ask
from pilothouse.core.audit import AuditHead, AuditRow
from pilothouse.core.ids import AskId
from pilothouse.core.people import People
from pilothouse.core.policy import Ruling, Site
from pilothouse.runtime.audit import MAX_NOTES, Trail
from pilothouse.runtime.trust import trust, untrust


def detail(row: AuditRow) -> dict[str, Any]:
    return msgspec.json.decode(row.detail) if row.detail else {}


async def rows(rig: Rig) -> list[AuditRow]:
    return (await rig.store.read(lambda tx: tx.audit.list(limit=1000)))[::-1]


async def asking(strings: Strings) -> None:
    await strings.start()
    decision = await strings.ask(Ask(AskId("a"), "approval", "Run it?", {"tool": "Bash", "command": "make"}))
    await strings.end(f"told: {decision.verdict}")


async def test_a_message_is_told_with_its_sender_and_a_turn_with_its_cause(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(echo)) as rig:
        receipt = await rig.channel.say("hello", author=MEMBER)
        (turn,) = await rig.until_ended()
        told = [row for row in await rows(rig) if row.what in ("sender.accepted", "turn.started")]
        assert [(row.who, row.what) for row in told] == [
            (MEMBER.id, "sender.accepted"),
            (MEMBER.id, "turn.started"),
        ]
        assert detail(told[0])["message"] == receipt.message_id
        assert detail(told[1])["turn"] == turn.id and detail(told[1])["cause"] == "message"


async def test_a_repeat_is_not_told_twice(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await rig.channel.say("hello", native_id="one")
        await rig.channel.say("hello", native_id="one")
        await rig.channel.say("/new", native_id="two")
        await rig.channel.say("/new", native_id="two")
        await rig.until_ended()
        assert (await rig.audited("sender.")) == ["sender.accepted"]
        assert (await rig.audited("command.")) == ["command.new"]


async def test_a_command_is_told_with_its_words_and_its_person(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await rig.channel.say("/model big", author=PERSON)
        (row,) = [row for row in await rows(rig) if row.what.startswith("command.")]
        assert (row.who, row.what, detail(row)["args"]) == (PERSON.id, "command.model", "big")


async def test_a_stranger_who_knocks_often_is_one_row_a_day(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        for _ in range(50):
            await rig.channel.say("let me in", author=STRANGER)
        assert len(await rig.audited_by(STRANGER, "sender.refused")) == 1


async def test_what_waits_for_the_log_is_written_before_the_gateway_ends(tmp_path: Path) -> None:
    async with open_rig(tmp_path, messages_per_minute=1) as rig:
        for _ in range(21):
            await rig.channel.say("hello", author=MEMBER)
        rig.gateway.stop()
        await rig.over.wait()
        told = [row for row in await rig.audited_by(MEMBER) if row.what == "sender.refused"]
        assert sum(detail(row).get("times", 1) for row in told) == 20


async def test_an_ask_is_told_with_its_hash_its_answer_and_every_refusal(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(asking)) as rig:
        await rig.channel.say("go")
        ask = await rig.until_asked()
        forged = msgspec.structs.replace(ask, payload_hash="0" * 64)
        assert not (await rig.channel.answer(forged, "allow")).accepted
        assert not (await rig.channel.answer(ask, "allow", author=MEMBER)).accepted
        assert (await rig.channel.answer(ask, "allow")).accepted
        await rig.until_said("told: allow")
        told = [row for row in await rows(rig) if row.what.startswith("ask.")]
        assert [(row.what, detail(row)["hash"]) for row in told] == [
            ("ask.asked", ask.payload_hash),
            ("ask.refused", "0" * 64),
            ("ask.refused", ask.payload_hash),
            ("ask.allow", ask.payload_hash),
        ]
        assert [row.who for row in told[1:]] == [PERSON.id, MEMBER.id, PERSON.id]
        assert [detail(row)["why"] for row in told[1:3]] == ["forged", "foreign"]


async def test_what_a_rule_decided_without_a_person_is_told(tmp_path: Path) -> None:
    class Allows:
        async def judge(self, ask: Ask, site: Site) -> Ruling:
            return Ruling("allow", "make is fine")

    async with open_rig(tmp_path, PuppetEngine(asking), policy=Allows()) as rig:
        await rig.channel.say("go")
        await rig.until_said("told: allow")
        (row,) = await rig.until(lambda tx: [row for row in tx.audit.list() if row.what == "rule.allow"])
        assert detail(row)["rule"] == "make is fine" and detail(row)["tool"] == "Bash"


async def test_trust_is_told_when_it_is_given_and_when_it_is_taken(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await rig.store.write(lambda tx: trust(tx, str(tmp_path), "terminal:ann", 1.0))
        await rig.store.write(lambda tx: untrust(tx, str(tmp_path), "terminal:ann", 2.0))
        await rig.store.write(lambda tx: untrust(tx, str(tmp_path), "terminal:ann", 3.0))
        assert await rig.audited("trust.") == ["trust.granted", "trust.revoked"]


async def test_roles_that_the_configuration_grants_are_told_once_and_again_when_they_change(
    tmp_path: Path,
) -> None:
    async def granted(people: People, count: int) -> list[dict[str, Any]]:
        async with open_rig(tmp_path, people=people) as rig:
            found = await rig.until(
                lambda tx: (
                    len(told := [row for row in tx.audit.list(limit=99) if row.what == "role.configured"])
                    >= count
                    and told
                )
            )
            return [detail(row) for row in found]

    both = People({PERSON.id: "owner", MEMBER.id: "member"})
    assert len(await granted(both, 2)) == 2
    assert len(await granted(both, 2)) == 2
    told = await granted(People({PERSON.id: "owner"}), 3)
    assert told[0] == {"user": MEMBER.id, "role": "none"}


async def test_how_far_the_log_goes_is_noted_outside_at_the_end(tmp_path: Path) -> None:
    heads: list[AuditHead] = []
    async with open_rig(tmp_path) as rig:
        rig.ports.note_head = lambda head, _at: heads.append(head)
        await rig.channel.say("hello")
        await rig.until_ended()
        rig.gateway.stop()
        await rig.over.wait()
        assert heads[-1] == await rig.store.read(lambda tx: tx.audit.head())
        assert await rig.store.read(lambda tx: tx.audit.verify(heads).intact)


@given(st.lists(st.sampled_from(["a", "b", "c"]), max_size=60), st.lists(st.integers(0, 60), max_size=3))
def test_a_trail_counts_everything_whoever_takes_and_gives_back(
    whats: list[str], taken_at: list[int]
) -> None:
    trail = Trail()
    for number, what in enumerate(whats):
        trail.note(float(number), "ann", what)
        if number in taken_at:
            trail.put_back(trail.take())
    notes = trail.take()
    assert {note.what: note.times for note in notes} == {what: whats.count(what) for what in set(whats)}
    assert trail.take() == ()


def test_a_trail_is_bounded_and_says_how_many_it_left_out() -> None:
    trail = Trail()
    for number in range(MAX_NOTES + 20):
        trail.note(1.0, f"stranger {number}", "sender.refused")
    notes = trail.take()
    assert len(notes) == MAX_NOTES + 1
    assert (notes[-1].what, notes[-1].times) == ("audit.left_out", 20)
