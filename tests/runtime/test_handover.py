"""A conversation moves between engines: fresh or with its context, back again, and away from an engine that is out."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.runtime.puppet import PUPPET, PuppetEngine, Strings, echo
from tests.runtime.rig import MAIN, MEMBER, Rig, open_rig
from tests.runtime.test_choices import tap
from tests.runtime.test_commands import NAMES, OTHER, buttons, reply_to

from pilothouse.core.ask import Ask
from pilothouse.core.errors import EngineError
from pilothouse.core.event import PlanChanged, PlanItem
from pilothouse.core.ids import AskId, EngineId
from pilothouse.core.outcome import Failure
from pilothouse.testing.clock import FakeClock

TITLES = {OTHER: "Other", PUPPET: "Puppet"}


async def answer(strings: Strings) -> None:
    """Answers with a token of its own for each engine's session."""
    token = strings.brief.resume.value if strings.brief.resume else f"token-{strings.brief.session_id}"
    await strings.start(token)
    await strings.end(f"answer to {strings.prompt.text.rpartition(chr(10))[2]}")


async def work(strings: Strings) -> None:
    """Changes a file, runs a command, asks, and leaves a plan."""
    await strings.start("worked")
    await strings.tool("c1", "file_change", "edit: src/login.py")
    await strings.tool_done("c1")
    await strings.tool("c2", "file_change", "edit: src/broken.py")
    await strings.tool_done("c2", ok=False)
    await strings.tool("c3", "command", "make")
    await strings.tool_done("c3")
    await strings.ask(Ask(AskId("a1"), "question", "Which colour?", free_text=True))
    plan = (PlanItem("write it", "done"), PlanItem("test <it>", "active"), PlanItem("ship it"))
    await strings.emit(PlanChanged(plan))
    await strings.end("The login works.")


async def say(rig: Rig, text: str, count: int) -> None:
    await rig.channel.say(text)
    await rig.until_ended(count)


async def test_moving_with_the_context_tells_what_was_asked_decided_and_changed_and_what_is_left(
    tmp_path: Path,
) -> None:
    puppet, other = PuppetEngine(work, answer), PuppetEngine(answer)
    async with open_rig(tmp_path, puppet, engines={PUPPET: puppet, OTHER: other}, engine_names=NAMES) as rig:
        await rig.channel.say("mend the login")
        ask = await rig.until_asked("Which colour?")
        await rig.channel.answer(ask, "answer", text="green")
        await rig.until_ended()
        offered = await reply_to(rig, "/engine other")
        assert "Move this conversation to other?" in offered
        assert [label for label, _ in buttons(rig)] == ["Take the context along", "Start fresh"]
        await say(rig, "still here", 2)
        assert len(puppet.turns) == 2, "nothing changes until somebody chooses"
        assert "other, in a new session, with a recap" in await tap(rig, "Take the context along")
        await say(rig, "go on", 3)
        recap, _, said = other.turns[0].prompt.text.rpartition("\n\n")
        assert said == "go on"
        assert "<asked>mend the login</asked>\n<decided>Which colour?: green</decided>\n" in recap
        assert "<answered>The login works.</answered>" in recap
        assert "<changed_files>\nsrc/login.py\n</changed_files>" in recap
        assert "<open_plan>\n[active] test &lt;it&gt;\n[pending] ship it\n</open_plan>" in recap
        await say(rig, "and now", 4)
        assert other.turns[1].prompt.text == "and now", "the recap is told once"


async def test_moving_back_resumes_the_first_session_and_tells_what_came_since(tmp_path: Path) -> None:
    puppet, other = PuppetEngine(answer), PuppetEngine(answer)
    async with open_rig(tmp_path, puppet, engines={PUPPET: puppet, OTHER: other}, engine_names=NAMES) as rig:
        await say(rig, "one", 1)
        await reply_to(rig, "/engine other along")
        await say(rig, "two", 2)
        assert "puppet again, in the session that it had" in await reply_to(rig, "/engine puppet")
        await say(rig, "three", 3)
        one, two, three = await rig.turns()
        assert one.session_id == three.session_id != two.session_id
        assert puppet.briefs[-1].resume is not None
        assert "<asked>two</asked>" in three.prompt.text
        assert "<asked>one</asked>" not in three.prompt.text
        await reply_to(rig, "/engine other")
        await say(rig, "four", 4)
        four = (await rig.turns())[-1]
        assert four.session_id == two.session_id
        assert "<asked>three</asked>" in four.prompt.text
        assert "<asked>one</asked>" not in four.prompt.text
        assert "Start fresh instead" in [label for label, _ in buttons(rig)]
        await reply_to(rig, "/engine puppet fresh")
        await say(rig, "five", 5)
        five = (await rig.turns())[-1]
        assert five.prompt.text == "five"
        assert five.session_id not in (one.session_id, two.session_id)


