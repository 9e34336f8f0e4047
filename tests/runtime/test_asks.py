"""Asks: a row before a button, one answer bound to what was asked and to who may answer, and a no in every doubt."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio
import msgspec
import pytest
from tests.runtime.puppet import BareSession, PuppetEngine, Strings, echo
from tests.runtime.rig import MAIN, MEMBER, Rig, open_rig
from tests.stores.sqlite_cases import open_at

from pilothouse.channels.memory import MEMORY, PERSON
from pilothouse.core.ask import ASK_STATES, Ask, AskRow, AskState, Decision, Option, hash_payload
from pilothouse.core.conversation import Conversation
from pilothouse.core.errors import IllegalMove
from pilothouse.core.event import AskChanged, Asked, Notice
from pilothouse.core.ids import AskId, EngineId, SessionId, TurnId
from pilothouse.core.message import Address
from pilothouse.core.policy import PolicyOutcome, Ruling, Site
from pilothouse.core.store import Tx
from pilothouse.core.turn import Cause, Prompt, Turn
from pilothouse.runtime.asks.settle import apply_answer, expire, lapse, supersede
from pilothouse.runtime.gateway import TOPICS
from pilothouse.runtime.ports import new_id
from pilothouse.runtime.turns.finish import forget_answers
from pilothouse.testing.clock import FakeClock

APPROVAL = Ask(AskId("a"), "approval", "Run make?", {"command": "make"})
QUESTION = Ask(AskId("q"), "question", "Which colour?", options=(Option("r", "red"),), free_text=True)


def asking(ask: Ask = APPROVAL) -> PuppetEngine:
    """Asks, and says what it was told."""

    async def play(strings: Strings) -> None:
        await strings.start()
        decision = await strings.ask(ask)
        await strings.end(f"told: {decision.verdict} {decision.text}")

    return PuppetEngine(play, echo)


async def state_of(rig: Rig, ask: Ask) -> AskRow:
    row = await rig.store.read(lambda tx: tx.asks.get(ask.id))
    assert row is not None
    return row


async def test_an_approval_waits_is_allowed_and_goes_on(tmp_path: Path) -> None:
    async with open_rig(tmp_path, asking()) as rig:
        await rig.channel.say("go", author=MEMBER)
        ask = await rig.until_asked()
        assert (await rig.until_live()).status == "waiting"
        assert ask.id != APPROVAL.id, "the id is ours: it outlives the engine"
        answered = await rig.channel.answer(ask, "allow", author=MEMBER)
        assert answered.accepted
        assert answered.text == "Allowed by Member: Run make?"
        await rig.until_said("told: allow")
        (turn,) = await rig.until_ended()
        assert turn.status == "done"
        row = await state_of(rig, ask)
        assert (row.state, row.used, row.decision and row.decision.by) == ("answered", True, MEMBER.id)
        events = [logged.event for logged in await rig.store.read(lambda tx: tx.events.of_turn(turn.id))]
        asked = [event for event in events if isinstance(event, Asked | AskChanged)]
        assert asked == [Asked(ask), AskChanged(ask.id, "answered", MEMBER.id, "allowed")]
        assert await rig.audited("ask.") == ["ask.asked", "ask.allow"]


async def test_a_no_with_a_reason_lets_the_engine_go_on(tmp_path: Path) -> None:
    async with open_rig(tmp_path, asking()) as rig:
        await rig.channel.say("go")
        await rig.channel.answer(await rig.until_asked(), "deny", text="use ninja instead")
        await rig.until_said("told: deny use ninja instead")
        assert [turn.status for turn in await rig.until_ended()] == ["done"]


async def test_a_plain_no_stops_the_turn(tmp_path: Path) -> None:
    async def play(strings: Strings) -> None:
        await strings.start()
        await strings.ask(APPROVAL)
        await strings.interrupted.wait()

    async with open_rig(tmp_path, PuppetEngine(play)) as rig:
        await rig.channel.say("go")
        await rig.channel.answer(await rig.until_asked(), "deny")
        (turn,) = await rig.until_ended()
        assert turn.status == "cancelled"
        await rig.until_said("Stopped.")


async def test_an_ask_that_expires_is_a_no_and_says_so(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_rig(tmp_path, asking(), clock=clock, ask_timeout_s=120, hang_after_s=60) as rig:
        await rig.channel.say("go")
        ask = await rig.until_asked()
        await clock.advance(119)
        rig.poke()
        assert (await state_of(rig, ask)).state == "open", "and waiting for a person is no hang"
        await clock.advance(2)
        rig.poke()
        await rig.until_said("No answer in 2 minutes; Puppet goes on without one: Run make?")
        await rig.until_said("told: deny nobody answered in time")
        late = await rig.channel.answer(ask, "allow")
        assert not late.accepted
        assert "expired" in late.text


async def test_a_late_answer_is_refused_even_before_the_expiry_was_noticed(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_rig(tmp_path, asking(QUESTION), clock=clock, question_timeout_s=60, poll_s=60) as rig:
        await rig.channel.say("go")
        ask = await rig.until_asked()
        assert (await state_of(rig, ask)).ask.expires_at == clock.now() + 60
        await clock.advance(60)
        assert not (await rig.channel.answer(ask, "answer", text="blue")).accepted
        assert (await rig.channel.say("blue")).text != "Got it."
        await rig.until_said("told: deny nobody answered in time")
        await rig.until_said("you said: blue")


async def test_the_second_answer_changes_nothing_and_hears_who_was_first(tmp_path: Path) -> None:
    async with open_rig(tmp_path, asking()) as rig:
        await rig.channel.say("go", author=MEMBER)
        ask = await rig.until_asked()
        await rig.channel.answer(ask, "allow", author=MEMBER)
        second = await rig.channel.answer(ask, "deny", text="wait!")
        assert not second.accepted
        assert f"Already answered by {MEMBER.name}: allowed" in second.text
        await rig.until_said("told: allow")
        assert (await state_of(rig, ask)).decision == Decision("allow", by=MEMBER.id)


async def test_an_answer_to_something_else_than_was_asked_does_nothing(tmp_path: Path) -> None:
    async with open_rig(tmp_path, asking()) as rig:
        await rig.channel.say("go")
        ask = await rig.until_asked()
        forged = msgspec.structs.replace(ask, payload_hash="0" * 64)
        answered = await rig.channel.answer(forged, "allow")
        assert not answered.accepted
        assert "has changed since" in answered.text
        unknown = msgspec.structs.replace(ask, id=AskId("ask-nobody"))
        assert not (await rig.channel.answer(unknown, "allow")).accepted
        assert (await state_of(rig, ask)).state == "open"


async def test_a_plain_reply_answers_a_question(tmp_path: Path) -> None:
    async with open_rig(tmp_path, asking(QUESTION)) as rig:
        await rig.channel.say("go")
        await rig.until_asked()
        receipt = await rig.channel.say("blue, please")
        assert receipt.text == "Got it."
        await rig.until_said("told: answer blue, please")
        await rig.until_idle()
        assert len(rig.engine.turns) == 1
        row = await rig.inbox_row(receipt)
        assert (row.status, row.why[:9]) == ("done", "answered ")


async def test_a_secret_reaches_the_engine_and_is_kept_and_shown_nowhere_else(tmp_path: Path) -> None:
    key = Ask(
        AskId("q"), "question", "Which key?", {"question": "Which key?", "secret": True}, free_text=True
    )
    heard: list[str] = []

    async def play(strings: Strings) -> None:
        await strings.start()
        heard.append((await strings.ask(key)).text)
        await strings.end("Thanks.")

    async with open_rig(tmp_path, PuppetEngine(play)) as rig:
        await rig.channel.say("go")
        ask = await rig.until_asked()
        receipt = await rig.channel.say("sk-hush")
        await rig.until_said("Thanks.")
        row = await rig.store.read(lambda tx: tx.asks.get(ask.id))
        trail = await rig.store.read(lambda tx: tx.audit.list())
        said = rig.channel.visible()
    assert heard == ["sk-hush"]
    assert row is not None and row.decision is not None and row.decision.text == ""
    assert "sk-hush" not in f"{receipt.text} {said} {trail}"
    assert any("Answered by Person: a secret" in line for line in said)
    files = {path.name: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert any(b"Which key?" in content for content in files.values()), "the files of the database"
    assert [name for name, content in files.items() if b"sk-hush" in content] == []


async def test_words_answer_the_question_that_they_reply_to_and_not_an_older_one(tmp_path: Path) -> None:
    size = msgspec.structs.replace(QUESTION, id=AskId("size"), title="Which size?", payload={"q": "size"})

    async def asks_both(strings: Strings) -> None:
        await strings.start()
        await strings.emit(Asked(QUESTION), Asked(size))
        answers = [(await strings.answer_to(ask)).text for ask in (size, QUESTION)]
        await strings.end(f"told: {answers}")

    async with open_rig(tmp_path, PuppetEngine(asks_both)) as rig:
        await rig.channel.say("go")
        await rig.until_said("Which size?")
        (stands,) = [sent.ref for sent in rig.channel.sent if "Which size?" in sent.text]
        assert (await rig.channel.say("large", reply_to=stands)).text == "Got it."
        assert (await rig.channel.say("blue", reply_to=stands)).text == "Got it.", "it is settled"
        await rig.until_said("told: ['large', 'blue']")


async def test_a_message_never_answers_an_approval(tmp_path: Path) -> None:
    async with open_rig(tmp_path, asking()) as rig:
        await rig.channel.say("go")
        ask = await rig.until_asked()
        receipt = await rig.channel.say("yes, but later")
        assert "comes after it" in receipt.text
        assert (await state_of(rig, ask)).state == "open"
        await rig.channel.answer(ask, "allow")
        await rig.until_said("you said: yes, but later")


async def test_an_option_can_be_chosen_and_a_text_is_cleaned(tmp_path: Path) -> None:
    async with open_rig(tmp_path, asking(QUESTION)) as rig:
        await rig.channel.say("go")
        answered = await rig.channel.answer(
            await rig.until_asked(), "answer", options=("r",), text="\0\ud800"
        )
        assert answered.accepted
        await rig.until_said("told: answer \N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}")


async def test_an_ask_that_cannot_be_written_down_is_cleaned_first(tmp_path: Path) -> None:
    ask = Ask(AskId("a"), "approval", "Run \ud800?", {"command": "\ud800", "list": ["\udfff"]})
    async with open_rig(tmp_path, asking(ask)) as rig:
        await rig.channel.say("go")
        shown = await rig.until_asked()
        await rig.channel.answer(shown, "allow")
        await rig.until_said("told: allow")


async def test_an_engine_may_withdraw_its_ask(tmp_path: Path) -> None:
    withdraw = anyio.Event()

    async def play(strings: Strings) -> None:
        await strings.start()
        await strings.emit(Asked(APPROVAL))
        await withdraw.wait()
        await strings.emit(AskChanged(APPROVAL.id, "withdrawn"))
        await strings.end("never mind")

    async with open_rig(tmp_path, PuppetEngine(play)) as rig:
        await rig.channel.say("go")
        ask = await rig.until_asked()
        withdraw.set()
        await rig.until_said("never mind")
        (turn,) = await rig.until_ended()
        assert (turn.status, (await state_of(rig, ask)).state) == ("done", "withdrawn")
        assert "withdrawn" in (await rig.channel.answer(ask, "allow")).text


async def test_an_ask_that_is_open_when_its_turn_ends_is_withdrawn(tmp_path: Path) -> None:
    async def play(strings: Strings) -> None:
        await strings.start()
        await strings.emit(Asked(APPROVAL))
        await strings.end("done without you")

    async with open_rig(tmp_path, PuppetEngine(play)) as rig:
        await rig.channel.say("go")
        (turn,) = await rig.until_ended()
        assert turn.status == "done"
        events = [logged.event for logged in await rig.store.read(lambda tx: tx.events.of_turn(turn.id))]
        (asked,) = [event.ask for event in events if isinstance(event, Asked)]
        assert AskChanged(asked.id, "withdrawn") in events
        assert (await state_of(rig, asked)).state == "withdrawn"


class Rule:
    def __init__(self, outcome: PolicyOutcome, rule: str = "") -> None:
        self._ruling = Ruling(outcome, rule)

    async def judge(self, ask: Ask, site: Site) -> Ruling:
        return self._ruling


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        (Rule("allow"), "told: allow"),
        (Rule("deny", "no network"), "told: deny no network"),
        (Rule("deny"), "told: deny a rule forbids it"),
    ],
)
async def test_where_a_rule_decides_nobody_is_asked(tmp_path: Path, policy: Rule, told: str) -> None:
    async with open_rig(tmp_path, asking(), policy=policy) as rig:
        await rig.channel.say("go")
        await rig.until_said(told)
        await rig.until_idle()
        denied = told.removeprefix("told: deny ")
        notices: list[str] = [] if denied == told else [f"Denied: {denied} (Run make?)"]
        assert rig.said()[:-1] == notices


async def test_where_a_session_cannot_be_answered_the_log_says_so(tmp_path: Path) -> None:
    async def play(strings: Strings) -> None:
        await strings.start()
        await strings.emit(Asked(APPROVAL))
        await strings.end("went on")

    async with open_rig(tmp_path, PuppetEngine(play, session=BareSession)) as rig:
        await rig.channel.say("go")
        await rig.until_said("went on")
        (turn,) = await rig.until_ended()
        logged = await rig.store.read(lambda tx: tx.events.of_turn(turn.id))
        assert [e.event.kind for e in logged if isinstance(e.event, Notice)] == ["unanswerable"]
        assert not any(isinstance(e.event, Asked) for e in logged)


async def test_two_asks_at_once_are_answered_each_for_itself_even_if_they_are_the_same(
    tmp_path: Path,
) -> None:
    twin = msgspec.structs.replace(APPROVAL, id=AskId("b"))

    async def play(strings: Strings) -> None:
        await strings.start()
        await strings.emit(Asked(APPROVAL), Asked(twin))
        first, second = await strings.answer_to(APPROVAL), await strings.answer_to(twin)
        await strings.end(f"{first.verdict} {second.verdict} {second.text}")

    async with open_rig(tmp_path, PuppetEngine(play)) as rig:
        await rig.channel.say("go")
        rows = await rig.until(lambda tx: len(rows := tx.asks.open_in(MAIN)) == 2 and rows)
        await rig.channel.answer(rows[0].ask, "allow")
        assert (await rig.until_live()).status == "waiting", "one is still open"
        await rig.channel.answer(rows[1].ask, "deny", text="once is enough")
        await rig.until_said("allow deny once is enough")


async def test_a_person_who_is_asked_twice_by_a_platform_answers_once(tmp_path: Path) -> None:
    from pilothouse.channels.memory import MemoryChannel

    async with open_rig(tmp_path, asking(), MemoryChannel(twice=True)) as rig:
        await rig.channel.say("go")
        assert (await rig.channel.answer(await rig.until_asked(), "allow")).accepted
        await rig.until_said("told: allow")
        await rig.until_idle()
        assert len(rig.engine.turns) == 1
        assert await rig.audited("ask.") == ["ask.asked", "ask.allow"]
        await rig.audited_by(PERSON, "ask.allow")


DEEDS: dict[str, Callable[[Tx, AskRow], object]] = {
    "answer": lambda tx, row: apply_answer(tx, new_id, TOPICS, row, Decision("allow"), 9.0),
    "deny and say why": lambda tx, row: apply_answer(
        tx, new_id, TOPICS, row, Decision("deny", by=PERSON.id, reason_wanted=True), 9.0
    ),
    "expire": lambda tx, row: expire(tx, new_id, TOPICS, row, 9.0),
    "supersede": lambda tx, row: supersede(tx, new_id, row, 9.0, because="of that"),
    "lapse": lambda tx, row: lapse(tx, new_id, row, 9.0, because="of that"),
}
REACHED = {"answer": "answered", "deny and say why": "answered", "lapse": "withdrawn"}


@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.parametrize("state", ASK_STATES)
@pytest.mark.parametrize("topic", ["", "join", "reason"])
async def test_whatever_is_done_to_an_ask_that_is_settled_changes_nothing_at_all(
    tmp_path: Path, state: AskState, deed: str, topic: str
) -> None:
    payload = {"user": "memory:new", "name": "New", "address": {"channel": "memory", "place": "lobby"}}
    ask = Ask(AskId("ask-1"), "approval", "Run make?", payload, hash_payload(payload))
    row = AskRow(ask, MAIN, SessionId("s"), TurnId(""), "", state, 1.0, topic=topic)

    def everything(tx: Tx) -> object:
        return [
            tx.asks.newest(states=ASK_STATES),
            [(audited.what, audited.detail) for audited in tx.audit.list()],
            tx.people.everybody(),
            tx.outbox.unfinished(MAIN),
        ]

    async with open_at(tmp_path / "p.db") as store:
        await store.write(
            lambda tx: tx.conversations.ensure(Conversation(MAIN, Address(MEMORY, "main"), 1.0))
        )
        await store.write(lambda tx: tx.asks.add(row))
        before = await store.read(everything)
        if state == "open":
            await store.write(lambda tx: DEEDS[deed](tx, row))
            settled = await store.read(lambda tx: tx.asks.get(ask.id))
            assert settled is not None and settled.state == REACHED.get(deed, deed + "d")
        else:
            with pytest.raises(IllegalMove):
                await store.write(lambda tx: DEEDS[deed](tx, row))
            assert await store.read(everything) == before


@pytest.mark.parametrize(
    ("cause", "turn_id", "kept"), [("message", "t1", False), ("answer", "t0", False), ("message", "t0", True)]
)
async def test_a_yes_that_no_engine_heard_allows_nothing_once_its_turn_is_over(
    tmp_path: Path, cause: Cause, turn_id: str, kept: bool
) -> None:
    ask = Ask(AskId("ask-1"), "approval", "Run make?", {"x": 1}, hash_payload({"x": 1}))
    row = AskRow(ask, MAIN, SessionId("s"), TurnId(turn_id), "", "open", 1.0)
    turn = Turn(
        TurnId("t1"), SessionId("s"), MAIN, EngineId("e"), "running", cause, Prompt("go"), 1.0, started_at=9.0
    )

    def unit(tx: Tx) -> bool:
        tx.conversations.ensure(Conversation(MAIN, Address(MEMORY, "main"), 1.0))
        tx.asks.add(row)
        tx.asks.move(ask.id, "answered", at=5.0, decision=Decision("allow"))
        forget_answers(tx, turn)
        return tx.asks.unused_answer(SessionId("s"), ask.payload_hash) is not None

    async with open_at(tmp_path / "p.db") as store:
        assert await store.write(unit) is kept
