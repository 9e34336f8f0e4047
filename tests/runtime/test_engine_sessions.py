"""What the engine itself knows: sessions begun elsewhere, and earlier messages from which a session can go on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from tests.runtime.puppet import PUPPET, PuppetEngine, Strings
from tests.runtime.rig import MEMBER, Rig, open_rig
from tests.runtime.test_choices import tap
from tests.runtime.test_commands import content_of, reply_to

from pilothouse.core.engine import FoundSession, SessionPoint
from pilothouse.core.errors import EngineError
from pilothouse.core.event import ResumeToken
from pilothouse.core.outcome import Failure
from pilothouse.engines.resume_lines import make_resume_lines
from pilothouse.runtime.trust import trust

THEIRS = "01a1e073-6613-7e33-879d-36dcc30b87ce"
LINES = {PUPPET: make_resume_lines(PUPPET, "puppet[ ]", "puppet", lambda id: len(id) == 36, shown=False)}


class Knowing(PuppetEngine):
    """Knows a session of a terminal, and the turns of every session."""

    asked = 0
    told_trust = False

    async def sessions(self, workspace: str, *, trusted: bool = False) -> Sequence[FoundSession]:
        self.asked += 1
        self.told_trust = trusted
        token = ResumeToken(PUPPET, THEIRS, workspace)
        return [FoundSession(token, "begun in a terminal", time.time() - 7200)]

    async def points(self, token: ResumeToken) -> Sequence[SessionPoint]:
        own = [turn.prompt.text for turn in self.turns if token_of(turn) == token.value]
        return [SessionPoint(f"{token.value}#{text}", text, time.time()) for text in own]


def token_of(strings: Strings) -> str:
    brief = strings.brief
    if brief.resume is not None and not brief.resume_at:
        return brief.resume.value
    return f"token-of-{brief.session_id}"


async def answer(strings: Strings) -> None:
    await strings.start(token_of(strings))
    await strings.end("ok")


async def say(rig: Rig, text: str, count: int) -> None:
    await rig.channel.say(text)
    await rig.until_ended(count)


async def test_a_session_begun_in_a_terminal_is_listed_for_its_owner_and_taken_over_by_a_tap(
    tmp_path: Path,
) -> None:
    engine = Knowing(answer)
    async with open_rig(tmp_path, engine, resume_lines=LINES) as rig:
        await say(rig, "one", 1)
        listed = await reply_to(rig, "/sessions")
        assert listed.endswith(
            "\nBegun elsewhere in this folder:\n`01a1e073-6613` begun in a terminal · 2h ago"
        )
        assert "that session of puppet" in await reply_to(rig, "/resume 01a1e073-66")
        asked = engine.asked
        for whole in (THEIRS, "session-0123456789"):
            await reply_to(rig, f"/resume {whole}")
        assert engine.asked == asked, "a whole id needs no list"
        assert "that session of puppet" in await tap(rig, "begun in a terminal")
        await say(rig, "hello", 2)
        assert engine.briefs[-1].resume == ResumeToken(PUPPET, THEIRS, str(tmp_path))
        assert "Begun elsewhere" not in await reply_to(rig, "/resume")
        asked = engine.asked
        await rig.channel.say("hello all", "group", private=False, author=MEMBER)
        receipt = await rig.channel.say("/sessions", "group", private=False, author=MEMBER)
        row = await rig.until(lambda tx: tx.outbox.by_key(f"reply:{receipt.message_id}"))
        assert "Begun elsewhere" not in content_of(row).text
        assert engine.asked == asked, "who may not take it over asks nobody"


async def test_an_engine_that_lists_sessions_is_told_whether_the_folder_is_trusted(tmp_path: Path) -> None:
    engine = Knowing(answer)
    async with open_rig(tmp_path, engine, resume_lines=LINES) as rig:
        await say(rig, "one", 1)
        for trusted in (False, True):
            if trusted:
                await rig.store.write(lambda tx: trust(tx, str(tmp_path), "ann", 1.0))
            await reply_to(rig, "/sessions")
            assert engine.told_trust is trusted


async def test_a_session_goes_on_after_an_earlier_message_in_a_new_session(tmp_path: Path) -> None:
    engine = Knowing(answer)
    async with open_rig(tmp_path, engine) as rig:
        for count, text in enumerate(("one", "two", "three"), 1):
            await say(rig, text, count)
        first, *_ = await rig.turns()
        short = first.session_id.removeprefix("session-")[:6]
        assert "earlier message" in await reply_to(rig, f"/resume {short}")
        listed = await tap(rig, "Go back")
        assert "1  one · 0s ago\n2  two · 0s ago\n3  three · 0s ago" in listed
        assert "after “two” and its answer" in await tap(rig, "2 two")
        await say(rig, "four", 4)
        brief = engine.briefs[-1]
        assert brief.resume is not None
        parent = f"token-of-{first.session_id}"
        assert (brief.resume.value, brief.resume_at) == (parent, f"{parent}#two")
        await say(rig, "five", 5)
        brief = engine.briefs[-1]
        *_, fourth, fifth = await rig.turns()
        assert fourth.session_id == fifth.session_id != first.session_id
        assert brief.resume is not None
        assert (brief.resume.value, brief.resume_at) == (f"token-of-{fifth.session_id}", "")
        await reply_to(rig, f"/resume {short}")
        await say(rig, "six", 6)
        assert (await rig.turns())[-1].session_id == first.session_id
        assert "There is no message 9" in await reply_to(rig, f"/resume {short} at 9")
        assert "1  one" in await reply_to(rig, "/resume at")


async def test_a_group_is_not_shown_what_was_said_in_another_conversation(tmp_path: Path) -> None:
    async with open_rig(tmp_path, Knowing(answer)) as rig:
        await say(rig, "a private matter", 1)
        (turn,) = await rig.turns()
        told: list[str] = []
        for line in (f"/resume {turn.session_id}", f"/resume {turn.session_id} at", "/resume at 1"):
            receipt = await rig.channel.say(line, "group", private=False)
            row = await rig.until(
                lambda tx, id=receipt.message_id: tx.outbox.by_key(f"reply:{id}"),
            )
            told.append(content_of(row).text)
        assert "that session of puppet" in told[0]
        assert all("in a private chat only" in text for text in told[1:])
        assert "matter" not in str(told)


async def test_a_fork_that_fails_at_once_never_takes_the_token_of_the_other_session(tmp_path: Path) -> None:
    async def fail(strings: Strings) -> None:
        await strings.start(strings.brief.resume.value if strings.brief.resume else "")
        await strings.fail("bad_request", "No such message.")

    engine = Knowing(answer, fail, answer)
    async with open_rig(tmp_path, engine) as rig:
        await say(rig, "one", 1)
        await reply_to(rig, "/resume at 1")
        await say(rig, "two", 2)
        await say(rig, "three", 3)
        assert [bool(brief.resume_at) for brief in engine.briefs] == [False, True, True]


async def test_an_engine_that_does_not_answer_leaves_our_own_list(tmp_path: Path) -> None:
    class Broken(Knowing):
        # pyrefly: ignore [missing-override-decorator]
        async def sessions(self, workspace: str, *, trusted: bool = False) -> Sequence[FoundSession]:
            raise EngineError(Failure("crash", "It ended."))

    async with open_rig(tmp_path, Broken(answer)) as rig:
        await say(rig, "one", 1)
        assert "one · 1 turn" in await reply_to(rig, "/sessions")
        assert "engine.sessions_failed" in [event for event, _ in rig.logged]
    (tmp_path / "plain").mkdir()
    async with open_rig(tmp_path / "plain", PuppetEngine(answer)) as rig:
        await say(rig, "one", 1)
        assert "cannot go back to an earlier message" in await reply_to(rig, "/resume at")
        assert "earlier message" not in await reply_to(rig, "/resume session-")
        assert not any("buttons" in post.part.data for post in rig.channel.sent)
