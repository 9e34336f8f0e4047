"""Questions of an agent: answered by a button or in words, expired, parked, and after a restart."""

from __future__ import annotations

from pathlib import Path

import anyio
import httpx2
from tests.agent_tools.agent import Agent, Stage
from tests.runtime.puppet import PuppetEngine, Strings, echo
from tests.runtime.rig import MAIN, only_alive, open_rig

from pilothouse.agent_tools.server import AgentToolServer
from pilothouse.channels.memory import PERSON
from pilothouse.core.message import inbox_key
from pilothouse.runtime.facts import PARKED_QUESTION
from pilothouse.testing.clock import FakeClock

OPTIONS = ["Red", {"label": "Blue", "value": "#00f"}]


async def test_an_answer_returns_by_a_button_and_in_words_and_silence_is_an_error(tmp_path: Path) -> None:
    told: list[str] = []

    async def scene(agent: Agent) -> None:
        asked = {"title": "Paint", "options": OPTIONS}
        told.append(await agent.call("ask_user_question", question="Which colour?", **asked))
        told.append(await agent.call("ask_user_question", question="Another colour?", **asked))
        told.append(await agent.call("ask_user_question", question="Anybody?", timeout=0.2))
        told.append(await agent.call("ask_user_question", question="", timeout=5))
        told.append(await agent.call("ask_user_question", question="x", options=[{}]))
        told.append(await agent.call("ask_user_question", question="x", timeout=0))

    stage = Stage(scene)
    async with open_rig(tmp_path, stage.engine) as rig:
        stage.rig = rig
        await rig.channel.say("go")
        ask = await rig.until_asked("Which colour?")
        assert (await rig.channel.answer(ask, "answer", options=("2",))).accepted
        await rig.until_asked("Another colour?")
        await rig.channel.say("rather green")
        await rig.until_ended()
        assert not stage.errors
        await rig.until_said("; Puppet goes on without one: Anybody?")
    assert told[:2] == ["#00f", "rather green"]
    assert told[2] == "refused: Nobody answered within 0.2 s. Go on without an answer, or ask again later."
    assert [text.startswith("refused: ") for text in told[3:]] == [True, True, True]


async def test_the_line_that_tells_the_answer_has_the_words_for_the_chosen_option(tmp_path: Path) -> None:
    told: list[str] = []
    yes = {"label": "Yes", "value": "go", "selectedLabel": "✅ Approved"}

    async def scene(agent: Agent) -> None:
        told.append(await agent.call("ask_user_question", question="Deploy?", options=[yes, "No"]))

    stage = Stage(scene)
    async with open_rig(tmp_path, stage.engine) as rig:
        stage.rig = rig
        await rig.channel.say("go")
        ask = await rig.until_asked("Deploy?")
        assert (await rig.channel.answer(ask, "answer", options=("1",))).accepted
        await rig.until_said("Answered by Person: ✅ Approved (Deploy?)")
        await rig.until_ended()
    assert told == ["go"]


async def test_several_questions_wait_at_once_and_each_gets_its_own_answer(tmp_path: Path) -> None:
    told: dict[str, str] = {}

    async def scene(agent: Agent) -> None:
        async def ask(question: str) -> None:
            told[question] = await agent.call("ask_user_question", question=question, options=OPTIONS)

        async with anyio.create_task_group() as tasks:
            for question in ("Which wall?", "Which door?", "Which roof?"):
                tasks.start_soon(ask, question)

    stage = Stage(scene)
    async with open_rig(tmp_path, stage.engine) as rig:
        stage.rig = rig
        await rig.channel.say("go")
        asks = [await rig.until_asked(question) for question in ("Which wall?", "Which door?", "Which roof?")]
        assert told == {}, "all of them wait"
        for ask, option in zip(reversed(asks), "121", strict=True):
            assert (await rig.channel.answer(ask, "answer", options=(option,))).accepted
        await rig.until_ended()
        assert not stage.errors
    assert told == {"Which wall?": "Red", "Which door?": "#00f", "Which roof?": "Red"}


async def test_a_parked_question_is_answered_in_the_next_turn(tmp_path: Path) -> None:
    told: list[str] = []

    async def ask(agent: Agent) -> None:
        told.append(
            await agent.call("ask_user_question", question="Which colour?", options=OPTIONS, timeout=3600)
        )

    async def quiet(agent: Agent) -> None:
        pass

    stage = Stage(ask, quiet)
    async with open_rig(tmp_path, stage.engine, question_park_s=0.1) as rig:
        await stage.play(rig)
        asked = await rig.until_asked("Which colour?")
        await rig.channel.answer(asked, "answer", options=("1",))
        late = await rig.channel.answer(asked, "answer", options=("2",))
        turns = await rig.until_ended(2)
    assert told[0].startswith("Parked: ")
    assert not late.accepted
    assert "Question: Which colour?\nResult: Red" in turns[1].prompt.text
    assert turns[1].prompt.authors == (PERSON.id,)


async def test_a_question_is_closed_when_a_person_stops_its_turn(tmp_path: Path) -> None:
    async def ask(agent: Agent) -> None:
        await agent.call("ask_user_question", question="Which colour?", options=OPTIONS, timeout=3600)

    stage = Stage(ask)
    async with open_rig(tmp_path, stage.engine) as rig:
        stage.rig = rig
        await rig.channel.say("go")
        asked = await rig.until_asked("Which colour?")
        await rig.channel.say("/stop")
        (turn,) = await rig.until_ended()
        row = await rig.store.read(lambda tx: tx.asks.get(asked.id))
        assert turn.status == "cancelled" and row is not None and row.state == "superseded"
        await rig.until_said("(its turn was stopped)")
        assert not (await rig.channel.answer(asked, "answer", options=("1",))).accepted


