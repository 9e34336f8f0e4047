"""Questions of an agent: answered by a button or in words, expired, parked, and after a restart."""

from __future__ import annotations

from pathlib import Path

import anyio
from tests.agent_tools.agent import Agent, Stage
from tests.runtime.rig import only_alive, open_rig

from pilothouse.channels.memory import PERSON

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