@pytest.mark.parametrize("how", ["along", "fresh"])
async def test_moving_back_at_once_resumes_the_first_session(tmp_path: Path, how: str) -> None:
    puppet, other = PuppetEngine(answer), PuppetEngine(answer)
    async with open_rig(tmp_path, puppet, engines={PUPPET: puppet, OTHER: other}, engine_names=NAMES) as rig:
        await say(rig, "one", 1)
        assert "/engine puppet goes back" in await reply_to(rig, f"/engine other {how}")
        assert "puppet again, in the session that it had" in await reply_to(rig, "/engine puppet")
        await say(rig, "two", 2)
        one, two = await rig.turns()
        assert one.session_id == two.session_id
        assert two.prompt.text == "two", "nothing was said in between"
        assert puppet.briefs[-1].resume is not None


async def test_moving_on_at_once_takes_the_context_along(tmp_path: Path) -> None:
    third = EngineId("third")
    puppet, other, last = PuppetEngine(answer), PuppetEngine(answer), PuppetEngine(answer)
    engines, names = {PUPPET: puppet, OTHER: other, third: last}, {**NAMES, "third": third}
    async with open_rig(tmp_path, puppet, engines=engines, engine_names=names) as rig:
        await say(rig, "one", 1)
        await reply_to(rig, "/engine other along")
        assert "Move this conversation to third?" in await reply_to(rig, "/engine third")
        await reply_to(rig, "/engine third along")
        await say(rig, "two", 2)
        assert "<asked>one</asked>" in last.turns[0].prompt.text
        assert "puppet again" in await reply_to(rig, "/engine puppet")


async def test_a_new_session_has_nothing_to_go_back_to(tmp_path: Path) -> None:
    puppet, other = PuppetEngine(answer), PuppetEngine(answer)
    async with open_rig(tmp_path, puppet, engines={PUPPET: puppet, OTHER: other}, engine_names=NAMES) as rig:
        await say(rig, "one", 1)
        await reply_to(rig, "/engine other fresh")
        await reply_to(rig, "/new")
        assert "puppet, in a new session" in await reply_to(rig, "/engine puppet")
        await say(rig, "two", 2)
        one, two = await rig.turns()
        assert (one.engine, two.engine) == (PUPPET, PUPPET)
        assert one.session_id != two.session_id
        assert "already" in await reply_to(rig, "/engine puppet")
        assert "along takes the context along" in await reply_to(rig, "/engine other sideways")
        await say(rig, "three", 3)
        assert (await rig.turns())[-1].session_id == two.session_id


async def test_a_recap_that_did_not_reach_the_engine_is_told_again(tmp_path: Path) -> None:
    async def refused(strings: Strings) -> None:
        await strings.fail("auth", "Log in.", fix="Log in on {machine}")

    puppet, other = PuppetEngine(answer), PuppetEngine(refused, answer)
    async with open_rig(tmp_path, puppet, engines={PUPPET: puppet, OTHER: other}, engine_names=NAMES) as rig:
        await say(rig, "one", 1)
        await reply_to(rig, "/engine other along")
        await say(rig, "two", 2)
        await say(rig, "three", 3)
        assert [turn.status for turn in await rig.turns()] == ["done", "failed", "done"]
        assert all("<asked>one</asked>" in turn.prompt.text for turn in other.turns)


async def test_a_recap_that_did_not_reach_the_engine_is_told_after_another_move_too(tmp_path: Path) -> None:
    async def refused(strings: Strings) -> None:
        await strings.fail("auth", "Log in.", fix="Log in on {machine}")

    puppet, other = PuppetEngine(answer, refused, answer), PuppetEngine(answer)
    async with open_rig(tmp_path, puppet, engines={PUPPET: puppet, OTHER: other}, engine_names=NAMES) as rig:
        await say(rig, "one", 1)
        await reply_to(rig, "/engine other along")
        await say(rig, "two", 2)
        await reply_to(rig, "/engine puppet")
        await say(rig, "three", 3)
        await reply_to(rig, "/engine other")
        await say(rig, "four", 4)
        await reply_to(rig, "/engine puppet")
        await say(rig, "five", 5)
        recap = puppet.turns[-1].prompt.text
        assert [f"<asked>{said}</asked>" in recap for said in ("one", "two", "four")] == [False, True, True]


