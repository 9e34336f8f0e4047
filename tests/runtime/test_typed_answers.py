"""Typed answers: yes and no answer the one open ask; everything else waits behind it, and its sender is told so."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

import anyio
import pytest
from tests.runtime.puppet import PuppetEngine, Strings, echo
from tests.runtime.rig import ADMIN, MAIN, MEMBER, STRANGER, open_rig
from typing_extensions import override

from pilothouse.channels.memory import PERSON, MemoryChannel
from pilothouse.core.ask import Ask, Option, Verdict
from pilothouse.core.errors import Rejected, Unconfirmed
from pilothouse.core.event import TurnEnded
from pilothouse.core.ids import AskId, ConversationId
from pilothouse.core.message import Address, InboundMessage, MessageRef, Part
from pilothouse.core.people import Approvers
from pilothouse.core.store import Tx

MAKE = Ask(AskId("a"), "approval", "Run make?", {"tool": "Bash", "input": {"command": "make"}})
CLEAN = Ask(AskId("b"), "approval", "Run clean?", {"tool": "Bash", "input": {"command": "make clean"}})
PLAN = Ask(AskId("p"), "plan", "First this, then that", {"tool": "Plan", "input": {}})
COLOUR = Ask(
    AskId("q"), "question", "Which colour?", options=(Option("r", "Red: warm"), Option("b", "Blue: cold"))
)
NAME = Ask(AskId("n"), "question", "What name?", free_text=True)
PRIVATE = Approvers(("admin",), route="private")


def asking(*asks: Ask) -> PuppetEngine:
    """Asks one after the other, and says what it was told."""

    async def play(strings: Strings) -> None:
        await strings.start()
        for ask in asks:
            decision = await strings.ask(ask)
            if decision.verdict == "deny" and not decision.text:
                await strings.interrupted.wait()
                await strings.emit(TurnEnded("cancelled"))
            await strings.say(f"told: {decision.verdict} {decision.text}{','.join(decision.options)}\n")
        await strings.end()

    return PuppetEngine(play, echo)


@pytest.mark.parametrize("word", ["yes", "Yes.", " allow ", "y", "`yes`"])
async def test_a_typed_yes_allows_what_was_asked_once(tmp_path: Path, word: str) -> None:
    async with open_rig(tmp_path, asking(MAKE)) as rig:
        await rig.channel.say("go")
        ask = await rig.until_asked()
        receipt = await rig.channel.say(word)
        assert receipt.text == "Allowed by Person: make."
        await rig.until_said("told: allow")
        row = await rig.store.read(lambda tx: tx.asks.get(ask.id))
        assert row is not None and row.decision is not None
        assert (row.decision.by, row.decision.remember) == (PERSON.id, "once")
        assert (await rig.inbox_row(receipt)).status == "done"
        assert len(await rig.turns()) == 1, "and it is no message for the engine"


@pytest.mark.parametrize("word", ["no", "Deny!", "n"])
async def test_a_typed_no_stops_the_turn(tmp_path: Path, word: str) -> None:
    async with open_rig(tmp_path, asking(MAKE)) as rig:
        await rig.channel.say("go")
        await rig.until_asked()
        assert (await rig.channel.say(word)).text == "Denied by Person: make."
        assert [turn.status for turn in await rig.until_ended()] == ["cancelled"]


async def test_anything_else_waits_behind_the_ask_and_is_told_so(tmp_path: Path) -> None:
    async with open_rig(tmp_path, asking(MAKE)) as rig:
        await rig.channel.say("go")
        ask = await rig.until_asked()
        receipt = await rig.channel.say("you should not delete it")
        row = await rig.inbox_row(receipt)
        said = "I'm waiting for your answer above; your message comes after it (/cancel drops it)."
        assert (receipt.text, row.status) == (said, "queued")
        other = await rig.channel.say("yes", author=STRANGER)
        assert other.state == "refused"
        await rig.channel.answer(ask, "allow")
        await rig.until_said("you said: you should not delete it")


async def test_who_may_not_answer_is_told_that_an_answer_is_missing(tmp_path: Path) -> None:
    async with open_rig(
        tmp_path,
        asking(MAKE),
        approvals={"ordinary": Approvers(("owner",)), "destructive": Approvers(("owner",))},
    ) as rig:
        await rig.channel.say("go", author=MEMBER)
        ask = await rig.until_asked()
        assert (await rig.channel.say("yes", author=ADMIN)).text.startswith("I'm waiting for an answer above")
        await rig.channel.answer(ask, "allow")
        await rig.until_idle()


async def test_a_yes_answers_nothing_while_two_asks_are_open(tmp_path: Path) -> None:
    async def play(strings: Strings) -> None:
        await strings.start()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(strings.ask, MAKE)
            tasks.start_soon(strings.ask, CLEAN)
        await strings.end("both")

    async with open_rig(tmp_path, PuppetEngine(play, echo)) as rig:
        await rig.channel.say("go")
        asks = await rig.until(lambda tx: found if len(found := tx.asks.open_in(MAIN)) == 2 else None)
        assert "comes after it" in (await rig.channel.say("yes")).text
        assert all(row.state == "open" for row in await rig.store.read(lambda tx: tx.asks.open_in(MAIN)))
        await rig.channel.answer(asks[0].ask, "allow")
        assert (await rig.channel.say("no")).text == "Denied by Person: make clean."


@pytest.mark.parametrize(("word", "told"), [("yes", "told: allow"), ("no", "told: deny The person said no.")])
async def test_a_plan_is_answered_in_a_word(tmp_path: Path, word: str, told: str) -> None:
    async with open_rig(tmp_path, asking(PLAN)) as rig:
        await rig.channel.say("go")
        await rig.until_asked()
        await rig.channel.say(word)
        await rig.until_said(told)


@pytest.mark.parametrize("word", ["2", "blue", "Blue: cold"])
async def test_an_option_is_named_by_number_or_words(tmp_path: Path, word: str) -> None:
    async with open_rig(tmp_path, asking(COLOUR)) as rig:
        await rig.channel.say("go")
        await rig.until_asked()
        assert (await rig.channel.say(word)).text == "Got it."
        await rig.until_said("told: answer b")


async def test_a_yes_in_the_chat_that_an_ask_was_sent_to_answers_it(tmp_path: Path) -> None:
    async with open_rig(
        tmp_path, PuppetEngine(echo), approvals={"ordinary": PRIVATE, "destructive": PRIVATE}
    ) as rig:
        await rig.channel.say("hi", "admins-own", author=ADMIN, private=True)
        await rig.until_ended(conversation=ConversationId("memory:admins-own"))
        rig.engine.plays.insert(0, asking(MAKE).plays[0])
        await rig.channel.say("go")
        await rig.until(lambda tx: tx.asks.open_at(ConversationId("memory:admins-own"), 0.0, lambda _: True))
        await rig.until_delivered(ConversationId("memory:admins-own"))
        receipt = await rig.channel.say("yes", "admins-own", author=ADMIN, private=True)
        assert receipt.text == "Allowed by Admin: make."
        await rig.until_said("told: allow")


async def test_a_stray_yes_lets_no_stranger_in(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await rig.channel.say("hello", private=True)
        await rig.until_ended()
        await rig.channel.say("let me in", "theirs", author=STRANGER, private=True)
        (ask,) = await rig.until(lambda tx: tx.asks.open_at(MAIN, 0.0, lambda _: True))
        await rig.channel.say("yes", private=True)
        await rig.until_said("you said: yes")

        def state(tx: Tx) -> str:
            row = tx.asks.get(ask.ask.id)
            return row.state if row else ""

        assert await rig.store.read(state) == "open"
        shown = next(posted.ref for posted in rig.channel.sent if "in as a member?" in posted.text)
        await rig.channel.say("yes", private=True, reply_to=shown)
        assert await rig.store.read(state) == "answered", "but a reply to the question does"


class HoldingChannel(MemoryChannel):
    """Sends no ask until `up` is set, as behind a dead line."""

    def __init__(self) -> None:
        super().__init__()
        self.up = anyio.Event()
        self.asked = anyio.Event()

    @override
    async def send(self, address: Address, part: Part) -> MessageRef:
        if part.data["kind"] == "ask":
            self.asked.set()
            await self.up.wait()
        return await super().send(address, part)


EARLY = "You sent this before I asked, so it is no answer; it comes after your answer (/cancel drops it)."


@pytest.mark.parametrize(("ask", "word"), [(MAKE, "yes"), (COLOUR, "Blue"), (NAME, "Use the other one.")])
async def test_what_was_sent_before_the_ask_was_shown_does_not_answer_it(
    tmp_path: Path, ask: Ask, word: str
) -> None:
    channel = HoldingChannel()
    async with open_rig(tmp_path, asking(ask), channel) as rig:
        await channel.say("go")
        await channel.asked.wait()
        unseen = await channel.say(word)
        assert unseen.text == EARLY
        channel.up.set()
        shown = await rig.until_asked()
        sent_at = rig.ports.clock.now() - 600
        late = InboundMessage(channel.address(), PERSON, "late", word, private=True, sent_at=sent_at)
        assert (await rig.gateway.desk.accept(late)).text == EARLY
        assert (await rig.inbox_row(unseen)).status == "queued"
        verdict: Verdict = "allow" if ask is MAKE else "answer"
        await channel.answer(
            shown, verdict, text="x" if ask is NAME else "", options=("r",) if ask is COLOUR else ()
        )
        turn = await rig.until_true(lambda: rig.engine.turns[1:])
        assert turn[0].prompt.text.count(word) == 2


async def test_a_platforms_own_numbers_tell_what_came_first(tmp_path: Path) -> None:
    """They hold where clocks differ: the platform's runs five minutes behind ours."""
    counted = count(10)
    channel = MemoryChannel(native_ids=lambda: str(next(counted)))
    async with open_rig(tmp_path, asking(MAKE), channel) as rig:
        await channel.say("go")
        await rig.until_asked()
        sent_at = rig.ports.clock.now() - 300
        early, late = (
            InboundMessage(channel.address(), PERSON, number, "yes", private=True, sent_at=sent_at)
            for number in ("9", str(next(counted)))
        )
        assert (await rig.gateway.desk.accept(early)).text == EARLY
        assert (await rig.gateway.desk.accept(late)).text == "Allowed by Person: make."


