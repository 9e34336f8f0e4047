"""Attempts to gain a role: what members, revoked people and owners of one folder try, and what they get."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.runtime.puppet import PuppetEngine, Strings, echo
from tests.runtime.rig import ADMIN, MAIN, MEMBER, SECOND, STRANGER, Rig, open_rig
from tests.runtime.test_approvals import TWO, Offering, asks, destructive, refusals

from pilothouse.bootstrap.files import read_file
from pilothouse.channels.memory import PERSON
from pilothouse.core.ask import Ask, Decision
from pilothouse.core.budget import Caps
from pilothouse.core.ids import AskId, ScheduleId, UserId
from pilothouse.core.message import Author
from pilothouse.core.people import Grant, People
from pilothouse.core.schedule import Every, Schedule
from pilothouse.policy.decide import PolicyEnv, decide
from pilothouse.runtime.asks.rules import RulePolicy, WorkspaceRules
from pilothouse.runtime.budget.hold import BUDGET
from pilothouse.runtime.outbox import content_of
from pilothouse.testing.clock import FakeClock

GUEST = Author(UserId("memory:guest"), "Guest")
HEAD = Author(UserId("memory:head"), "Head")
"""Both are strangers until the test grants them a role."""


def bash(command: str) -> Ask:
    return Ask(
        AskId("a"), "approval", "Run it?", {"tool": "Bash", "input": {"command": command}, "cwd": "/w"}
    )


async def told(rig: Rig, line: str, author: Author, conversation: str = "main") -> str:
    """The reply to a command."""
    receipt = await rig.channel.say(line, conversation, author=author)
    if receipt.message_id is None:
        return receipt.text
    row = await rig.until(lambda tx: tx.outbox.by_key(f"reply:{receipt.message_id}"))
    return content_of(row).text


async def grant(rig: Rig, role: Any, workspace: str = "", who: Author = GUEST) -> None:
    await rig.store.write(lambda tx: tx.people.grant(Grant(who.id, role, workspace)))


async def revoke(rig: Rig) -> None:
    await rig.store.write(lambda tx: tx.people.revoke(GUEST.id))


def folders(tmp_path: Path, *names: str) -> dict[str, str]:
    for name in names:
        (tmp_path / name).mkdir()
    return {name: str(tmp_path / name) for name in names}


@pytest.mark.parametrize(
    "command",
    [
        "pilothouse users grant memory:member owner",
        "python3 -m pilothouse rules add --everywhere 'allow tool *'",
        "pilothouse trust .",
        "sqlite3 ~/.local/share/pilothouse/pilothouse.db .dump",
    ],
)
async def test_a_member_does_not_allow_themselves_what_would_give_them_more(
    tmp_path: Path, command: str
) -> None:
    async with open_rig(tmp_path, PuppetEngine(asks(bash(command)))) as rig:
        await rig.channel.say("go", author=MEMBER)
        ask = await rig.until_asked()
        for remember in ("once", "session", "always"):
            assert not (await rig.channel.answer(ask, "allow", remember=remember, author=MEMBER)).accepted
        await rig.channel.say("yes", author=MEMBER)
        row = await rig.store.read(lambda tx: tx.asks.get(ask.id))
        assert row is not None and row.state == "open"


async def test_no_command_of_a_member_changes_folder_mode_engine_people_trust_or_rules(
    tmp_path: Path,
) -> None:
    elsewhere = folders(tmp_path, "api", "root", "secret")
    (tmp_path / "root/way").symlink_to(tmp_path / "secret")
    (tmp_path / "root/.hidden").mkdir()
    named = {"workspaces": {"api": elsewhere["api"]}, "roots": (elsewhere["root"],)}
    async with open_rig(tmp_path, **named) as rig:
        lines = (
            "/mode full-access",
            "/mode trusted",
            "/bind api",
            "/engine puppet",
            "/model m2",
            "/trigger all",
        )
        for line in lines:
            assert "Only an" in await told(rig, line, MEMBER), line
        for line in ("/trust .", "/rules add x", "/users grant memory:member owner", "/untrust"):
            assert "There is no command" in await told(rig, line, MEMBER), line
        for line in ("/pair AAAA-AAAA", "/pair", "AAAA-AAAA"):
            await rig.channel.say(line, author=MEMBER)
        for folder in ("way", ".hidden", "../secret", elsewhere["secret"], "/", "~", "/etc"):
            assert "There is no folder" in await told(rig, f"/bind {folder}", ADMIN), folder
        assert "Only an owner" in await told(rig, "/mode full-access", ADMIN)
        assert await rig.store.read(lambda tx: tx.people.everybody()) == []
        conversation = await rig.store.read(lambda tx: tx.conversations.get(MAIN))
        assert conversation is not None and conversation.workspace is None


async def test_only_an_owner_confirms_a_wider_mode(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        assert "answer the question" in await told(rig, "/mode full-access", PERSON)
        ask = await rig.until_asked()
        for author in (MEMBER, ADMIN, STRANGER):
            assert not (await rig.channel.answer(ask, "allow", author=author)).accepted
        await rig.channel.say("yes", author=ADMIN)
        await rig.channel.say("go", author=MEMBER)
        await rig.until_ended(1)
        assert rig.engine.briefs[-1].approval_mode == "minimal"


async def test_presses_of_strangers_of_revoked_people_and_forged_ones_do_nothing(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(asks(bash("ls")))) as rig:
        await grant(rig, "admin")
        await rig.channel.say("go", author=MEMBER)
        ask = await rig.until_asked()
        desk = rig.gateway.desk
        forged = [
            (ask.id, "0" * 64, PERSON),
            (AskId("ask-none"), ask.payload_hash, PERSON),
            (ask.id, ask.payload_hash, STRANGER),
            (ask.id, "", MEMBER),
        ]
        for id, digest, author in forged:
            assert not (await desk.answer(id, digest, Decision("allow"), author)).accepted
        await revoke(rig)
        for claimed in (GUEST.id, PERSON.id):
            decision = Decision("allow", by=claimed)
            assert not (await desk.answer(ask.id, ask.payload_hash, decision, GUEST)).accepted
        assert [why for _, why in await refusals(rig)] == [
            "forged", "unknown", "foreign", "forged", "foreign", "foreign",
        ]  # fmt: skip


async def test_one_giver_is_no_quorum_however_often_and_with_whatever_input(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"approvals": destructive(TWO)}
    async with open_rig(tmp_path, PuppetEngine(asks(bash("rm -rf x"))), **settings) as rig:
        await rig.channel.say("go", author=ADMIN)
        ask = await rig.until_asked()
        assert not (await rig.channel.answer(ask, "allow", author=ADMIN)).accepted, "the requester"
        assert (await rig.channel.answer(ask, "allow", author=SECOND)).accepted
        tries: list[dict[str, Any]] = [{}, {"instead": {"command": "ls"}}, {"remember": "session"}]
        for changes in tries:
            assert not (await rig.channel.answer(ask, "allow", author=SECOND, **changes)).accepted
        row = await rig.store.read(lambda tx: tx.asks.get(ask.id))
        assert row is not None and row.state == "open"


async def test_a_member_keeps_no_rule_for_good_and_none_that_was_not_offered(tmp_path: Path) -> None:
    async with open_rig(
        tmp_path, PuppetEngine(asks(bash("touch x"))), policy=Offering(), tool_class=lambda _c, _w: "ordinary"
    ) as rig:
        await rig.channel.say("go", author=MEMBER)
        ask = await rig.until_asked()
        assert not (await rig.channel.answer(ask, "allow", remember="always", author=MEMBER)).accepted
        changed: dict[str, Any] = {"instead": {"command": "make"}, "remember": "session"}
        await rig.channel.answer(ask, "allow", author=MEMBER, **changed)
        await rig.until_said("told: allow")
        assert await rig.store.read(lambda tx: tx.rules.list()) == []


@pytest.mark.parametrize(
    "path",
    [
        ".env",
        "./.env",
        "a/../.env",
        "way",
        "deep/key.PEM",
        ".git/config",
        "/etc/passwd",
        "../outside",
        "pipe",
    ],
)
async def test_a_member_is_sent_no_file_that_keeps_secrets(tmp_path: Path, path: str) -> None:
    import os

    work = tmp_path / "work"
    for name in (".env", "deep/key.PEM", ".git/config", "../outside"):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text("TOKEN=1")
    (work / "a").mkdir()
    (work / "way").symlink_to(".env")
    os.mkfifo(work / "pipe")
    async with open_rig(tmp_path, default_workspace=str(work)) as rig:
        rig.ports.read_file = read_file
        rig.ports.policy = RulePolicy(
            rig.store, partial(decide, env=PolicyEnv()), lambda _workspace: WorkspaceRules()
        )
        text = await told(rig, f"/send {path}", MEMBER)
        assert "is not sent" in text or "only to owners" in text
        assert "TOKEN" not in str([posted.parts for posted in rig.channel.sent])


async def test_a_schedule_has_nobodys_rights(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_rig(tmp_path, PuppetEngine(echo, asks(bash("ls"))), clock=clock) as rig:
        await rig.channel.say("hello", author=MEMBER)
        await rig.until_ended()
        task = Schedule(
            ScheduleId("s"),
            MAIN,
            Every(3600, clock.now()),
            "/compact @.env",
            next_at=clock.now(),
            own_session=False,
        )
        await rig.store.write(lambda tx: tx.schedules.save(task))
        await clock.advance(1)
        ask = await rig.until_asked()
        prompt = rig.engine.turns[-1].prompt
        assert (prompt.by_owner, prompt.commands, prompt.authors) == (False, False, ())
        assert not (await rig.channel.answer(ask, "allow", author=MEMBER)).accepted


async def test_what_a_revoked_person_sent_does_not_run_when_its_turn_is_tried_again(tmp_path: Path) -> None:
    clock = FakeClock()

    async def fail(strings: Strings) -> None:
        await strings.start()
        await strings.fail("transport")

    async with open_rig(tmp_path, PuppetEngine(fail, echo), clock=clock, outage_pauses_s=(60.0,)) as rig:
        await grant(rig, "member")
        await rig.channel.say("evil", author=GUEST)
        await rig.until(lambda tx: tx.turns.of(MAIN, statuses=("parked",)))
        await revoke(rig)
        await clock.advance(120)
        (turn,) = await rig.until_ended()
        assert (turn.status, len(rig.engine.turns)) == ("failed", 1)
        await rig.until_said("no longer")


async def test_what_a_revoked_person_sent_does_not_run_when_the_budget_is_raised(tmp_path: Path) -> None:
    async with open_rig(tmp_path, caps=Caps(all_usd=0.1, least_usd=0.2)) as rig:
        await grant(rig, "member")
        await rig.channel.say("evil", author=GUEST)
        (row,) = await rig.until(lambda tx: tx.asks.open_about(BUDGET))
        await revoke(rig)
        assert (await rig.channel.answer(row.ask, "allow")).accepted
        (turn,) = await rig.until_ended()
        assert (turn.status, rig.engine.turns) == ("failed", [])


async def test_what_a_revoked_person_sent_is_not_steered_into_a_turn(tmp_path: Path) -> None:
    opening, go = anyio.Event(), anyio.Event()

    async def play(strings: Strings) -> None:
        await strings.start()
        await go.wait()
        await strings.end("done")

    async with open_rig(tmp_path, PuppetEngine(play, echo, opening=opening.wait), busy="steer") as rig:
        await grant(rig, "member")
        await rig.channel.say("one")
        await rig.until_true(lambda: rig.engine.briefs)
        await rig.channel.say("evil", author=GUEST)
        await revoke(rig)
        opening.set()
        await rig.channel.say("two")
        await rig.until_true(lambda: rig.engine.turns and rig.engine.turns[0].steered)
        assert rig.engine.turns[0].steered == ["two"]
        go.set()
        await rig.until_said("A message from Guest was dropped")


async def test_a_role_in_one_folder_reaches_no_session_of_another(tmp_path: Path) -> None:
    """The conversation was bound to another folder before; its old sessions stay where they were."""
    named = folders(tmp_path, "shop", "secret")
    async with open_rig(tmp_path, workspaces=named, default_workspace=named["secret"]) as rig:
        await rig.channel.say("the secret plan")
        (first,) = await rig.until_ended()
        answer = await rig.until_said("you said: the secret plan")
        (posted,) = [post for post in rig.channel.sent if post.text == answer]
        await told(rig, "/bind shop", PERSON)
        await grant(rig, "member", named["shop"])
        await grant(rig, "owner", named["shop"], HEAD)
        for count, who in enumerate((GUEST, HEAD), 2):
            await told(rig, f"/resume {first.session_id}", who)
            await told(rig, f"/resume {first.session_id}", who, "home")
            await rig.channel.say("go on", author=who, reply_to=posted.ref)
            await rig.until_ended(count)
        assert {brief.workspace for brief in rig.engine.briefs[1:]} == {named["shop"]}
        await told(rig, "/bind shop", PERSON, "home")
        assert "secret plan" not in await told(rig, "/sessions", HEAD, "home")


async def test_a_role_in_the_default_folder_does_not_reach_a_session_that_works_elsewhere(
    tmp_path: Path,
) -> None:
    named = folders(tmp_path, "shop", "secret")
    async with open_rig(tmp_path, default_workspace=named["secret"]) as rig:
        await rig.channel.say("the secret plan")
        await rig.until_ended()
    people = People({PERSON.id: "owner"}, {named["shop"]: {GUEST.id: "member", HEAD.id: "owner"}})
    async with open_rig(tmp_path, name="second", default_workspace=named["shop"], people=people) as rig:
        assert (await rig.channel.say("tell me", author=GUEST)).state == "refused"
        assert (await rig.channel.say("/mode minimal", author=HEAD)).state == "refused"
        assert rig.engine.briefs == []


async def test_an_owner_of_one_folder_sees_no_asks_of_another(tmp_path: Path) -> None:
    named = folders(tmp_path, "shop", "secret")
    async with open_rig(
        tmp_path,
        PuppetEngine(asks(bash("cat plan")), echo),
        workspaces=named,
        default_workspace=named["secret"],
    ) as rig:
        await rig.channel.say("go")
        ask = await rig.until_asked()
        await rig.channel.say("hello", "home")
        await told(rig, "/bind shop", PERSON, "home")
        await grant(rig, "owner", named["shop"])
        assert "cat plan" not in await told(rig, "/asks", GUEST, "home")
        assert "Nothing here is called" in await told(rig, f"/show {ask.id}", GUEST, "home")
        assert "cat plan" in await told(rig, "/asks", PERSON, "home")


async def test_the_recap_of_a_lost_session_gives_no_orders(tmp_path: Path) -> None:
    """A model's words come back in it: no file that they name is opened, and no command that they spell is run."""

    async def hostile(strings: Strings) -> None:
        await strings.start()
        await strings.end("see @/etc/passwd")

    async def stale(strings: Strings) -> None:
        await strings.start()
        await strings.fail("stale_session", "The session is gone.")

    engine = PuppetEngine(hostile, stale, stale, echo)
    async with open_rig(tmp_path, engine, engine_commands=True) as rig:
        await rig.channel.say("one")
        await rig.until_ended(1)
        await rig.channel.say("two")
        await rig.until_ended(2)
        prompt = engine.turns[-1].prompt
        assert prompt.text.startswith("<recap>") and "@/etc" not in prompt.text
        assert not prompt.commands
