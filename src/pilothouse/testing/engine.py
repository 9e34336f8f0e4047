"""The conformance suite for engines: subclass `EngineConformance` and give it a `rig` fixture.

class TestMine(EngineConformance):
    @pytest.fixture
    def rig(self) -> EngineRig:
        return MyRig()

The suite talks to the engine through the port alone. A prompt that the rig leaves empty skips what needs it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Protocol

import anyio
import msgspec
import pytest

from pilothouse.core.ask import Ask, Decision, hash_payload
from pilothouse.core.engine import (
    Answerable,
    Brief,
    Engine,
    EngineSession,
    EngineSpec,
    Interruptible,
    Steerable,
)
from pilothouse.core.errors import EngineError
from pilothouse.core.event import (
    Asked,
    EngineEvent,
    Notice,
    ResumeToken,
    SessionStarted,
    TextDelta,
    TextSet,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    decode_event,
    encode_event,
    well_formed,
)
from pilothouse.core.ids import EngineId
from pilothouse.core.outcome import Failure
from pilothouse.core.turn import Prompt
from pilothouse.core.view import TurnView, fold

WITHIN_S = 30.0
"""A generous limit for anything that should be quick: machines are busy."""


Reaction = Callable[[EngineEvent], Awaitable[object] | None]
"""Reacts to an event."""


class EngineRig(Protocol):
    """An engine, and prompts for it. A prompt is empty if the model cannot be made to do it."""

    tool_prompt: str
    """Makes it use at least one tool."""
    ask_prompt: str
    """Makes it ask for an approval, and say something when it is allowed."""
    long_prompt: str
    """Makes it say or do something, and then be busy for minutes."""
    failing_prompt: str
    """Makes the turn fail."""
    bad_tokens: tuple[str, ...]
    """Values of resume tokens that belong to no session."""

    def build(self) -> Engine:
        """Returns a new engine, not entered yet."""
        ...

    def brief(self, name: str) -> Brief:
        """Returns a brief for a new session; another name is another session."""
        ...

    def prompt_saying(self, word: str) -> str:
        """Makes it answer with this word in its text."""
        ...

    def leftovers(self) -> list[str]:
        """Lists what its engines left on the machine: processes, sockets, temporary files."""
        ...


async def read_turn(session: EngineSession, text: str, react: Reaction | None = None) -> list[EngineEvent]:
    """Reads a whole turn; `react` is called with each event."""
    events: list[EngineEvent] = []
    with anyio.fail_after(WITHIN_S):
        async for event in session.run(Prompt(text)):
            events.append(event)
            if react and (reaction := react(event)):
                await reaction
    return events


def ending(events: list[EngineEvent]) -> TurnEnded:
    """Returns the end of a turn; fails if its events break the grammar, or do not survive JSON."""
    assert list(well_formed(events)) == events, "the stream breaks the grammar of core/event.py"
    assert [decode_event(encode_event(event)) for event in events] == events
    ends = [event for event in events if isinstance(event, TurnEnded)]
    assert len(ends) == 1
    assert events[-1] is ends[0]
    return ends[0]


def start_of(events: list[EngineEvent]) -> SessionStarted:
    return next(event for event in events if isinstance(event, SessionStarted))


def text_of(events: list[EngineEvent]) -> str:
    view = TurnView()
    for at, event in enumerate(events):
        view = fold(view, event, float(at))
    return view.text


def first_ask(events: list[EngineEvent]) -> Asked:
    return next(event for event in events if isinstance(event, Asked))


def is_busy(event: EngineEvent) -> bool:
    return isinstance(event, TextDelta | TextSet | ToolStarted)


def needs(prompt: str) -> str:
    if not prompt:
        pytest.skip("the rig has no prompt for this")
    return prompt


def resumed(brief: Brief, token: ResumeToken | None) -> Brief:
    return msgspec.structs.replace(brief, resume=token)


def answering(session: EngineSession, decision: Decision) -> Reaction:
    """Returns a reaction that answers every ask."""
    assert isinstance(session, Answerable)
    return lambda event: session.answer(event.ask.id, decision) if isinstance(event, Asked) else None


@asynccontextmanager
async def open_session(rig: EngineRig, name: str = "one") -> AsyncIterator[EngineSession]:
    """Open a session on a new engine. What the test raises is raised after both are left: task groups would wrap it."""
    raised: BaseException | None = None
    async with rig.build() as engine, engine.open(rig.brief(name)) as session:
        try:
            yield session
        except (Exception, pytest.skip.Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - raised below
            raised = error
    if raised is not None:
        raise raised


def check_spec(spec: EngineSpec) -> None:
    """Check a spec that an entry point may name: its section needs no setting, and its probe returns a status."""
    assert spec.id
    assert spec.title
    status = spec.probe(msgspec.convert({}, spec.config))
    assert status.available or (status.problem and status.fix)


class EngineConformance:
    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def anyio_backend(self) -> str:
        """Run on asyncio, whatever else is installed."""
        return "asyncio"

    async def test_every_turn_starts_first_and_ends_once_and_last_and_nothing_is_left(
        self, rig: EngineRig
    ) -> None:
        async with open_session(rig) as session:
            first = await read_turn(session, rig.prompt_saying("pineapple"))
            second = await read_turn(session, rig.prompt_saying("walnut"))
        assert ending(first).outcome == "completed"
        assert isinstance(next(event for event in first if not isinstance(event, Notice)), SessionStarted)
        assert "pineapple" in ending(first).answer
        assert "pineapple" in text_of(first)
        assert "walnut" in ending(second).answer
        assert start_of(second).resume == ending(first).resume
        assert rig.leftovers() == []

    async def test_every_tool_is_closed_before_the_end(self, rig: EngineRig) -> None:
        async with open_session(rig) as session:
            events = await read_turn(session, needs(rig.tool_prompt))
        ending(events)
        opened = [event.call.id for event in events if isinstance(event, ToolStarted)]
        closed = [event.call_id for event in events if isinstance(event, ToolFinished)]
        assert opened
        assert sorted(opened) == sorted(closed)

    async def test_a_failure_is_an_event(self, rig: EngineRig) -> None:
        async with open_session(rig) as session:
            end = ending(await read_turn(session, needs(rig.failing_prompt)))
            assert end.outcome == "failed"
            assert end.failure is not None
            assert end.failure.text

    async def test_a_session_is_found_again_by_its_token_also_by_another_engine(self, rig: EngineRig) -> None:
        async with rig.build() as engine:
            async with engine.open(rig.brief("one")) as session:
                token = ending(await read_turn(session, rig.prompt_saying("pineapple"))).resume
            assert token is not None
            async with engine.open(resumed(rig.brief("one"), token)) as session:
                again = await read_turn(session, rig.prompt_saying("walnut"))
        assert ending(again).outcome == "completed"
        assert start_of(again).resume == token
        async with rig.build() as engine, engine.open(resumed(rig.brief("one"), token)) as session:
            assert ending(await read_turn(session, rig.prompt_saying("chestnut"))).outcome == "completed"

    async def test_a_bad_token_is_called_stale(self, rig: EngineRig) -> None:
        async with rig.build() as engine:
            async with engine.open(rig.brief("good")) as session:
                good = ending(await read_turn(session, rig.prompt_saying("pineapple"))).resume
            assert good is not None
            foreign = ResumeToken(EngineId("some-other-engine"), good.value)
            for token in (foreign, *(ResumeToken(good.engine, value) for value in rig.bad_tokens)):
                failure = await self._failure_of(engine, resumed(rig.brief("bad"), token))
                assert failure is not None, f"{token} was taken for a session"
                assert failure.kind == "stale_session"

    async def _failure_of(self, engine: Engine, brief: Brief) -> Failure | None:
        try:
            async with engine.open(brief) as session:
                return ending(await read_turn(session, "Hello")).failure
        except EngineError as error:
            return error.failure

    async def test_an_interrupted_turn_ends_cancelled_and_the_session_goes_on(self, rig: EngineRig) -> None:
        async with open_session(rig) as session:
            if not isinstance(session, Interruptible):
                pytest.skip("the engine cannot be interrupted")
            stop = session.interrupt
            events = await read_turn(
                session, needs(rig.long_prompt), lambda event: stop() if is_busy(event) else None
            )
            assert ending(events).outcome == "cancelled"
            await stop()
            assert "walnut" in ending(await read_turn(session, rig.prompt_saying("walnut"))).answer

    async def test_steering_is_taken_while_a_turn_runs_and_only_then(self, rig: EngineRig) -> None:
        async with open_session(rig) as session:
            if not isinstance(session, Interruptible) or not isinstance(session, Steerable):
                pytest.skip("the engine cannot be steered")
            stop, steer, taken = session.interrupt, session.steer, list[bool]()

            async def steer_and_stop() -> None:
                if not taken:
                    taken.append(await steer(Prompt("make it short")))
                    await stop()

            prompt = needs(rig.long_prompt)
            await read_turn(session, prompt, lambda event: steer_and_stop() if is_busy(event) else None)
            assert taken == [True]
            assert await steer(Prompt("too late")) is False

    async def test_leaving_in_the_middle_of_a_turn_leaves_nothing(self, rig: EngineRig) -> None:
        async with rig.build() as engine:
            with anyio.fail_after(WITHIN_S):
                async with engine.open(rig.brief("one")) as session:
                    await self._read_until_busy(session, needs(rig.long_prompt))
            async with engine.open(rig.brief("two")) as session:
                assert "walnut" in ending(await read_turn(session, rig.prompt_saying("walnut"))).answer
        assert rig.leftovers() == []

    async def test_being_cancelled_in_the_middle_of_a_turn_leaves_nothing(self, rig: EngineRig) -> None:
        busy = needs(rig.long_prompt)
        with anyio.fail_after(WITHIN_S):
            async with anyio.create_task_group() as tasks:
                seen = anyio.Event()
                tasks.start_soon(self._read_for_ever, rig, busy, seen)
                await seen.wait()
                tasks.cancel_scope.cancel()
        assert rig.leftovers() == []

    async def _read_until_busy(self, session: EngineSession, prompt: str) -> None:
        async for event in session.run(Prompt(prompt)):
            if is_busy(event):
                return

    async def _read_for_ever(self, rig: EngineRig, prompt: str, seen: anyio.Event) -> None:
        async with open_session(rig) as session:
            async for event in session.run(Prompt(prompt)):
                if is_busy(event):
                    seen.set()

    async def test_two_sessions_in_parallel_do_not_mix(self, rig: EngineRig) -> None:
        words = ("pineapple", "walnut")
        streams: dict[str, list[EngineEvent]] = {}

        async def talk(engine: Engine, word: str) -> None:
            async with engine.open(rig.brief(word)) as session:
                streams[word] = await read_turn(session, rig.prompt_saying(word))

        async with rig.build() as engine, anyio.create_task_group() as tasks:
            for word in words:
                tasks.start_soon(talk, engine, word)
        for word, events in streams.items():
            assert [other for other in words if other in ending(events).answer] == [word]
        assert len({str(ending(events).resume) for events in streams.values()}) == len(words)

    async def test_each_answer_to_an_ask_has_its_effect(self, rig: EngineRig) -> None:
        async with open_session(rig) as session:
            allow = needs_asking(session, rig, Decision("allow", by=None))
            events = await read_turn(session, rig.ask_prompt, allow)
            denied = await read_turn(session, rig.ask_prompt, answering(session, Decision("deny")))
            reason = Decision("deny", text="not on a Friday")
            reasoned = await read_turn(session, rig.ask_prompt, answering(session, reason))
        ask = first_ask(events).ask
        assert ask.payload_hash == hash_payload(ask.payload)
        assert ask.call is not None or ask.kind == "question" or "tool" not in ask.payload
        assert ending(events).outcome == "completed"
        assert is_after(events, first_ask(events))
        assert ending(denied).outcome == "cancelled"
        assert ending(reasoned).outcome == "completed"
        await self._check_the_same_ask(rig, ask)

    async def _check_the_same_ask(self, rig: EngineRig, ask: Ask) -> None:
        """In another session it has the same hash, and an id of its own; and it can be interrupted."""
        async with open_session(rig) as session:
            again = first_ask(
                await read_turn(session, rig.ask_prompt, needs_asking(session, rig, Decision("allow")))
            )
            assert again.ask.payload_hash == ask.payload_hash
            assert again.ask.id != ask.id
            if isinstance(session, Interruptible):
                stop = session.interrupt
                events = await read_turn(
                    session, rig.ask_prompt, lambda event: stop() if isinstance(event, Asked) else None
                )
                assert ending(events).outcome == "cancelled"


def needs_asking(session: EngineSession, rig: EngineRig, decision: Decision) -> Reaction:
    if not isinstance(session, Answerable):
        pytest.skip("the engine does not ask")
    needs(rig.ask_prompt)
    return answering(session, decision)


def is_after(events: list[EngineEvent], event: EngineEvent) -> bool:
    """Returns true if anything was said or done between `event` and the end."""
    return any(is_busy(later) for later in events[events.index(event) :])
