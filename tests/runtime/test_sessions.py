"""A reply goes on with the session whose answer it replies to, and a resume line with the session that it names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from tests.runtime.puppet import PUPPET, PuppetEngine, Strings, echo, until_interrupted
from tests.runtime.rig import MAIN, MEMBER, Rig, open_rig
from tests.runtime.test_busy import waiting_for
from tests.runtime.test_commands import reply_to
from tests.runtime.test_lost_asks import MAKE, asks

from pilothouse.channels.memory import PERSON
from pilothouse.core.ask import Ask
from pilothouse.core.channel import Receipt
from pilothouse.core.conversation import Conversation, Session
from pilothouse.core.engine import ResumeLines
from pilothouse.core.event import ResumeToken
from pilothouse.core.ids import AskId, ConversationId, EngineId, UserId
from pilothouse.core.message import Author, Content, MessageRef
from pilothouse.core.people import Grant
from pilothouse.runtime.outbox import say
from pilothouse.runtime.ports import OUTBOX, new_id

OTHER = EngineId("other")
LINE = re.compile(r"^puppet resume (\w[\w-]*)(?: in (\S+))?$\n?", re.MULTILINE)


def parse(text: str) -> tuple[ResumeToken | None, str]:
    found = list(LINE.finditer(text))
    token = ResumeToken(PUPPET, found[-1][1], found[-1][2] or "") if found else None
    return token, LINE.sub("", text).strip() if found else text


def read(word: str) -> ResumeToken | None:
    return ResumeToken(PUPPET, word) if word.startswith("token") else None


def lines(*, shown: bool = False) -> dict[str, Any]:
    made = ResumeLines(
        parse,
        read,
        lambda token: f"cd {token.cwd} && puppet resume {token.value}",
        lambda token: f"puppet resume {token.value}",
        shown,
        "puppet",
        "puppet beside {id}",
    )
    return {"resume_lines": {PUPPET: made}}


async def tell_token(strings: Strings) -> None:
    """Each session has a token of its own, and keeps it."""
    resume = strings.brief.resume
    await strings.start(resume.value if resume else f"token-{strings.prompt.text}")
    await strings.end(f"you said: {strings.prompt.text}")


async def answer_to(rig: Rig, text: str, conversation: str = "main") -> MessageRef:
    """Where the answer to this stands."""
    await rig.until_said(f"you said: {text}")
    posted = [p for p in rig.channel.sent if p.text.startswith(f"you said: {text}")]
    return next(p.ref for p in posted if p.ref.address.place == conversation)


async def say_and_end(rig: Rig, text: str, number: int, **how: Any) -> Receipt:
    receipt = await rig.channel.say(text, **how)
    await rig.until_ended(number)
    return receipt


async def conversation_of(rig: Rig, id: ConversationId = MAIN) -> Conversation:
    found = await rig.store.read(lambda tx: tx.conversations.get(id))
    assert found is not None
    return found


async def sessions_of(rig: Rig) -> list[Session]:
    return await rig.store.read(lambda tx: tx.sessions.of())


async def test_a_reply_to_an_answer_goes_on_with_its_session_and_so_does_what_follows(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(tell_token)) as rig:
        await say_and_end(rig, "one", 1)
        await rig.channel.say("/new")
        await say_and_end(rig, "two", 2)
        receipt = await say_and_end(rig, "three", 3, reply_to=await answer_to(rig, "one"))
        await say_and_end(rig, "four", 4)
        one, two, three, four = await rig.turns()
        assert one.session_id == three.session_id == four.session_id != two.session_id
        assert "earlier session" in receipt.text
        resumes = [brief.resume and brief.resume.value for brief in rig.engine.briefs]
        assert resumes == [None, None, "token-one", "token-one"]


async def test_a_reply_to_the_session_that_goes_on_anyway_is_nothing_special(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(tell_token)) as rig:
        await say_and_end(rig, "one", 1)
        receipt = await say_and_end(rig, "two", 2, reply_to=await answer_to(rig, "one"))
        assert receipt.text == ""
        assert len(await sessions_of(rig)) == 1


@pytest.mark.parametrize("native_id", ["nowhere", ""])
async def test_a_reply_to_what_is_not_ours_is_a_plain_message(tmp_path: Path, native_id: str) -> None:
    async with open_rig(tmp_path, PuppetEngine(tell_token)) as rig:
        await say_and_end(rig, "one", 1)
        await say_and_end(rig, "two", 2, reply_to=MessageRef(rig.channel.address(), native_id))
        one, two = await rig.turns()
        assert one.session_id == two.session_id


async def test_a_reply_brings_back_the_engine_of_its_session_and_not_the_model_of_another(
    tmp_path: Path,
) -> None:
    puppet, other = PuppetEngine(tell_token), PuppetEngine(tell_token)
    names = {"puppet": PUPPET, "other": OTHER}
    async with open_rig(tmp_path, puppet, engines={PUPPET: puppet, OTHER: other}, engine_names=names) as rig:
        await say_and_end(rig, "one", 1)
        await rig.channel.say("/engine other fresh")
        await rig.channel.say("/model big")
        await say_and_end(rig, "two", 2)
        await say_and_end(rig, "three", 3, reply_to=await answer_to(rig, "one"))
        assert [turn.engine for turn in await rig.turns()] == [PUPPET, OTHER, PUPPET]
        assert puppet.briefs[-1].model is None


async def test_what_waits_for_different_sessions_never_becomes_one_prompt(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(tell_token, until_interrupted, tell_token)) as rig:
        await say_and_end(rig, "one", 1)
        first = await answer_to(rig, "one")
        await rig.channel.say("/new")
        await rig.channel.say("two")
        live = await rig.until_live()
        await rig.channel.say("three")
        receipt = await rig.channel.say("four", reply_to=first)
        assert "earlier session" in receipt.text
        await rig.channel.say("/stop")
        _, two, three, four = await rig.until_ended(4)
        assert [three.prompt.text, four.prompt.text] == ["three", "four"]
        assert live.session_id == two.session_id == three.session_id != four.session_id


async def test_a_message_for_another_session_is_not_steered_into_the_running_turn(tmp_path: Path) -> None:
    async with open_rig(
        tmp_path, PuppetEngine(tell_token, until_interrupted, tell_token), busy="steer"
    ) as rig:
        await say_and_end(rig, "one", 1)
        first = await answer_to(rig, "one")
        await rig.channel.say("/new")
        await rig.channel.say("two")
        await rig.until_live()
        await rig.until_true(lambda: len(rig.engine.turns) == 2)
        await rig.channel.say("elsewhere", reply_to=first)
        await rig.channel.say("here")
        await rig.until_true(lambda: rig.engine.turns[1].steered)
        assert rig.engine.turns[1].steered == ["here"]
        await rig.channel.say("/stop")
        assert (await rig.until_ended(3))[-1].prompt.text == "elsewhere"


async def test_a_reply_to_another_session_does_not_answer_the_open_question(tmp_path: Path) -> None:
    async def ask(strings: Strings) -> None:
        await strings.start("token-asks")
        await strings.ask(Ask(AskId("q"), "question", "Which one?", {}))
        await strings.end("thanks")

    async with open_rig(tmp_path, PuppetEngine(tell_token, ask, tell_token)) as rig:
        await say_and_end(rig, "one", 1)
        first = await answer_to(rig, "one")
        await rig.channel.say("/new")
        await rig.channel.say("two")
        asked = await rig.until_asked()
        receipt = await rig.channel.say("not an answer", reply_to=first)
        assert "Got it" not in receipt.text
        about = next(p.ref for p in rig.channel.sent if asked.title in p.text)
        assert "Got it" in (await rig.channel.say("this one", reply_to=about)).text
        await rig.until_ended(3)


async def test_a_resume_line_goes_on_with_its_session_and_never_reaches_the_model(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(tell_token), **lines()) as rig:
        await say_and_end(rig, "one", 1)
        await rig.channel.say("/new")
        await say_and_end(rig, "two", 2)
        await say_and_end(rig, "go on\npuppet resume token-two\npuppet resume token-one", 3)
        one, _, three = await rig.turns()
        assert (three.session_id, three.prompt.text) == (one.session_id, "go on")


async def test_a_line_alone_does_what_resume_does(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(tell_token), **lines()) as rig:
        await say_and_end(rig, "one", 1)
        await rig.channel.say("/new")
        await rig.channel.say("puppet resume token-one")
        assert "From your next message on" in await rig.until_said("From your next message on")
        await say_and_end(rig, "two", 2)
        one, two = await rig.turns()
        assert one.session_id == two.session_id


@pytest.mark.parametrize("way", ["line", "/resume line", "/resume id"])
async def test_a_session_that_only_a_terminal_knows_is_taken_in_for_an_owner(
    tmp_path: Path, way: str
) -> None:
    async with open_rig(tmp_path, PuppetEngine(tell_token), **lines()) as rig:
        word = {"line": "", "/resume line": "/resume puppet resume token-t", "/resume id": "/resume token-t"}[
            way
        ]
        if word:
            assert str(tmp_path) in await reply_to(rig, word)
        await say_and_end(rig, "hello" if word else "hello\npuppet resume token-t in /elsewhere", 1)
        (session,) = await sessions_of(rig)
        brief = rig.engine.briefs[0]
        assert brief.resume == ResumeToken(PUPPET, "token-t", str(tmp_path) if word else "/elsewhere")
        assert (brief.workspace, session.conversation_id) == (str(tmp_path), MAIN)
        assert rig.engine.turns[0].prompt.text == "hello"


async def test_nobody_else_may_take_in_a_session_nor_one_of_another_conversation(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(tell_token), **lines()) as rig:
        await say_and_end(rig, "one", 1)
        for token in ("token-one", "token-unknown"):
            refused = await rig.channel.say(f"go on\npuppet resume {token}", "elsewhere", author=MEMBER)
            assert refused.state == "refused"
            assert "only an owner" in refused.text
            await rig.channel.say(f"/resume {token}", "elsewhere", author=MEMBER)
        await rig.until_true(lambda: sum("only an owner" in text for text in rig.said("elsewhere")) == 2)
        assert len(await sessions_of(rig)) == 1
        assert (await conversation_of(rig, ConversationId("memory:elsewhere"))).session_id is None
        await say_and_end(rig, "mine\npuppet resume token-one", 2, author=MEMBER)


async def test_one_token_is_one_session_wherever_it_is_used_and_waits_for_its_turn(tmp_path: Path) -> None:
    go = anyio.Event()

    async def wait(strings: Strings) -> None:
        await strings.start("token-t")
        await go.wait()
        await strings.end("done")

    async with open_rig(tmp_path, PuppetEngine(wait, tell_token), **lines()) as rig:
        await rig.channel.say("one\npuppet resume token-t")
        await rig.until_live()
        await rig.channel.say("two\npuppet resume token-t", "elsewhere")
        there = ConversationId("memory:elsewhere")
        await rig.until(lambda tx: (c := tx.conversations.get(there)) and c.session_id)
        rig.poke(there)
        assert await rig.turns(there) == []
        assert len(rig.engine.turns) == 1
        go.set()
        (first,), (second,) = await rig.until_ended(), await rig.until_ended(1, there)
        assert first.session_id == second.session_id
        assert second.started_at is not None
        assert first.ended_at is not None
        assert second.started_at >= first.ended_at


async def test_what_cannot_be_an_id_of_the_engine_is_refused(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(tell_token), **lines()) as rig:
        refused = await rig.channel.say("go on\npuppet resume nonsense")
        assert (refused.state, "not a session of puppet" in refused.text) == ("refused", True)
        assert "No session 'nonsense'" in await reply_to(rig, "/resume nonsense")
        assert await sessions_of(rig) == []


async def test_a_retired_session_is_not_gone_on_with(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(tell_token), **lines()) as rig:
        await say_and_end(rig, "one", 1)
        (session,) = await sessions_of(rig)
        retired = msgspec.structs.replace(session, retired=True)
        await rig.store.write(lambda tx: tx.sessions.save(retired))
        await rig.channel.say("/new")
        await say_and_end(rig, "two", 2, reply_to=await answer_to(rig, "one"))
        assert (await rig.turns())[-1].session_id != session.id
        refused = await rig.channel.say("go on\npuppet resume token-one")
        assert "retired" in refused.text


async def test_an_edit_is_read_for_resume_lines_too(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(tell_token, until_interrupted, tell_token), **lines()) as rig:
        await say_and_end(rig, "one", 1)
        await rig.channel.say("/new")
        await rig.channel.say("two")
        await rig.until_live()
        await rig.channel.say("three", native_id="n3")
        refused = await rig.channel.change("n3", "puppet resume token-one")
        assert refused.state == "refused"
        changed = await rig.channel.change("n3", "three, there\npuppet resume token-one")
        assert changed.state == "queued"
        await rig.channel.say("/stop")
        one, _, three = await rig.until_ended(3)
        assert (three.session_id, three.prompt.text) == (one.session_id, "three, there")


async def test_session_prints_the_command_for_a_terminal(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(tell_token), **lines()) as rig:
        await say_and_end(rig, "one", 1)
        await rig.until_idle()
        told = await reply_to(rig, "/session")
        assert f"```\ncd {tmp_path} && puppet resume token-one\n```" in told
        assert "```\npuppet beside token-one\n```" in told


@pytest.mark.parametrize("shown", [True, False])
async def test_a_resume_line_under_the_answer_is_a_setting(tmp_path: Path, shown: bool) -> None:
    async with open_rig(tmp_path, PuppetEngine(tell_token), **lines(shown=shown)) as rig:
        await say_and_end(rig, "one", 1)
        await rig.until_idle()
        (turn,) = await rig.turns()
        wanted = "you said: one\n\npuppet resume token-one" if shown else "you said: one"
        assert rig.said() == [wanted]
        assert turn.answer == "you said: one"


async def test_an_engine_without_resume_lines_reads_none(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(echo)) as rig:
        await say_and_end(rig, "puppet resume token-one", 1)
        assert rig.engine.turns[0].prompt.text == "puppet resume token-one"
        assert "terminal" not in await reply_to(rig, "/session")


async def test_a_prompt_is_an_owners_only_if_every_word_of_it_is(tmp_path: Path) -> None:
    """Whether the file or somebody on the machine made them one."""
    granted, go = Author(UserId("memory:granted"), "Granted"), anyio.Event()
    async with open_rig(tmp_path, PuppetEngine(waiting_for(go), echo), busy="collect") as rig:
        await rig.store.write(lambda tx: tx.people.grant(Grant(granted.id, "owner")))
        await rig.channel.say("first", author=granted)
        await rig.until_live()
        await rig.channel.say("second", author=granted)
        await rig.channel.say("third", author=MEMBER)
        go.set()
        first, batch = await rig.until_ended(2)
        assert first.prompt.by_owner and not batch.prompt.by_owner


@pytest.mark.parametrize("author", [MEMBER, PERSON], ids=["member", "owner"])
async def test_a_reply_to_what_was_shown_from_elsewhere_goes_on_with_nobody_elses_session(
    tmp_path: Path, author: Author
) -> None:
    """A word about another conversation may stand in somebody's own chat: that makes its session no more theirs."""
    other = ConversationId("memory:other")
    async with open_rig(tmp_path, PuppetEngine(tell_token)) as rig:
        await say_and_end(rig, "one", 1)
        (turn,) = await rig.turns()
        await rig.channel.say("hello", "other", author=author)
        await rig.until_ended(1, other)
        shown = Content("It could not be delivered there.", "notice", turn_id=turn.id)
        await rig.store.write(lambda tx: say(tx, new_id, other, shown, key="shown", at=1.0))
        rig.ports.signals.poke(OUTBOX)
        await rig.until_said(shown.text)
        ref = next(p.ref for p in rig.channel.sent if p.text == shown.text)
        await rig.channel.say("what is this?", "other", author=author, reply_to=ref)
        first, second = await rig.until_ended(2, other)
        assert first.session_id == second.session_id != turn.session_id


