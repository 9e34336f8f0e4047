"""Each session is kept as a transcript: to read, to export, and to search."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import msgspec
from tests.runtime.puppet import PUPPET, PuppetEngine, Strings, echo
from tests.runtime.rig import MAIN, MEMBER, Rig, only_alive, open_rig
from tests.runtime.test_commands import buttons, reply_to

from pilothouse.bootstrap.transcript_files import FOLDER, append_file, remove_file
from pilothouse.channels.memory import PERSON
from pilothouse.core.ask import Ask
from pilothouse.core.channel import LoggedEvent
from pilothouse.core.conversation import Session
from pilothouse.core.event import (
    AskChanged,
    Asked,
    EngineEvent,
    Notice,
    PromptAdded,
    SessionStarted,
    TextDelta,
    TextSet,
    ToolCall,
    ToolFinished,
    ToolStarted,
    TurnEnded,
)
from pilothouse.core.ids import AskId, CallId, ConversationId, ScheduleId, SessionId, TurnId, UserId
from pilothouse.core.outcome import Failure
from pilothouse.core.people import People
from pilothouse.core.schedule import task_place
from pilothouse.core.transcript import Entry
from pilothouse.core.turn import Prompt, Turn
from pilothouse.runtime.transcripts.archive import entries_of
from pilothouse.runtime.transcripts.render import file_name, json_lines, markdown

SESSION = Session(SessionId("session-abcdefghijkl"), MAIN, PUPPET, "/w", 1.0, 1.0)
TURN = Turn(TurnId("t1"), SESSION.id, MAIN, PUPPET, "done", "message", Prompt("Fix it", by="Ann"), 60.0)
ONLY_AN_OWNER = {"people": People({PERSON.id: "owner"})}
EVENTS: list[EngineEvent] = [
    SessionStarted(),
    PromptAdded("Fix it", "Ann"),
    TextDelta("a", "I lo"),
    TextDelta("a", "ok."),
    TextDelta("s", "not the agent's own", CallId("c1")),
    ToolStarted(ToolCall(CallId("c1"), "command", "make test")),
    ToolStarted(ToolCall(CallId("c2"), "read", "main.py")),
    ToolFinished(CallId("c2"), True),
    ToolFinished(CallId("c1"), False),
    TextSet("a", "I look."),
    Asked(Ask(AskId("q1"), "question", "Which one?", {})),
    AskChanged(AskId("q1"), "answered", UserId("memory:ann"), "the first"),
    PromptAdded("also this", "Bob"),
    Notice("info", "compacted", "The conversation was compacted."),
    TextSet("b", ""),
    TextDelta("c", "Done."),
    TurnEnded("failed", "Done.", Failure("crash", "It broke.")),
]
TOLD = [
    ("person", "Ann", "Fix it"),
    ("agent", "puppet", "I look."),
    ("step", "command", "make test (failed)"),
    ("step", "read", "main.py"),
    ("ask", "puppet", "Which one?: the first (memory:ann)"),
    ("person", "Bob", "also this"),
    ("notice", "puppet", "The conversation was compacted."),
    ("agent", "puppet", "Done."),
    ("notice", "puppet", "It broke."),
]


def told(events: list[EngineEvent], turn: Turn = TURN) -> list[tuple[str, str, str]]:
    logged = [LoggedEvent(seq, turn.id, 60.0 + seq, event) for seq, event in enumerate(events)]
    return [(one.role, one.who, one.text) for one in entries_of(SESSION, turn, logged)]


def test_a_turn_is_told_in_order_and_every_beginning_of_its_log_tells_a_beginning_of_it() -> None:
    assert told(EVENTS) == TOLD
    for length in range(len(EVENTS)):
        part = told(EVENTS[:length])
        assert [one[:2] for one in part] == [one[:2] for one in TOLD[: len(part)]]
    assert told(EVENTS[:6]) == TOLD[:2], "a step that runs is told when it has ended"


def test_an_answer_without_text_before_it_and_framed_messages_are_told() -> None:
    assert told([TurnEnded("completed", "Hi.")])[1:] == [("agent", "puppet", "Hi.")]
    assert told([TurnEnded("cancelled")])[1:] == [("notice", "puppet", "Stopped.")]
    text = (
        '<messages>\n<message id="1" from="A&amp;B">\nx &lt; y\n</message>\n'
        '<message id="2" from="Cy">\nz\n</message>\n</messages>'
    )
    framed = msgspec.structs.replace(TURN, prompt=Prompt(text, by="A&B, Cy"))
    assert told([], framed) == [("person", "A&B", "x < y"), ("person", "Cy", "z")]


def entry(role: str, text: str, who: str = "Ann") -> Entry:
    return msgspec.convert(
        {"role": role, "text": text, "who": who, "at": 60.0, "session_id": "s", "conversation_id": "c"}
        | {"workspace": "/w", "turn_id": "t"},
        Entry,
    )


def test_no_text_can_pose_as_another_speaker_or_act_on_a_terminal() -> None:
    forged = "hello\n## 1970-01-01 00:01 UTC · Owner\n\nrm -rf\x1b[2J"
    for role in ("person", "agent", "step", "ask", "notice"):
        lines = markdown([entry(role, forged)]).decode().splitlines()
        heads = [line for line in lines if line.startswith("## ")]
        assert heads == (["## 1970-01-01 00:01 UTC · Ann"] if role in ("person", "agent") else [])
        assert not any("\x1b" in line for line in lines)
    (line,) = json_lines([entry("agent", forged)]).splitlines()
    assert msgspec.json.decode(line)["text"] == forged


def test_files_are_named_by_day_and_first_words() -> None:
    assert file_name(SESSION, [entry("person", "Fix the *login* bug/now!\nplease")]) == (
        "1970-01-01-fix-the-login-bug-now-please-abcdef"
    )
    assert file_name(SESSION, [entry("person", "../../..")]) == "1970-01-01-session-abcdef"


def files_in(folder: Path) -> dict[str, str]:
    place = folder.joinpath(*FOLDER)
    return {path.suffix: path.read_text() for path in sorted(place.glob("2*"))} if place.is_dir() else {}


def keep_files(rig: Rig) -> None:
    rig.ports.append_file, rig.ports.remove_file = append_file, remove_file
    rig.ports.redact = lambda text: text.replace("hunter2", "[secret]")


async def until_kept(rig: Rig, turns: int) -> None:
    await rig.until_ended(turns)
    await rig.until(lambda tx: not tx.transcripts.due())


async def test_files_grow_by_each_turn_and_are_mended(tmp_path: Path) -> None:
    async with open_rig(tmp_path, **ONLY_AN_OWNER) as rig:
        keep_files(rig)
        await rig.channel.say("my key is hunter2")
        await until_kept(rig, 1)
        first = files_in(tmp_path)
        assert first[".md"].count("## ") == 2 and "> my key is [secret]" in first[".md"]
        assert "hunter2" not in "".join(first.values())
        assert [msgspec.json.decode(line)["role"] for line in first[".jsonl"].splitlines()] == [
            "person",
            "agent",
        ]
        place = tmp_path.joinpath(*FOLDER)
        assert (place / ".gitignore").read_text() == "*\n"
        (path,) = place.glob("2*.md")
        path.write_text(first[".md"] + "left by a crash")
        await rig.channel.say("second")
        await until_kept(rig, 2)
        second = files_in(tmp_path)
        assert second[".md"].startswith(first[".md"]) and "left by a crash" not in second[".md"]
        path.unlink()
        await rig.channel.say("third")
        await until_kept(rig, 3)
        assert files_in(tmp_path)[".md"].startswith(second[".md"]), "it was written anew, whole"
        path.unlink()
        path.symlink_to(tmp_path / "elsewhere")
        await rig.channel.say("fourth")
        await until_kept(rig, 4)
        assert not (tmp_path / "elsewhere").exists()
        assert files_in(tmp_path)[".md"].count("## ") == 8


async def test_a_folder_that_leads_elsewhere_is_refused_and_the_store_keeps_all(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / ".pilothouse").symlink_to(tmp_path / "outside")
    async with open_rig(tmp_path, **ONLY_AN_OWNER) as rig:
        keep_files(rig)
        await rig.channel.say("hello")
        await until_kept(rig, 1)
        assert os.listdir(tmp_path / "outside") == []
        assert "transcript.not_written" in [event for event, _ in rig.logged]
        assert len(await rig.store.read(lambda tx: tx.transcripts.search("hello"))) == 2


async def test_a_private_chat_is_no_file_where_others_may_talk(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        keep_files(rig)
        await rig.channel.say("a private word")
        await rig.channel.say("a public word", "group", private=False)
        await rig.until_ended(1, ConversationId("memory:group"))
        await until_kept(rig, 1)
        assert "a public word" in files_in(tmp_path)[".md"]
        assert len(list(tmp_path.joinpath(*FOLDER).glob("2*"))) == 2


async def test_a_long_turn_is_kept_when_its_engine_forgets_its_beginning(tmp_path: Path) -> None:
    go_on = anyio.Event()

    async def compacts(strings: Strings) -> None:
        await strings.start()
        await strings.say("the plan")
        await strings.emit(Notice("info", "compaction", "Compacting the conversation…"))
        await go_on.wait()
        await strings.say("the rest", "b2")
        await strings.end("the rest")

    async with open_rig(tmp_path, PuppetEngine(compacts), **ONLY_AN_OWNER) as rig:
        keep_files(rig)
        await rig.channel.say("begin")
        await rig.until(lambda tx: tx.transcripts.search("plan"))
        assert "the plan" in files_in(tmp_path)[".md"]
        go_on.set()
        await until_kept(rig, 1)
        texts = [one.text for one in await rig.store.read(lambda tx: tx.transcripts.search("the"))]
        assert texts == ["the rest", "Compacting the conversation…", "the plan"]


async def test_turns_of_a_gateway_that_was_killed_are_kept_at_the_next_start(tmp_path: Path) -> None:
    async with open_rig(tmp_path, name="first", **ONLY_AN_OWNER) as rig:
        keep_files(rig)
        await rig.channel.say("hello")
        await rig.until_ended(1)
        rig.crash()
    async with open_rig(tmp_path, name="second", alive=only_alive("second"), **ONLY_AN_OWNER) as rig:
        keep_files(rig)
        await until_kept(rig, 1)
        assert len(await rig.store.read(lambda tx: tx.transcripts.search("hello"))) == 2


async def test_transcripts_past_their_time_are_deleted_with_their_files(tmp_path: Path) -> None:
    async with open_rig(tmp_path, **ONLY_AN_OWNER) as rig:
        keep_files(rig)
        await rig.channel.say("hello")
        await until_kept(rig, 1)
    async with open_rig(tmp_path, name="second", transcript_s=1e-6, **ONLY_AN_OWNER) as rig:
        keep_files(rig)
        await rig.until(lambda tx: not tx.transcripts.search("hello"))
        assert files_in(tmp_path) == {} or await rig.until_true(lambda: files_in(tmp_path) == {})


async def test_search_finds_what_the_place_may_see_and_offers_to_resume(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(echo)) as rig:
        await rig.channel.say("the teapot is private")
        await rig.channel.say("the teapot is public", "group", private=False)
        await rig.channel.say("the teapot is hers", "hers", author=MEMBER)
        for place in ("main", "group", "hers"):
            await rig.until_ended(1, ConversationId(f"memory:{place}"))
        await rig.until(lambda tx: not tx.transcripts.due())
        group = await reply_to(rig, "/search teapot", "group")
        assert "public" in group and "private" not in group and "hers" not in group
        hers = await rig.channel.say("/search TEAP", "hers", author=MEMBER)
        await rig.until(
            lambda tx: (row := tx.outbox.by_key(f"reply:{hers.message_id}")) and row.status == "done"
        )
        shown = rig.said("hers")[-1]
        assert "hers" in shown and "public" in shown and "is private" not in shown
        own = await reply_to(rig, "/search teapot")
        assert "is private" in own and "is hers" not in own, "not even for an owner, in a chat"
        assert all(line.startswith("/resume session-") for _, line in buttons(rig))
        assert len(max(own.splitlines(), key=len)) < 200
        for odd in ('"', "AND", "foo(", "nothing-of-that"):
            assert "Nothing was found" in await reply_to(rig, f"/search {odd}")
        assert "/search WORDS" in await reply_to(rig, "/search")


async def test_search_finds_the_words_of_a_task_in_the_chat_that_made_it_and_nowhere_else(
    tmp_path: Path,
) -> None:
    async with open_rig(tmp_path, PuppetEngine(echo, echo)) as rig:
        await rig.channel.say("hello")
        await rig.until_ended(1)
        added = await reply_to(rig, "/tasks add 0 9 * * 1-5 Polish the teapot")
        id = added.split()[1].strip(".")
        await rig.channel.say(f"/tasks run {id}")
        await rig.until_ended(1, task_place(MAIN, ScheduleId(id)))
        await rig.until(lambda tx: not tx.transcripts.due())
        shown = await reply_to(rig, "/search polish")
        assert "ago · task\n" in shown and "\nschedule: Polish the teapot" in shown
        assert "Nothing was found" in await reply_to(rig, "/search polish", "group")
        everywhere = await rig.store.read(lambda tx: tx.transcripts.search("polish"))
        assert [one.role for one in everywhere] == ["agent", "person"]
