"""What comes in has a bound in every part of it, and what waits may be changed, though not into a command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.runtime.puppet import PuppetEngine, Strings, echo
from tests.runtime.rig import MAIN, Rig, open_rig

from pilothouse.channels.memory import PERSON
from pilothouse.core.ask import Ask
from pilothouse.core.channel import Receipt
from pilothouse.core.ids import AskId, BlobHash, UserId
from pilothouse.core.message import Attachment, Author, InboundMessage, MessageEdited
from pilothouse.runtime.outbox import content_of

FILE = Attachment("a.txt", "text/plain", 1, BlobHash("0" * 64))


async def accept(rig: Rig, text: str, author: Author = PERSON, **fields: Any) -> Receipt:
    return await rig.gateway.desk.accept(InboundMessage(rig.channel.address(), author, text, text, **fields))


async def edit(rig: Rig, native_id: str, text: str) -> Receipt:
    return await rig.gateway.desk.edited(MessageEdited(rig.channel.address(), PERSON, native_id, text))


async def test_what_is_quoted_counts_with_what_is_said(tmp_path: Path) -> None:
    async with open_rig(tmp_path, max_message_chars=100) as rig:
        receipt = await accept(rig, "x" * 60, quoted="y" * 60)
        assert receipt.state == "refused"
        assert "120 characters" in receipt.text
        assert (await accept(rig, "z" * 60, quoted="y" * 40)).state == "queued"


async def test_a_message_with_too_many_files_is_refused(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        receipt = await accept(rig, "many", attachments=(FILE,) * 21)
        assert receipt.state == "refused"
        assert "one message may have 20" in receipt.text
        assert (await accept(rig, "enough", attachments=(FILE,) * 20)).state == "queued"


async def test_a_name_as_long_as_a_book_is_cut(tmp_path: Path) -> None:
    long = "n" * 100_000
    file = Attachment(long, long, 1, BlobHash("0" * 64))
    async with open_rig(tmp_path) as rig:
        await accept(rig, "hi", Author(UserId(PERSON.id), long), attachments=(file,), source=long)
        await rig.until_ended()
        assert len(rig.engine.turns[0].prompt.text) < 2000


async def test_a_reply_with_files_is_a_message_and_no_answer(tmp_path: Path) -> None:
    async def play(strings: Strings) -> None:
        await strings.start()
        decision = await strings.ask(Ask(AskId("q"), "question", "Which colour?", free_text=True))
        await strings.end(f"told: {decision.text}")

    async with open_rig(tmp_path, PuppetEngine(play, echo)) as rig:
        await rig.channel.say("go")
        await rig.until_asked()
        receipt = await accept(rig, "like this", attachments=(FILE,))
        assert "comes after it" in receipt.text
        await rig.channel.say("blue")
        await rig.until_said("told: blue")
        await rig.until_ended(2)
        assert [file.name for file in rig.engine.turns[1].prompt.attachments] == ["a.txt"]


async def test_an_edit_that_comes_twice_is_told_once_also_when_its_message_runs_by_then(
    tmp_path: Path,
) -> None:
    go, gone_on = anyio.Event(), anyio.Event()

    async def wait(strings: Strings) -> None:
        await strings.start()
        await go.wait()
        await strings.end("the first is done")

    async def last(strings: Strings) -> None:
        await strings.start()
        await gone_on.wait()
        await strings.end("the second is done")

    async with open_rig(tmp_path, PuppetEngine(wait, last)) as rig:
        await accept(rig, "first")
        await rig.until_live()
        await accept(rig, "second")
        told = await edit(rig, "second", "a better second")
        assert (told.state, told.text) == ("queued", "Changed: the new text is queued in its place.")
        again = await edit(rig, "second", "a better second")
        assert (again.state, again.text) == ("duplicate", "")
        go.set()
        await rig.until_true(lambda: len(rig.engine.turns) == 2)
        assert (await edit(rig, "second", "a better second")).state == "duplicate"
        for late in ("too late", "too late", "later still"):
            assert "runs already" in (await edit(rig, "second", late)).text
        gone_on.set()
        await rig.until_ended(2)
        await rig.until_idle()
        assert len([text for text in rig.said() if "runs already" in text]) == 2, (
            "each change is refused once"
        )


@pytest.mark.parametrize("text", ["/stop", "/nosuchword please"])
async def test_a_message_that_waits_cannot_become_a_command(tmp_path: Path, text: str) -> None:
    go = anyio.Event()

    async def wait(strings: Strings) -> None:
        await strings.start()
        await go.wait()
        await strings.end("the first is done")

    async with open_rig(tmp_path, PuppetEngine(wait, echo)) as rig:
        await rig.channel.say("one")
        await rig.until_live()
        await accept(rig, "two")
        receipt = await edit(rig, "two", text)
        assert receipt.state == "refused"
        assert "cannot be edited into a command" in receipt.text
        await rig.until_said("cannot be edited into a command")
        assert (await edit(rig, "two", "two, at /etc/hosts")).state == "queued"
        assert (await edit(rig, "two", "x" * 200_001)).state == "refused"
        go.set()
        await rig.until_said("two, at /etc/hosts")
        assert [turn.status for turn in await rig.until_ended(2)] == ["done", "done"]


async def test_a_message_that_waits_can_become_a_word_for_the_engine_where_that_is_allowed(
    tmp_path: Path,
) -> None:
    async with open_rig(tmp_path, engine_commands=True, max_turns_at_once=0) as rig:
        receipt = await accept(rig, "two")
        assert (await edit(rig, "two", "/compact now")).state == "queued"
        assert b"/compact now" in bytes((await rig.inbox_row(receipt)).body)


async def test_a_chat_that_began_with_a_command_is_private_once_a_message_says_so(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await rig.channel.say("/help")
        await rig.channel.say("hello")
        await rig.until_said("you said: hello")
        place = await rig.store.read(lambda tx: tx.conversations.get(MAIN))
        assert place is not None and place.private


async def test_words_and_files_behind_new_are_the_first_message_of_the_new_session(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await accept(rig, "one")
        await rig.until_ended()
        receipt = await accept(rig, "/new look at this", attachments=(FILE,))
        assert (receipt.state, receipt.text) == ("queued", "This starts a new session.")
        first, second = await rig.until_ended(2)
        assert first.session_id != second.session_id
        prompt = rig.engine.turns[1].prompt
        assert "\nlook at this\n" in prompt.text
        assert [file.name for file in prompt.attachments] == ["a.txt"]
        assert (await accept(rig, "/new look at this", attachments=(FILE,))).state == "duplicate"
        await accept(rig, "and that")
        *_, third = await rig.until_ended(3)
        assert third.session_id == second.session_id, "a repeat starts no session"


async def test_new_below_a_picture_names_it_and_as_a_command_takes_words_too(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await accept(rig, "/new", attachments=(FILE,))
        await rig.until_ended()
        receipt = await rig.gateway.desk.command(rig.channel.address(), PERSON, "/new again", "interaction")
        assert "new session" in receipt.text
        first, second = await rig.until_ended(2)
        assert first.session_id != second.session_id
        assert "\n[a.txt]\n" in rig.engine.turns[0].prompt.text
        assert "\nagain\n" in rig.engine.turns[1].prompt.text


async def test_new_with_words_is_no_answer_and_is_not_steered_into_what_runs(tmp_path: Path) -> None:
    async def play(strings: Strings) -> None:
        await strings.start()
        decision = await strings.ask(Ask(AskId("q"), "question", "Which colour?", free_text=True))
        await strings.end(f"told: {decision.text}")

    async with open_rig(tmp_path, PuppetEngine(play, echo), busy="steer") as rig:
        await accept(rig, "go")
        await rig.until_asked()
        assert "is next" in (await accept(rig, "/new something else")).text
        await accept(rig, "blue")
        await rig.until_said("told: blue")
        first, second = await rig.until_ended(2)
        assert first.session_id != second.session_id
        assert "\nsomething else\n" in rig.engine.turns[1].prompt.text


@pytest.mark.parametrize("fields", [{"attachments": (FILE,)}, {"file_text": "[a.txt was not fetched: gone]"}])
@pytest.mark.parametrize("line", ["/status", "/stop", "/nonsense of mine"])
async def test_files_below_any_other_command_are_said_to_be_unused(
    tmp_path: Path, line: str, fields: dict[str, Any]
) -> None:
    async with open_rig(tmp_path, engine_commands=False) as rig:
        receipt = await accept(rig, line, **fields)
        row = await rig.until(lambda tx: tx.outbox.by_key(f"reply:{receipt.message_id}"))
        assert "takes no files" in content_of(row).text
        plain = await rig.channel.say(line)
        row = await rig.until(lambda tx: tx.outbox.by_key(f"reply:{plain.message_id}"))
        assert "takes no files" not in content_of(row).text
        assert rig.engine.turns == []
