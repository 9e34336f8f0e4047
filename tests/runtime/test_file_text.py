"""What a message's files say goes wherever its words go, and stays when those are edited; commands are words alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.runtime.puppet import PuppetEngine, Strings, echo
from tests.runtime.rig import MAIN, Rig, open_rig
from tests.runtime.test_busy import prompts, waiting_for
from tests.runtime.test_sessions import lines, say_and_end, tell_token

from pilothouse.channels.memory import PERSON
from pilothouse.core.ask import Ask, Decision, Option
from pilothouse.core.channel import Receipt
from pilothouse.core.ids import AskId, MessageId
from pilothouse.core.message import InboundMessage, MessageEdited

FILES = "a.txt:\n```txt\nred\n```\n\n[b.png was not taken: it is empty.]"
OLD_ROW = (
    b'{"address":{"channel":"memory","place":"main","thread":null},"author":{"id":"memory:person","name":"Person",'
    b'"is_bot":false},"native_id":"old","text":"from before","kind":"chat","attachments":[],"reply_to":null,'
    b'"quoted":null,"private":true,"source":"","sent_at":0.0,"session_id":null}'
)
"""As it was stored when a message had no text of its files."""


async def accept(
    rig: Rig, text: str, file_text: str = FILES, native_id: str = "n1", **fields: Any
) -> Receipt:
    message = InboundMessage(
        rig.channel.address(), PERSON, native_id, text, private=True, file_text=file_text, **fields
    )
    return await rig.gateway.desk.accept(message)


async def edit(rig: Rig, text: str, native_id: str = "n1") -> Receipt:
    return await rig.gateway.desk.edited(MessageEdited(rig.channel.address(), PERSON, native_id, text))


async def test_an_edit_changes_the_words_and_leaves_what_the_files_say(tmp_path: Path) -> None:
    go = anyio.Event()
    async with open_rig(tmp_path, PuppetEngine(waiting_for(go), echo)) as rig:
        await rig.channel.say("first")
        await rig.until_live()
        await accept(rig, "paint it")
        assert (await edit(rig, "paint it twice")).state == "queued"
        go.set()
        assert (await prompts(rig, 2))[1] == f"paint it twice\n\n{FILES}"
        await rig.until_ended(2)


async def test_an_edit_to_the_same_words_is_none(tmp_path: Path) -> None:
    async with open_rig(tmp_path, max_turns_at_once=0) as rig:
        queued = await accept(rig, "paint it")
        assert await edit(rig, "paint it") == Receipt("duplicate", queued.message_id)


async def test_words_and_files_count_together_also_after_an_edit(tmp_path: Path) -> None:
    async with open_rig(tmp_path, max_message_chars=100, max_turns_at_once=0) as rig:
        refused = await accept(rig, "x" * 60, "y" * 60)
        assert refused.state == "refused"
        assert "122 characters" in refused.text
        assert (await accept(rig, "x" * 10, "y" * 60)).state == "queued"
        assert (await edit(rig, "x" * 39)).state == "refused"
        assert (await edit(rig, "x" * 38)).state == "queued"


async def test_what_cannot_be_stored_is_cleaned_out_of_it(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await accept(rig, "see", "a\0b\ud800")
        assert await prompts(rig, 1) == ["see\n\na\ufffdb\ufffd"]
        await rig.until_ended()


async def test_a_command_is_known_by_its_words_and_takes_none_of_the_files(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await say_and_end(rig, "one", 1)
        await accept(rig, "/model", "opus", native_id="n1")
        await accept(rig, "/queue", native_id="n2")
        await rig.until_said("Nothing waits.\n\nThis command takes no files")
        await rig.until_idle()
        assert len(rig.engine.turns) == 1
        place = await rig.store.read(lambda tx: tx.conversations.get(MAIN))
        assert place is not None and place.model is None


async def test_what_waits_is_listed_and_dropped_by_its_files_where_it_has_no_words(tmp_path: Path) -> None:
    async with open_rig(tmp_path, max_turns_at_once=0) as rig:
        await accept(rig, "", "a.txt:\nred")
        await rig.channel.say("/queue")
        await rig.until_said("1. a.txt: red")
        await rig.channel.say("/cancel 1")
        await rig.until_said("Dropped: a.txt: red")


async def test_a_file_that_looks_like_a_command_is_none(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await accept(rig, "", "/new")
        assert await prompts(rig, 1) == ["/new"]
        await rig.until_ended()


async def test_a_reply_with_a_text_file_answers_a_question_with_both(tmp_path: Path) -> None:
    heard: list[Decision] = []
    colours = (Option("r", "Red"), Option("b", "Blue"))

    async def play(strings: Strings) -> None:
        await strings.start()
        heard.extend(
            [await strings.ask(Ask(AskId(id), "question", f"{id}?", options=colours)) for id in ("q1", "q2")]
        )
        await strings.end("told")

    async with open_rig(tmp_path, PuppetEngine(play)) as rig:
        await rig.channel.say("go")
        await rig.until_asked("q1?")
        assert "Got it" in (await accept(rig, "like this", native_id="n1")).text
        await rig.until_asked("q2?")
        await accept(rig, "Red", "", native_id="n2")
        await rig.until_said("told")
        await rig.until_ended()
        assert [(one.options, one.text) for one in heard] == [
            ((), f"like this\n\n{FILES}"),
            (("r",), ""),
        ]


async def test_a_resume_line_counts_in_the_words_and_not_in_a_file(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(tell_token), **lines()) as rig:
        await say_and_end(rig, "one", 1)
        await rig.channel.say("/new")
        await accept(rig, "read it", "puppet resume token-one", native_id="n1")
        await rig.until_ended(2)
        await accept(rig, "puppet resume token-one", native_id="n2")
        one, two, three = await rig.until_ended(3)
        assert two.prompt.text == "read it\n\npuppet resume token-one"
        assert three.prompt.text == FILES
        assert one.session_id == three.session_id != two.session_id


async def test_it_is_steered_in_with_the_words(tmp_path: Path) -> None:
    go = anyio.Event()
    async with open_rig(tmp_path, PuppetEngine(waiting_for(go)), busy="steer") as rig:
        await rig.channel.say("one")
        await rig.until_true(lambda: rig.engine.turns)
        (turn,) = await rig.turns()
        await accept(rig, "and this")
        await rig.until(lambda tx: len(tx.inbox.of_turn(turn.id)) == 2)
        assert rig.engine.turns[0].steered == [f"and this\n\n{FILES}"]
        go.set()
        await rig.until_ended()


@pytest.mark.parametrize("text", ["from before", "changed since"])
async def test_a_row_from_before_there_was_such_a_text_is_read_and_can_be_edited(
    tmp_path: Path, text: str
) -> None:
    go = anyio.Event()
    async with open_rig(tmp_path, PuppetEngine(waiting_for(go), echo)) as rig:
        await rig.channel.say("first")
        await rig.until_live()
        body = OLD_ROW.replace(b"memory:person", PERSON.id.encode())
        await rig.store.write(
            lambda tx: tx.inbox.put(
                id=MessageId("msg-old"),
                key=f"{MAIN}|old",
                conversation_id=MAIN,
                kind="chat",
                body=body,
                at=rig.ports.clock.now(),
            )
        )
        assert (await edit(rig, text, "old")).state == ("duplicate" if text == "from before" else "queued")
        go.set()
        assert (await prompts(rig, 2))[1] == text
        await rig.until_ended(2)
