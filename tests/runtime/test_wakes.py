"""Turns that an engine begins by itself: durable, each once, in their own session, and seen."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio
from tests.runtime.puppet import Play, PuppetEngine, PuppetSession, Strings, deaf, echo
from tests.runtime.rig import MAIN, Rig, only_alive, open_rig

from pilothouse.core.engine import Wake
from pilothouse.core.ids import SessionId
from pilothouse.core.store import Tx
from pilothouse.core.turn import Turn


class WakingEngine(PuppetEngine):
    """Tells the wakes that a test hands to `tell`."""

    def __init__(self, *plays: Play) -> None:
        super().__init__(*plays)
        self._news: deque[Wake] = deque()
        self._told = anyio.Event()

    def tell(self, wake: Wake) -> None:
        self._news.append(wake)
        self._told.set()

    async def wakes(self) -> AsyncIterator[Wake]:
        while True:
            while self._news:
                yield self._news.popleft()
            self._told = anyio.Event()
            await self._told.wait()


async def woken_or_echo(strings: Strings) -> None:
    if not strings.brief.wake:
        await echo(strings)
        return
    await strings.start()
    await strings.say(f"woke: {strings.brief.wake} in {strings.brief.session_id}")
    await strings.end()


async def first_turn(rig: Rig) -> Turn:
    await rig.channel.say("hello")
    return (await rig.until_ended(1))[0]


def wake(engine: WakingEngine, session: SessionId, id: str = "w1") -> None:
    engine.tell(Wake(session, "A task ended.", id))


async def test_law_9_a_wake_is_a_row_with_its_cause_and_a_turn_that_is_seen(tmp_path: Path) -> None:
    engine = WakingEngine(woken_or_echo)
    async with open_rig(tmp_path, engine) as rig:
        before = await first_turn(rig)
        wake(engine, before.session_id)
        text = await rig.until_said("woke: w1")
        turn = (await rig.until_ended(2))[-1]
        rows = await rig.store.read(lambda tx: tx.inbox.of_turn(turn.id))
    assert before.session_id in text
    assert (turn.cause, turn.prompt.text, turn.status) == ("wake", "A task ended.", "done")
    assert [(row.kind, row.status) for row in rows] == [("wake", "done")]


async def test_a_wake_that_is_told_twice_is_one_turn(tmp_path: Path) -> None:
    engine = WakingEngine(woken_or_echo)
    async with open_rig(tmp_path, engine) as rig:
        session = (await first_turn(rig)).session_id
        for id in ("w1", "w1", "w2"):
            wake(engine, session, id)
        await rig.until_said("woke: w2")
        await rig.until_idle()
        assert [turn.prompt.wake for turn in await rig.turns()] == ["", "w1", "w2"]


async def test_a_wake_belongs_to_its_session_also_after_a_new_one_began(tmp_path: Path) -> None:
    engine = WakingEngine(woken_or_echo)
    async with open_rig(tmp_path, engine) as rig:
        old = (await first_turn(rig)).session_id
        await rig.channel.say("/new")
        await rig.until_said("new session")
        await rig.channel.say("again")
        new = (await rig.until_ended(2))[-1].session_id
        wake(engine, old)
        assert old in await rig.until_said("woke: w1")
        await rig.until_ended(3)
        await rig.channel.say("and again")
        turns = await rig.until_ended(4)
    assert [turn.session_id for turn in turns] == [old, new, old, new]


async def test_a_wake_keeps_its_place_and_is_mixed_with_nothing(tmp_path: Path) -> None:
    release = anyio.Event()

    async def slow(strings: Strings) -> None:
        await strings.start()
        await release.wait()
        await strings.end("slow")

    engine = WakingEngine(echo, slow, woken_or_echo)
    async with open_rig(tmp_path, engine, busy="steer") as rig:
        session = (await first_turn(rig)).session_id
        engine.steerable = False
        await rig.channel.say("slow one")
        await rig.until_live()
        await rig.channel.say("a")
        await rig.channel.say("b")
        wake(engine, session)
        await rig.until(lambda tx: len(tx.inbox.waiting(MAIN)) == 3)
        await rig.channel.say("c")
        release.set()
        await rig.until_ended(2)  # else what waits could still go into this one
        engine.steerable = True
        turns = await rig.until_ended(5)
        assert all("A task ended." not in text for strings in engine.turns for text in strings.steered)
    assert [(turn.cause, turn.prompt.text.count("<message ")) for turn in turns[2:]] == [
        ("message", 2),
        ("wake", 0),
        ("message", 0),
    ]


async def test_a_wake_without_words_says_nothing(tmp_path: Path) -> None:
    """Another turn has told it already."""

    async def quiet(strings: Strings) -> None:
        await strings.start()
        await strings.end()

    engine = WakingEngine(echo, quiet)
    async with open_rig(tmp_path, engine) as rig:
        session = (await first_turn(rig)).session_id
        wake(engine, session)
        turn = (await rig.until_ended(2))[-1]
        await rig.until_idle()
        assert (turn.status, rig.said()) == ("done", ["you said: hello"])


async def test_a_wake_that_cannot_be_had_any_more_is_told_and_not_tried_again(tmp_path: Path) -> None:
    async def gone(strings: Strings) -> None:
        await strings.fail("crash", "Its process is gone.")

    engine = WakingEngine(echo, gone)
    async with open_rig(tmp_path, engine) as rig:
        session = (await first_turn(rig)).session_id
        wake(engine, session)
        turn = (await rig.until_ended(2))[-1]
        await rig.until_said("Its process is gone.")
    assert (turn.status, turn.attempts) == ("failed", 1)


async def test_a_wake_that_meets_a_limit_goes_on_by_a_word_not_by_a_stream_that_is_gone(
    tmp_path: Path,
) -> None:
    async def limited(strings: Strings) -> None:
        await strings.start()
        await strings.fail("quota", "The limit is reached.", retry_at=time.time() + 3600)

    engine = WakingEngine(echo, limited)
    async with open_rig(tmp_path, engine) as rig:
        session = (await first_turn(rig)).session_id
        wake(engine, session)
        parked = (await rig.until(lambda tx: tx.turns.of(MAIN, statuses=("parked",))))[0]
    assert (parked.prompt.text, parked.prompt.wake) == ("Continue.", "")


async def test_a_wake_of_nobodys_session_and_an_engine_that_cannot_tell_harm_nobody(tmp_path: Path) -> None:
    class Broken(PuppetEngine):
        async def wakes(self) -> AsyncIterator[Wake]:
            yield Wake(SessionId("nobody's"), "A task ended.", "w1")
            raise ValueError("broken")

    async with open_rig(tmp_path, Broken()) as rig:
        await rig.until_true(lambda: any(name == "engine.wakes_failed" for name, _ in rig.logged))
        turn = await first_turn(rig)
        count = await rig.store.read(lambda tx: len(tx.turns.of(MAIN)))
    assert (turn.status, count) == ("done", 1)


async def test_a_wake_that_a_crash_left_waiting_is_dispatched_by_the_next_gateway(tmp_path: Path) -> None:
    engine = WakingEngine(echo, deaf)
    async with open_rig(tmp_path, engine) as rig:
        session = (await first_turn(rig)).session_id
        await rig.channel.say("long one")
        await rig.until_live()
        wake(engine, session)
        await rig.until(lambda tx: tx.inbox.waiting(MAIN))
        rig.crash()
    again = WakingEngine(woken_or_echo)
    async with open_rig(tmp_path, again, name="next", alive=only_alive("next")) as rig:
        await rig.until_said("woke: w1")
        await rig.until_idle()
        turns = await rig.turns()
    assert [turn.prompt.wake for turn in turns] == ["", "", "w1"]


async def test_a_session_that_keeps_watch_is_not_stopped_for_its_silence(tmp_path: Path) -> None:
    class Watching(PuppetSession):
        detects_hangs = True

    release = anyio.Event()

    async def silent(strings: Strings) -> None:
        await strings.start()
        await release.wait()
        await strings.end("at last")

    async with open_rig(tmp_path, PuppetEngine(silent, session=Watching), hang_after_s=0.05) as rig:
        await rig.channel.say("go")
        await rig.until_live()
        await rig.until(looked_often(rig))
        release.set()
        turn = (await rig.until_ended(1))[0]
    assert (turn.status, turn.answer) == ("done", "at last")


def looked_often(rig: Rig) -> Callable[[Tx], bool]:
    """After ten times the patience of the gateway."""
    began = rig.ports.clock.monotonic()

    def holds(_tx: Tx) -> bool:
        rig.poke()
        return rig.ports.clock.monotonic() - began > 0.5

    return holds
