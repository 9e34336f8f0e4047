"""Who may answer: judged at the click, by the class of what is asked; several people where several are wanted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from tests.runtime.puppet import Play, PuppetEngine, Strings, echo
from tests.runtime.rig import ADMIN, MAIN, MEMBER, SECOND, STRANGER, Rig, only_alive, open_rig

from pilothouse.channels.memory import PERSON
from pilothouse.core.ask import Ask, AskRow, Decision, Option, RuleOffer
from pilothouse.core.call import Call
from pilothouse.core.event import Asked
from pilothouse.core.ids import AskId, ConversationId, UserId
from pilothouse.core.message import Author
from pilothouse.core.people import Approvers, Grant
from pilothouse.core.policy import Ruling, Site, ToolClass

MAKE = Ask(AskId("a"), "approval", "Run make?", {"tool": "Bash", "input": {"command": "make"}})
WIPE = Ask(AskId("a"), "approval", "Run rm?", {"tool": "Bash", "input": {"command": "rm -rf build"}})
QUESTION = Ask(AskId("q"), "question", "Which colour?", options=(Option("r", "red"), Option("b", "blue")))
TWO = Approvers(("admin",), exclude_requester=True, quorum=2)
GRANTED = Author(UserId("memory:granted"), "Granted")


def by_words(call: Call | None, workspace: str) -> ToolClass:
    return "destructive" if "rm " in str(call) else "ordinary"


class Offering:
    """Asks about everything, and offers to remember it."""

    async def judge(self, ask: Ask, site: Site) -> Ruling:
        rule = "allow command make"
        return Ruling("ask", "no rule matches", (RuleOffer("session", rule), RuleOffer("always", rule)))


def asks(*asked: Ask) -> Play:
    async def play(strings: Strings) -> None:
        await strings.start()
        told = [await strings.ask(ask) for ask in asked]
        await strings.end(
            "told: " + ", ".join(f"{d.verdict} {d.text} {','.join(d.options)}".strip() for d in told)
        )

    return play


def destructive(approvers: Approvers) -> dict[str, Approvers]:
    return {"ordinary": Approvers(), "destructive": approvers}


async def row_of(rig: Rig, ask: Ask) -> AskRow:
    row = await rig.store.read(lambda tx: tx.asks.get(ask.id))
    assert row is not None
    return row


async def refusals(rig: Rig) -> list[tuple[str, str]]:
    rows = await rig.store.read(lambda tx: tx.audit.list())
    refused = [row for row in reversed(rows) if row.what == "ask.refused"]
    return [(row.who, msgspec.json.decode(row.detail)["why"]) for row in refused]


@pytest.mark.parametrize(
    ("requester", "answerer", "ask", "accepted"),
    [
        (MEMBER, MEMBER, MAKE, True),
        (MEMBER, ADMIN, MAKE, True),
        (MEMBER, PERSON, MAKE, True),
        (PERSON, MEMBER, MAKE, False),
        (MEMBER, STRANGER, MAKE, False),
        (MEMBER, MEMBER, WIPE, False),
        (MEMBER, ADMIN, WIPE, True),
        (ADMIN, ADMIN, WIPE, True),
    ],
    ids=lambda value: value.name if isinstance(value, Author) else str(getattr(value, "title", value)),
)
async def test_the_requester_allows_ordinary_things_and_an_admin_destructive_ones(
    tmp_path: Path, requester: Author, answerer: Author, ask: Ask, accepted: bool
) -> None:
    async with open_rig(tmp_path, PuppetEngine(asks(ask)), tool_class=by_words) as rig:
        await rig.channel.say("go", author=requester)
        asked = await rig.until_asked()
        answered = await rig.channel.answer(asked, "allow", author=answerer)
        assert answered.accepted is accepted
        assert (await row_of(rig, asked)).state == ("answered" if accepted else "open")
        if not accepted:
            assert await refusals(rig) == [(answerer.id, "foreign")]
            await rig.channel.answer(asked, "allow")
        await rig.until_said("told: allow")


async def test_people_are_told_who_is_needed(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(asks(WIPE)), tool_class=by_words) as rig:
        await rig.channel.say("go", author=MEMBER)
        asked = await rig.until_asked()
        assert "Only an admin or an owner may answer." in await rig.until_said("wants to run `rm -rf build`")
        refused = await rig.channel.answer(asked, "allow", author=MEMBER)
        assert "Only an admin or an owner may answer." in refused.text
        assert (await rig.channel.answer(asked, "deny", text="better not", author=MEMBER)).accepted
        await rig.until_said("told: deny better not")


async def test_a_member_who_may_not_answer_a_question_has_sent_a_message(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(asks(QUESTION), echo)) as rig:
        await rig.channel.say("go")
        asked = await rig.until_asked()
        other = await rig.channel.say("blue", author=MEMBER)
        assert other.text != "Got it."
        assert (await row_of(rig, asked)).state == "open"
        assert (await rig.channel.say("1")).text == "Got it."
        await rig.until_said("told: answer  r")
        await rig.until_said("you said: blue")


async def test_several_options_are_chosen_by_a_plain_reply(tmp_path: Path) -> None:
    several = msgspec.structs.replace(QUESTION, many=True)
    async with open_rig(tmp_path, PuppetEngine(asks(several))) as rig:
        await rig.channel.say("go")
        asked = await rig.until_asked()
        assert not (await rig.channel.answer(asked, "answer", options=("r", "x"))).accepted
        assert (await rig.channel.say("red, blue")).text == "Got it."
        await rig.until_said("told: answer  r,b")


async def test_whoever_changes_what_runs_must_be_able_to_allow_that(tmp_path: Path) -> None:
    """Else a member who may allow `make` could send `rm` back with their yes."""
    instead = {"command": "rm -rf /"}
    async with open_rig(tmp_path, PuppetEngine(asks(MAKE)), tool_class=by_words) as rig:
        await rig.channel.say("go", author=MEMBER)
        asked, desk = await rig.until_asked(), rig.gateway.desk

        async def allow(by: Author, given: dict[str, Any]) -> bool:
            decision = Decision("allow", input=given)
            return (await desk.answer(asked.id, asked.payload_hash, decision, by)).accepted

        assert not await allow(MEMBER, instead)
        assert await refusals(rig) == [(MEMBER.id, "foreign")]
        assert await allow(MEMBER, {"command": "make -k"})
        await rig.until_said("told: allow")


async def test_a_changed_input_is_classed_by_the_engine_that_asked(tmp_path: Path) -> None:
    payload = {"tool": "Bash", "input": {"command": "touch made"}, "cwd": str(tmp_path)}
    touch = Ask(AskId("a"), "approval", "Run touch?", payload)
    async with open_rig(tmp_path, PuppetEngine(asks(touch))) as rig:
        await rig.channel.say("go", author=MEMBER)
        asked, desk = await rig.until_asked(), rig.gateway.desk
        for given, accepted in (
            ({"command": "make"}, False),
            ({"command": "touch ../made"}, False),
            ({"x": 1}, False),
            ({"command": "touch other"}, True),
        ):
            decision = Decision("allow", input=given)
            taken = await desk.answer(asked.id, asked.payload_hash, decision, MEMBER)
            assert taken.accepted is accepted
        await rig.until_said("told: allow")


async def test_a_call_that_its_engine_does_not_describe_is_destructive(tmp_path: Path) -> None:
    async def play(strings: Strings) -> None:
        await strings.start()
        await strings.emit(Asked(MAKE))
        await strings.end(f"told: {(await strings.answer_to(MAKE)).verdict}")

    async with open_rig(tmp_path, PuppetEngine(play)) as rig:
        await rig.channel.say("go", author=MEMBER)
        asked = await rig.until_asked()
        assert asked.call == Call("unreadable", "Bash")
        assert not (await rig.channel.answer(asked, "allow", author=MEMBER)).accepted
        assert (await rig.channel.answer(asked, "allow")).accepted
        await rig.until_said("told: allow")


async def test_only_an_admin_allows_something_for_good(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(asks(MAKE)), policy=Offering(), tool_class=by_words) as rig:
        await rig.channel.say("go", author=MEMBER)
        asked = await rig.until_asked()
        assert (
            "Only an admin"
            in (await rig.channel.answer(asked, "allow", remember="always", author=MEMBER)).text
        )
        assert (await rig.channel.answer(asked, "allow", remember="session", author=MEMBER)).accepted


async def test_a_quorum_needs_different_people_and_not_the_requester(tmp_path: Path) -> None:
    async with open_rig(
        tmp_path, PuppetEngine(asks(WIPE)), tool_class=by_words, approvals=destructive(TWO)
    ) as rig:
        await rig.channel.say("go", author=ADMIN)
        asked = await rig.until_asked()
        assert not (await rig.channel.answer(asked, "allow", author=ADMIN)).accepted, "it is theirs"
        for_good = await rig.channel.answer(asked, "allow", remember="always", author=SECOND)
        assert not for_good.accepted, "else one person would do away with the quorum"
        first = await rig.channel.answer(asked, "allow", author=SECOND)
        assert (first.accepted, first.text[:6]) == (True, "1 of 2")
        await rig.until_said("1 of 2 said yes: rm -rf build")
        again = await rig.channel.answer(asked, "allow", author=SECOND)
        assert not again.accepted
        assert "already" in again.text
        assert (await row_of(rig, asked)).state == "open"
        assert (await rig.channel.answer(asked, "allow")).accepted
        await rig.until_said("told: allow")
        row = await row_of(rig, asked)
        assert {vote.by for vote in row.votes} == {SECOND.id, PERSON.id}
        whats = [row.what for row in await rig.store.read(lambda tx: tx.audit.list())]
        assert whats.count("ask.vote") == 1
        assert whats.count("ask.allow") == 1


async def test_the_requester_alone_is_no_quorum_even_where_their_yes_counts(tmp_path: Path) -> None:
    rule = Approvers(("requester", "admin"), quorum=2)
    async with open_rig(
        tmp_path, PuppetEngine(asks(MAKE)), approvals={"ordinary": rule, "destructive": rule}
    ) as rig:
        await rig.channel.say("go", author=MEMBER)
        asked = await rig.until_asked()
        for _ in range(3):
            await rig.channel.answer(asked, "allow", author=MEMBER)
        assert (await row_of(rig, asked)).state == "open"
        assert (await rig.channel.answer(asked, "allow", author=ADMIN)).accepted


async def test_one_no_is_a_no_whatever_was_said_before(tmp_path: Path) -> None:
    async with open_rig(
        tmp_path, PuppetEngine(asks(WIPE)), tool_class=by_words, approvals=destructive(TWO)
    ) as rig:
        await rig.channel.say("go", author=MEMBER)
        asked = await rig.until_asked()
        await rig.channel.answer(asked, "allow", author=SECOND)
        assert (await rig.channel.answer(asked, "deny", text="stop", author=ADMIN)).accepted
        await rig.until_said("told: deny stop")
        assert not (await rig.channel.answer(asked, "allow")).accepted


async def test_a_vote_outlives_a_restart_and_a_revoked_one_does_not_count(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"tool_class": by_words, "approvals": destructive(TWO)}
    async with open_rig(tmp_path, PuppetEngine(asks(WIPE)), name="first", **settings) as rig:
        await rig.store.write(lambda tx: tx.people.grant(Grant(GRANTED.id, "admin")))
        await rig.channel.say("go", author=MEMBER)
        asked = await rig.until_asked()
        await rig.channel.answer(asked, "allow", author=GRANTED)
        rig.crash()
    async with open_rig(
        tmp_path, PuppetEngine(asks(WIPE)), name="second", alive=only_alive("second"), **settings
    ) as rig:
        assert [vote.by for vote in (await row_of(rig, asked)).votes] == [GRANTED.id]
        await rig.store.write(lambda tx: tx.people.revoke(GRANTED.id))
        late = await rig.channel.answer(asked, "allow", author=SECOND)
        assert "1 of 2" in late.text, "the revoked yes is none"
        assert not (await rig.channel.answer(asked, "allow", author=GRANTED)).accepted
        assert (await rig.channel.answer(asked, "allow")).accepted
        await rig.until_said("told: allow")


async def test_a_yes_whose_giver_was_revoked_before_it_could_be_used_is_asked_for_anew(
    tmp_path: Path,
) -> None:
    settings: dict[str, Any] = {"tool_class": by_words}
    async with open_rig(tmp_path, PuppetEngine(asks(MAKE)), name="first", **settings) as rig:
        await rig.store.write(lambda tx: tx.people.grant(Grant(GRANTED.id, "admin")))
        await rig.channel.say("go", author=MEMBER)
        first = await rig.until_asked()
        rig.crash()
    async with open_rig(
        tmp_path, PuppetEngine(asks(MAKE)), name="second", alive=only_alive("second"), **settings
    ) as rig:

        def unit(tx: Any) -> None:
            from pilothouse.runtime.asks.answers import Answer, Answers

            row = tx.asks.get(first.id)
            answers = Answers(rig.ports.settings(), rig.ports.ids, rig.ports.tool_class, rig.ports.topics)
            answer = Answer(first.id, first.payload_hash, Decision("allow"), GRANTED, row.asked_at)
            assert answers.take(tx, answer).answered.accepted
            tx.people.revoke(GRANTED.id)

        await rig.store.write(unit)
        rig.poke()
        rows = await rig.until(lambda tx: tx.asks.open_in(MAIN))
        assert rows[0].ask.id != first.id
        await rig.channel.answer(rows[0].ask, "deny", text="they left")
        await rig.until_said("told: deny they left")


async def test_a_quorum_of_which_one_was_revoked_before_it_could_be_used_is_none(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"tool_class": by_words, "approvals": destructive(TWO)}
    async with open_rig(tmp_path, PuppetEngine(asks(WIPE)), name="first", **settings) as rig:
        await rig.store.write(lambda tx: tx.people.grant(Grant(GRANTED.id, "admin")))
        await rig.channel.say("go", author=MEMBER)
        first = await rig.until_asked()
        rig.crash()
    async with open_rig(
        tmp_path, PuppetEngine(asks(WIPE)), name="second", alive=only_alive("second"), **settings
    ) as rig:

        def unit(tx: Any) -> None:
            from pilothouse.runtime.asks.answers import Answer, Answers

            answers = Answers(rig.ports.settings(), rig.ports.ids, rig.ports.tool_class, rig.ports.topics)
            for giver in (GRANTED, SECOND):
                answer = Answer(first.id, first.payload_hash, Decision("allow"), giver, 1.0)
                assert answers.take(tx, answer).answered.accepted
            assert tx.asks.get(first.id).state == "answered"
            tx.people.revoke(GRANTED.id)

        await rig.store.write(unit)
        rig.poke()
        rows = await rig.until(lambda tx: tx.asks.open_in(MAIN))
        assert rows[0].ask.id != first.id, "one of two is no quorum"
        await rig.channel.answer(rows[0].ask, "deny", text="they left")
        await rig.until_said("told: deny they left")


async def test_a_revoke_counts_at_once_for_an_open_ask_and_for_what_waits(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(asks(MAKE), echo)) as rig:
        await rig.store.write(lambda tx: tx.people.grant(Grant(GRANTED.id, "member")))
        await rig.channel.say("go", author=GRANTED)
        asked = await rig.until_asked()
        await rig.channel.say("and then this", author=GRANTED)
        await rig.store.write(lambda tx: tx.people.revoke(GRANTED.id))
        assert not (await rig.channel.answer(asked, "allow", author=GRANTED)).accepted
        assert not (await rig.channel.answer(asked, "deny", author=GRANTED)).accepted
        assert (await rig.channel.say("hello?", author=GRANTED)).state == "refused"
        await rig.channel.answer(asked, "allow")
        await rig.until_said("A message from Granted was dropped")
        await rig.until_idle()
        assert len(rig.engine.turns) == 1


async def test_a_role_in_another_workspace_does_not_help_here(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await rig.store.write(lambda tx: tx.people.grant(Grant(GRANTED.id, "owner", str(tmp_path / "other"))))
        refused = await rig.channel.say("hello", author=GRANTED)
        assert (refused.state, "no access to the workspace" in refused.text) == ("refused", True)
        assert await rig.store.read(lambda tx: tx.asks.newest()) == [], "and nobody is asked to let them in"
        await rig.store.write(lambda tx: tx.people.grant(Grant(GRANTED.id, "member", str(tmp_path))))
        await rig.channel.say("hello", author=GRANTED)
        await rig.until_said("you said: hello")


async def test_an_ask_is_shown_in_the_approvers_own_chats_and_settles_everywhere(tmp_path: Path) -> None:
    rule = Approvers(("admin",), route="private")
    async with open_rig(
        tmp_path, PuppetEngine(echo, echo, asks(WIPE)), tool_class=by_words, approvals=destructive(rule)
    ) as rig:
        await rig.channel.say("hi", "admins-own", author=ADMIN)
        await rig.channel.say("hi", "owners-own", author=PERSON)
        await rig.until_idle()
        await rig.channel.say("go", author=MEMBER)
        asked = await rig.until_asked()
        shown = [rig.said(place) for place in ("main", "admins-own", "owners-own")]
        await rig.until_true(
            lambda: all(
                "wants to run `rm -rf build`" in rig.said(place)[-1]
                for place in ("main", "admins-own", "owners-own")
            )
        )
        assert shown
        receipt = await rig.channel.say(f"/show {asked.id}", "admins-own", author=ADMIN)
        assert receipt.state == "queued"
        await rig.until_said(asked.payload_hash)
        assert (await rig.channel.answer(asked, "allow", author=ADMIN)).accepted
        for place in ("main", "admins-own", "owners-own"):
            await rig.until_true(
                lambda place=place: any("Allowed by Admin: rm -rf build" in text for text in rig.said(place))
            )
        assert (await row_of(rig, asked)).shown_in == (
            ConversationId("memory:admins-own"),
            ConversationId("memory:owners-own"),
        )


async def test_an_ask_in_a_private_chat_of_somebody_who_may_not_allow_it_goes_to_those_who_may(
    tmp_path: Path,
) -> None:
    async with open_rig(tmp_path, PuppetEngine(echo, asks(WIPE)), tool_class=by_words) as rig:
        await rig.channel.say("hi", "owners-own")
        await rig.until_said("you said: hi")
        await rig.channel.say("go", author=MEMBER)
        asked = await rig.until_asked()
        said = {
            "main": f"Only an admin or an owner may answer.\nAlso sent to: {PERSON.name}.",
            "owners-own": "From Member's memory chat.",
        }
        for place, whose in said.items():
            await rig.until_true(
                lambda place=place, whose=whose: any(whose in text for text in rig.said(place))
            )
        assert (await row_of(rig, asked)).shown_in == (ConversationId("memory:owners-own"),)
        assert not (await rig.channel.answer(asked, "allow", author=MEMBER)).accepted
        assert (await rig.channel.answer(asked, "allow")).accepted
        settled = f"Allowed by {PERSON.name}: rm -rf build"
        for place in ("main", "owners-own"):
            await rig.until_true(lambda place=place: any(settled in text for text in rig.said(place)))
        await rig.until_said("told: allow")


@pytest.mark.parametrize(
    ("requester", "private", "approvers"),
    [
        pytest.param(ADMIN, True, Approvers(("admin",)), id="they may allow it themselves"),
        pytest.param(MEMBER, False, Approvers(("admin",)), id="in a room somebody may read it who may"),
        pytest.param(MEMBER, True, Approvers(("requester", "owner")), id="it is the requester's"),
    ],
)
async def test_an_ask_that_can_be_answered_where_it_stands_stays_there(
    tmp_path: Path, requester: Author, private: bool, approvers: Approvers
) -> None:
    async with open_rig(
        tmp_path, PuppetEngine(echo, asks(WIPE)), tool_class=by_words, approvals=destructive(approvers)
    ) as rig:
        await rig.channel.say("hi", "owners-own")
        await rig.until_said("you said: hi")
        await rig.channel.say("go", author=requester, private=private)
        row = await row_of(rig, await rig.until_asked())
        assert (row.shown_in, row.ask.whose) == ((), "")


async def test_one_person_in_private_is_no_quorum_so_the_others_are_asked(tmp_path: Path) -> None:
    rule = Approvers(("admin",), quorum=2)
    async with open_rig(
        tmp_path, PuppetEngine(echo, asks(WIPE)), tool_class=by_words, approvals=destructive(rule)
    ) as rig:
        await rig.channel.say("hi", "seconds-own", author=SECOND)
        await rig.until_said("you said: hi")
        await rig.channel.say("go", author=ADMIN)
        asked = await rig.until_asked()
        assert (await row_of(rig, asked)).shown_in == (ConversationId("memory:seconds-own"),)


async def test_whoever_asks_in_private_is_told_that_nobody_could_be_asked(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(asks(WIPE)), tool_class=by_words) as rig:
        await rig.channel.say("go", author=MEMBER)
        asked = await rig.until_asked()
        assert "`pilothouse asks` lists it" in await rig.until_said("wants to run `rm -rf build`")
        assert (await row_of(rig, asked)).shown_in == ()


async def test_answers_that_do_not_count_are_written_down_and_a_stranger_cannot_fill_the_log(
    tmp_path: Path,
) -> None:
    async with open_rig(tmp_path, PuppetEngine(asks(MAKE))) as rig:
        await rig.channel.say("go", author=MEMBER)
        asked = await rig.until_asked()
        await rig.channel.answer(msgspec.structs.replace(asked, payload_hash="0" * 64), "allow")
        await rig.channel.answer(msgspec.structs.replace(asked, id=AskId("ask-none")), "allow")
        for _ in range(100):
            await rig.channel.answer(asked, "allow", author=STRANGER)
        for _ in range(70):
            await rig.channel.answer(
                msgspec.structs.replace(asked, id=AskId("ask-none")), "allow", author=SECOND
            )
        await rig.channel.answer(asked, "allow")
        await rig.channel.answer(asked, "allow")
        await rig.channel.answer(asked, "deny")
        found = await refusals(rig)
        assert len([who for who, _ in found if who == SECOND.id]) == 60, "nor can a member"
        assert found.count((STRANGER.id, "foreign")) == 20
        assert [kind for who, kind in found if who == PERSON.id] == ["forged", "unknown", "replayed"]
        await rig.until_said("told: allow")


async def test_two_yeses_at_the_same_moment_are_one(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(asks(MAKE))) as rig:
        await rig.channel.say("go", author=MEMBER)
        asked = await rig.until_asked()
        answers: list[bool] = []

        async def press(author: Author) -> None:
            answers.append((await rig.channel.answer(asked, "allow", author=author)).accepted)

        async with anyio.create_task_group() as tasks:
            for author in (MEMBER, ADMIN, SECOND, PERSON):
                tasks.start_soon(press, author)
        assert answers.count(True) == 1
        await rig.until_said("told: allow")


async def test_without_a_word_in_the_configuration_what_cannot_be_taken_back_needs_an_admin(
    tmp_path: Path,
) -> None:
    """By the house's own classes: the same command by every engine."""
    payload = {"tool": "Bash", "input": {"command": "git push --force"}, "cwd": str(tmp_path)}
    ask = Ask(AskId("a"), "approval", "git push --force", payload)
    async with open_rig(tmp_path, PuppetEngine(asks(ask))) as rig:
        await rig.channel.say("go", author=MEMBER)
        asked = await rig.until_asked()
        refused = await rig.channel.answer(asked, "allow", author=MEMBER)
        assert not refused.accepted
        assert (await rig.channel.answer(asked, "allow")).accepted