async def test_an_answer_after_a_restart_arrives_once_as_a_message(tmp_path: Path) -> None:
    async def ask(agent: Agent) -> None:
        await agent.call("ask_user_question", question="Which colour?", options=OPTIONS, timeout=3600)

    async def quiet(agent: Agent) -> None:
        pass

    first = Stage(ask)
    async with open_rig(tmp_path, first.engine, name="first") as rig:
        first.rig = rig
        await rig.channel.say("go")
        asked = await rig.until_asked("Which colour?")
        await rig.store.write(lambda tx: tx.turns.note(tx.turns.of(limit=1)[0].id, began=True))
        rig.crash()
    second = Stage(quiet)
    async with open_rig(tmp_path, second.engine, name="second", alive=only_alive("second")) as rig:
        second.rig = rig
        with anyio.fail_after(60):
            while not (await rig.channel.answer(asked, "answer", options=("1",))).accepted:
                await anyio.sleep(0.05)
        turns = await rig.until_ended(2)
        await rig.until_idle()
        assert len(await rig.turns()) == 2
    assert "Result: Red" in turns[1].prompt.text


async def test_an_answer_after_the_connection_broke_starts_the_next_turn(tmp_path: Path) -> None:
    question = {"question": "Which colour?", "options": OPTIONS}
    call = {"name": "ask_user_question", "arguments": question}
    may_end = anyio.Event()

    async def play(strings: Strings) -> None:
        await strings.start()
        own = strings.brief.mcp_servers["pilothouse"]
        headers = {**own["headers"], "Accept": "application/json, text/event-stream"}
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        async with (
            httpx2.AsyncClient(trust_env=False, headers=headers) as client,
            client.stream("POST", own["url"], json=request),
        ):
            await rig.until_asked("Which colour?")
        await may_end.wait()
        await strings.end("The turn is over.")

    async with open_rig(tmp_path, PuppetEngine(play, echo), tools=AgentToolServer()) as rig:
        await rig.channel.say("go")
        asked = await rig.until_asked("Which colour?")
        await rig.until(lambda tx: tx.get_fact(PARKED_QUESTION.of(asked.id)))
        assert (await rig.channel.answer(asked, "answer", options=("2",))).accepted
        may_end.set()
        turns = await rig.until_ended(2)
        await rig.until_idle()
        assert len(await rig.turns()) == 2
    assert "Question: Which colour?\nResult: #00f" in turns[1].prompt.text


async def test_a_question_that_is_asked_again_after_its_call_broke_is_answered_once(tmp_path: Path) -> None:
    told: list[str] = []
    again = anyio.Event()

    async def ask(agent: Agent) -> None:
        told.append(
            await agent.call("ask_user_question", use_id="one", question="Which colour?", timeout=100)
        )

    async def scene(agent: Agent) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, agent)
            asked = await rig.until_asked("Which colour?")
            tasks.cancel_scope.cancel()
        await rig.until(lambda tx: tx.get_fact(PARKED_QUESTION.of(asked.id)))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, agent)
            await rig.until(lambda tx: not tx.get_fact(PARKED_QUESTION.of(asked.id)))
            again.set()

    stage = Stage(scene)
    async with open_rig(tmp_path, stage.engine) as rig:
        stage.rig = rig
        await rig.channel.say("go")
        await again.wait()
        asked = await rig.until_asked("Which colour?")
        assert (await rig.channel.answer(asked, "answer", text="Red")).accepted
        await rig.until_ended()
        await rig.until_idle()
        assert len(await rig.turns()) == 1
    assert not stage.errors
    assert told == ["Red"]


async def test_an_answer_that_came_while_the_call_was_broken_is_told_once(tmp_path: Path) -> None:
    told: list[str] = []

    async def ask(agent: Agent) -> None:
        told.append(
            await agent.call("ask_user_question", use_id="one", question="Which colour?", timeout=100)
        )

    async def scene(agent: Agent) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, agent)
            asked = await rig.until_asked("Which colour?")
            tasks.cancel_scope.cancel()
        assert (await rig.channel.answer(asked, "answer", text="Red")).accepted
        await ask(agent)

    stage = Stage(scene)
    async with open_rig(tmp_path, stage.engine) as rig:
        await stage.play(rig)
        assert len(await rig.turns()) == 1
    assert told == ["Red"]


async def test_the_expiry_of_a_question_whose_call_broke_tells_the_agent_nothing(tmp_path: Path) -> None:
    async def scene(agent: Agent) -> None:
        with anyio.CancelScope() as call:

            async def stop() -> None:
                await rig.until_asked("Which colour?")
                call.cancel()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(stop)
                await agent.call("ask_user_question", question="Which colour?", timeout=100)
        await clock.advance(101)
        await rig.until_said("goes on without one: Which colour?")

    clock, stage = FakeClock(), Stage(scene)
    async with open_rig(tmp_path, stage.engine, clock=clock) as rig:
        await stage.play(rig)
        assert len(await rig.turns()) == 1
        (asked,) = await rig.store.read(lambda tx: tx.asks.newest(states=("expired",)))
        key = inbox_key(MAIN, f"answer:{asked.ask.id}")
        assert await rig.store.read(lambda tx: tx.inbox.by_key(key)) is None