async def test_an_engine_that_is_out_before_a_turn_began_offers_another_that_works(tmp_path: Path) -> None:
    async def opening() -> None:
        if len(puppet.briefs) == 2:
            raise EngineError(Failure("auth", "Puppet is not logged in.", fix="Log in on {machine}"))

    broken = "It is not installed."
    puppet, other = PuppetEngine(answer, opening=opening), PuppetEngine(answer)
    engines, unusable = {PUPPET: puppet, OTHER: other}, {OTHER: broken}
    async with open_rig(
        tmp_path, puppet, engines=engines, engine_names=NAMES, engine_titles=TITLES, unusable=unusable
    ) as rig:
        await say(rig, "one", 1)
        unusable.clear()
        await say(rig, "two", 2)
        await rig.until_said("Or continue with Other (/retry other).")
        failed = (await rig.turns())[-1]
        assert buttons(rig) == [
            ["Retry", f"/retry {failed.id}"],
            ["Continue with Other", f"/retry {failed.id} other"],
        ]
        await rig.channel.say(f"/retry {failed.id} other", author=MEMBER)
        await rig.until_said("Only an admin may do that here.")
        unusable[OTHER] = broken
        assert broken in await reply_to(rig, "/retry other")
        unusable.clear()
        assert "Trying again with other" in await tap(rig, "Continue with Other")
        await rig.until_ended(3)
        again = (await rig.turns())[-1]
        assert (again.engine, again.status, again.answer) == (OTHER, "done", "answer to two")
        assert "<asked>one</asked>" in again.prompt.text
        assert again.prompt.text.endswith("\n\ntwo")
        await reply_to(rig, "/engine puppet")
        await say(rig, "three", 4)
        first, *_, last = await rig.turns()
        assert first.session_id == last.session_id


async def test_nothing_is_offered_where_no_engine_works_or_the_turn_had_begun(tmp_path: Path) -> None:
    async def begun(strings: Strings) -> None:
        await strings.start()
        await strings.tool()
        await strings.fail("auth", "Log in.", fix="Log in")

    async def bad(strings: Strings) -> None:
        await strings.fail("bad_request", "That was too much.")

    async def refused(strings: Strings) -> None:
        await strings.fail("auth", "Log in, please.", fix="Log in")

    puppet, other = PuppetEngine(begun, bad, refused), PuppetEngine(answer)
    engines, unusable = {PUPPET: puppet, OTHER: other}, {EngineId("login:other"): "Not logged in."}
    async with open_rig(tmp_path, puppet, engines=engines, engine_names=NAMES, unusable=unusable) as rig:
        await say(rig, "one", 1)
        assert "already begun" in await reply_to(rig, "/retry other")
        await say(rig, "two", 2)
        await rig.until_said("That was too much.")
        await say(rig, "three", 3)
        await rig.until_said("Log in, please.")
        assert "another engine" not in "\n".join(rig.said())
        assert "· other 1.0: Not logged in.\n" in await reply_to(rig, "/engine")


async def test_a_turn_that_waits_for_its_quota_can_run_elsewhere_at_once(tmp_path: Path) -> None:
    clock = FakeClock()

    async def used_up(strings: Strings) -> None:
        await strings.fail("quota", "The limit is reached.", retry_at=clock.now() + 3600)

    puppet, other = PuppetEngine(used_up), PuppetEngine(echo)
    async with open_rig(
        tmp_path,
        puppet,
        engines={PUPPET: puppet, OTHER: other},
        engine_names=NAMES,
        engine_titles=TITLES,
        clock=clock,
    ) as rig:
        await rig.channel.say("one")
        await rig.until_said("Or continue with Other (/retry other).")
        (parked,) = await rig.turns()
        assert "Trying again with other" in await tap(rig, "Continue with Other")
        (turn,) = await rig.until_ended()
        assert (turn.id, turn.engine, turn.status) == (parked.id, OTHER, "done")
        conversation = await rig.store.read(lambda tx: tx.conversations.get(MAIN))
        assert conversation is not None
        assert (conversation.engine, conversation.session_id) == (OTHER, turn.session_id)