class RefusingChannel(MemoryChannel):
    """The first ask is refused, or is shown and not confirmed."""

    def __init__(self, error: Exception, native_ids: Callable[[], str] | None = None) -> None:
        super().__init__(native_ids=native_ids)
        self.error: Exception | None = error

    @override
    async def send(self, address: Address, part: Part) -> MessageRef:
        if self.error is None or part.data["kind"] != "ask":
            return await super().send(address, part)
        error, self.error = self.error, None
        if isinstance(error, Unconfirmed):
            await super().send(address, part)
        raise error


@pytest.mark.parametrize("error", [Rejected("too long"), Unconfirmed("502")])
@pytest.mark.parametrize("ask", [MAKE, NAME])
async def test_an_ask_whose_message_failed_is_answered_by_words_all_the_same(
    tmp_path: Path, error: Exception, ask: Ask
) -> None:
    channel = RefusingChannel(error)
    async with open_rig(tmp_path, asking(ask), channel, retry_first_s=600.0) as rig:
        await channel.say("go")
        (row,) = await rig.until(lambda tx: tx.asks.open_in(MAIN))
        asked = f"ask:{row.ask.id}:asked"

        def was_tried(tx: Tx) -> bool:
            sent = tx.outbox.by_key(asked)
            return sent is not None and sent.status != "claimed" and sent.attempts > 0

        await rig.until(was_tried)
        assert (await channel.say("yes")).text != EARLY
        assert await rig.until(lambda tx: not tx.asks.open_in(MAIN))


async def test_a_word_between_two_copies_of_an_ask_answers_it(tmp_path: Path) -> None:
    """As after a crash: the ask was seen, and is sent again because nobody knows that."""
    counted = count(10)
    channel = RefusingChannel(Unconfirmed("502"), native_ids=lambda: str(next(counted)))
    async with open_rig(tmp_path, asking(MAKE), channel, retry_first_s=0.01) as rig:
        await channel.say("go", native_id="1")
        await rig.until_true(lambda: len([post for post in channel.sent if "make" in post.text]) == 2)
        await rig.until_asked()
        first, second = (int(post.ref.native_id) for post in channel.sent if "make" in post.text)
        assert second > first
        late = InboundMessage(channel.address(), PERSON, str(first), "yes", private=True)
        assert (await rig.gateway.desk.accept(late)).text == "Allowed by Person: make."