async def test_an_owner_who_replies_to_somebody_elses_ask_stays_in_their_own_session(tmp_path: Path) -> None:
    """Nor is it the answer to what the owner's own session asks."""
    own, theirs = ConversationId("memory:own"), ConversationId("memory:theirs")
    which = Ask(AskId("q"), "question", "Which one?", {})
    engine = PuppetEngine(asks(which), asks(MAKE), echo)
    async with open_rig(tmp_path, engine, tool_class=lambda _call, _workspace: "destructive") as rig:
        await rig.channel.say("mine", "own")
        await rig.until_asked("Which one?", own)
        await rig.channel.say("go", "theirs", author=MEMBER)
        asked = await rig.until_asked("Run make?", theirs)
        ref = await rig.until_true(lambda: shown_in(rig, "own", "Run make?"))
        receipt = await rig.channel.say("what is this for?", "own", reply_to=ref)
        assert "earlier session" not in receipt.text
        assert "Got it" not in receipt.text
        assert "Got it" in (await rig.channel.say("the first", "own")).text
        assert (await rig.channel.answer(asked, "allow")).accepted
        mine, about = await rig.until_ended(2, own)
        (go,) = await rig.until_ended(1, theirs)
        assert about.prompt.text == "what is this for?"
        assert mine.session_id == about.session_id != go.session_id
        assert (await conversation_of(rig, own)).session_id == mine.session_id


def shown_in(rig: Rig, place: str, text: str) -> MessageRef | None:
    return next((p.ref for p in rig.channel.sent if p.ref.address.place == place and text in p.text), None)
