"""The commands: each does what it says, once, in any conversation, and says what it did."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from tests.runtime.puppet import PUPPET, PuppetEngine, Strings, echo, until_interrupted
from tests.runtime.rig import ADMIN, MAIN, MEMBER, Rig, open_rig

from pilothouse.channels.memory import PERSON
from pilothouse.core.ask import Ask
from pilothouse.core.ids import AskId, EngineId
from pilothouse.core.message import InboundMessage
from pilothouse.core.people import People
from pilothouse.core.trigger import IMMEDIATE_COMMANDS
from pilothouse.runtime.commands.table import COMMANDS
from pilothouse.runtime.outbox import content_of

OTHER = EngineId("other")
NAMES = {"puppet": PUPPET, "other": OTHER, "alias": OTHER}


async def reply_to(rig: Rig, line: str, conversation: str = "main") -> str:
    """What the person reads after this command."""
    receipt = await rig.channel.say(line, conversation)
    key = f"reply:{receipt.message_id}"
    row = await rig.until(lambda tx: (row := tx.outbox.by_key(key)) and row.status == "done" and row)
    return content_of(row).text


def buttons(rig: Rig) -> list[list[str]]:
    """Label and command of each button of the newest message that has any."""
    return next(
        post.part.data["buttons"] for post in reversed(rig.channel.sent) if "buttons" in post.part.data
    )


async def attached(rig: Rig, line: str) -> dict[str, bytes]:
    """The files that came with the reply, by name."""
    receipt = await rig.channel.say(line)
    row = await rig.until(lambda tx: tx.outbox.by_key(f"reply:{receipt.message_id}"))
    files = content_of(row).attachments
    return {
        file.name: await rig.store.read(lambda tx, file=file: tx.blobs.get(file.blob) or b"")
        for file in files
    }


def listed(text: str) -> set[str]:
    """The commands that a help text lists, each in a line that fits on a phone."""
    lines = [line for line in text.splitlines() if line.startswith("/")]
    assert all(len(line) <= 60 for line in lines)
    assert "```" not in text
    return {line.split()[0].removeprefix("/") for line in lines}


async def test_help_names_every_command_of_the_place(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await rig.channel.say("hello", "main")
        await rig.channel.say("hello", "group", private=False)
        texts = {place: await reply_to(rig, "/help", place) for place in ("main", "group")}
        everywhere = set(COMMANDS) - {"pair", "trigger"}
        assert listed(texts["main"]) == everywhere
        assert listed(texts["group"]) == {*everywhere, "trigger"}
        assert set(COMMANDS) > IMMEDIATE_COMMANDS


async def test_a_conversation_is_bound_to_a_folder_that_the_configuration_names(tmp_path: Path) -> None:
    folder = tmp_path / "api"
    folder.mkdir()
    async with open_rig(tmp_path, workspaces={"api": str(folder)}) as rig:
        assert "· api" in await reply_to(rig, "/bind")
        assert "There is no folder '/etc'" in await reply_to(rig, "/bind /etc")
        await rig.channel.say("one")
        await rig.until_ended()
        assert f"{folder}, in a new session" in await reply_to(rig, "/bind api")
        await rig.channel.say("two")
        await rig.until_ended(2)
        assert [brief.workspace for brief in rig.engine.briefs] == [str(tmp_path), str(folder)]


async def test_only_an_admin_of_both_folders_binds(tmp_path: Path) -> None:
    people = People(
        {PERSON.id: "owner", MEMBER.id: "member", ADMIN.id: "member"},
        {str(tmp_path): {ADMIN.id: "admin"}},
    )
    async with open_rig(tmp_path, workspaces={"api": "/srv/api"}, people=people) as rig:
        for author, words in (
            (MEMBER, "Only an admin may do that here."),
            (ADMIN, "Only an admin of api may do that."),
        ):
            await rig.channel.say("/bind api", author=author)
            await rig.until_said(words)
        bound = await rig.store.read(lambda tx: tx.conversations.get(MAIN))
        assert bound is not None and bound.workspace is None


async def test_new_starts_a_new_session_with_the_next_message(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await rig.channel.say("one")
        await rig.until_ended()
        assert "new session" in await reply_to(rig, "/new")
        await rig.channel.say("two")
        first, second = await rig.until_ended(2)
        assert first.session_id != second.session_id
        assert rig.engine.briefs[1].resume is None


async def test_new_during_a_turn_lets_it_finish_in_its_old_session(tmp_path: Path) -> None:
    go = anyio.Event()

    async def wait(strings: Strings) -> None:
        await strings.start()
        await go.wait()
        await strings.end("done")

    async with open_rig(tmp_path, PuppetEngine(wait, echo)) as rig:
        await rig.channel.say("one")
        await rig.until_true(lambda: rig.engine.turns)
        assert "finishes first" in await reply_to(rig, "/new")
        await rig.channel.say("two")
        assert len(rig.engine.turns) == 1
        go.set()
        first, second = await rig.until_ended(2)
        assert first.session_id != second.session_id


async def test_status_tells_what_runs_how_and_where(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(until_interrupted)) as rig:
        idle = await reply_to(rig, "/status")
        assert "idle" in idle
        assert "a new one" in idle
        assert "Approval mode: minimal (only reads without asking)" in idle
        await rig.channel.say("one")
        await rig.until_live()
        await rig.channel.say("two")
        busy = await reply_to(rig, "/status")
        assert "working for" in busy
        assert "1 waiting" in busy
        assert "puppet" in busy
        assert str(tmp_path) in busy
        await rig.channel.say("/cancel")
        await rig.channel.say("/stop")


async def test_queue_shows_what_waits_and_cancel_drops_one_of_it(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(until_interrupted, echo), busy="queue") as rig:
        assert "Nothing waits" in await reply_to(rig, "/queue")
        await rig.channel.say("one")
        await rig.until_live()
        await rig.channel.say("two", native_id="two")
        three = await rig.channel.say("three", native_id="three")
        rows = await rig.store.read(lambda tx: tx.inbox.waiting(MAIN))
        text = await reply_to(rig, "/queue")
        assert text.splitlines()[:2] == ["1. two", "2. three"]
        assert three.text == "I'm still busy. Your message comes after 1 other (/cancel drops it)."
        assert [line for _, line in buttons(rig)] == [f"/cancel #{row.seq}" for row in rows]
        assert "Dropped: two" in await reply_to(rig, "/cancel 1")
        assert "No waiting message is called" in await reply_to(rig, f"/cancel #{rows[0].seq}")
        dropped = await rig.store.read(lambda tx: tx.inbox.get(rows[0].id))
        assert dropped is not None
        assert dropped.status == "withdrawn"
        await rig.channel.say("/stop")
        await rig.until_said("you said: three")
        assert "you said: two" not in rig.said()


async def test_cancel_alone_drops_the_callers_last_message(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(until_interrupted), busy="queue") as rig:
        await rig.channel.say("one")
        await rig.until_live()
        for text, author in (("two", PERSON), ("three", PERSON), ("four", MEMBER)):
            await rig.channel.say(text, author=author)
        assert [await reply_to(rig, "/cancel") for _ in range(3)] == [
            "Dropped: three",
            "Dropped: two",
            "Nothing waits.",
        ]
        assert "Dropped: four" in await reply_to(rig, "/cancel 1")
        await rig.channel.say("/stop")


@pytest.mark.parametrize("args", ["#0", "0", "-1", "x", "1 2", "99999999999999999999", "\N{SUPERSCRIPT TWO}"])
async def test_cancel_of_nothing_drops_nothing(tmp_path: Path, args: str) -> None:
    async with open_rig(tmp_path, PuppetEngine(until_interrupted)) as rig:
        await rig.channel.say("one")
        await rig.until_live()
        await rig.channel.say("two")
        assert "No waiting message is called" in await reply_to(rig, f"/cancel {args}")
        assert len(await rig.store.read(lambda tx: tx.inbox.waiting(MAIN))) == 1
        await rig.store.write(lambda tx: [tx.inbox.withdraw(r.id, 0, "") for r in tx.inbox.waiting(MAIN)])
        await rig.channel.say("/stop")


async def test_cancel_reaches_no_other_conversation(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(until_interrupted, until_interrupted, echo)) as rig:
        await rig.channel.say("one")
        await rig.until_live()
        await rig.channel.say("two")
        (row,) = await rig.store.read(lambda tx: tx.inbox.waiting(MAIN))
        assert "No waiting message is called" in await reply_to(rig, f"/cancel #{row.seq}", "elsewhere")


async def test_engine_changes_the_engine_and_the_session(tmp_path: Path) -> None:
    puppet, other = PuppetEngine(), PuppetEngine()
    engines = {PUPPET: puppet, OTHER: other}
    async with open_rig(tmp_path, puppet, engines=engines, engine_names=NAMES) as rig:
        await rig.channel.say("one")
        await rig.until_ended()
        listed = await reply_to(rig, "/engine")
        assert "· other 1.0: ready · logged in\n→ puppet 1.0: ready · logged in" in listed
        wrong = await reply_to(rig, "/engine claud")
        assert "no engine 'claud'" in wrong
        assert "other, puppet" in wrong
        assert "other, in a new session" in await reply_to(rig, "/engine ALIAS fresh")
        await rig.channel.say("two")
        first, second = await rig.until_ended(2)
        assert (first.engine, second.engine) == (PUPPET, OTHER)
        assert first.session_id != second.session_id
        assert len(other.turns) == 1


async def test_an_engine_that_does_not_work_here_is_refused_with_what_to_do(tmp_path: Path) -> None:
    puppet, other = PuppetEngine(), PuppetEngine()
    engines, unusable = {PUPPET: puppet, OTHER: other}, {OTHER: "It is not installed. To fix it: get it."}
    async with open_rig(tmp_path, puppet, engines=engines, engine_names=NAMES, unusable=unusable) as rig:
        await rig.channel.say("one")
        await rig.until_ended()
        refused = await reply_to(rig, "/engine alias")
        assert refused == (
            "other does not work here: It is not installed. To fix it: get it. Nothing was changed: the engine is puppet."
        )
        await rig.channel.say("two")
        first, second = await rig.until_ended(2)
        assert (first.session_id, first.engine) == (second.session_id, PUPPET)
        listed = await reply_to(rig, "/engine")
        assert listed == (
            "The engine is puppet.\n· other 1.0: It is not installed. To fix it: get it.\n"
            "→ puppet 1.0: ready · logged in\n/engine NAME changes it."
        )
        assert not any("buttons" in post.part.data for post in rig.channel.sent), "nor is it offered"
        unusable.clear()  # somebody did what was said
        assert "other, in a new session" in await reply_to(rig, "/engine other fresh")


async def test_who_may_not_choose_the_engine_has_none_looked_at(tmp_path: Path) -> None:
    unusable = {PUPPET: "It was looked at."}
    async with open_rig(tmp_path, unusable=unusable) as rig:
        receipt = await rig.channel.say("/engine puppet", author=MEMBER)
        row = await rig.until(lambda tx: tx.outbox.by_key(f"reply:{receipt.message_id}"))
        assert content_of(row).text == "Only an admin may do that here."


async def test_model_reaches_the_engine_and_can_be_taken_back(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        assert "engine's default" in await reply_to(rig, "/model")
        for nothing in ('""', "''", '" "'):
            told = await reply_to(rig, f"/model {nothing}")
            assert "The model is the engine's default." in told
            assert "/model default" in told
        assert "big-one" in await reply_to(rig, "/model big-one")
        await rig.channel.say("one")
        await rig.until_ended()
        await reply_to(rig, '/model "small-one"')
        await rig.channel.say("two")
        await rig.until_ended(2)
        assert "engine's default" in await reply_to(rig, "/model default")
        await rig.channel.say("three")
        await rig.until_ended(3)
        assert [brief.model for brief in rig.engine.briefs] == ["big-one", "small-one", None]


async def test_resume_goes_on_with_an_earlier_session_by_our_id_or_the_engines_token(tmp_path: Path) -> None:
    async def with_token(strings: Strings) -> None:
        await strings.start(f"token-of-{strings.prompt.text}")
        await strings.end("ok")

    async with open_rig(tmp_path, PuppetEngine(with_token)) as rig:
        await rig.channel.say("one")
        (first,) = await rig.until_ended()
        await rig.channel.say("/new")
        await rig.channel.say("two")
        await rig.until_ended(2)
        assert "one · 1 turn" in await reply_to(rig, "/resume token-of-one")
        await rig.channel.say("three")
        third = (await rig.until_ended(3))[-1]
        assert third.session_id == first.session_id
        assert rig.engine.briefs[-1].resume is not None
        assert rig.engine.briefs[-1].resume.value == "token-of-one"
        await rig.channel.say("/new")
        assert "one · 2 turns" in await reply_to(rig, f"/resume `{first.session_id}`")


async def test_resume_refuses_what_it_does_not_know_and_tokens_of_another_engine(tmp_path: Path) -> None:
    puppet, other = PuppetEngine(), PuppetEngine()
    engines = {PUPPET: puppet, OTHER: other}
    async with open_rig(tmp_path, puppet, engines=engines, engine_names=NAMES) as rig:
        await rig.channel.say("one")
        (turn,) = await rig.until_ended()
        assert "one · 1 turn" in await reply_to(rig, "/resume")
        assert "No session 'nonsense'" in await reply_to(rig, "/resume nonsense")
        await reply_to(rig, "/engine other fresh")
        assert "a session of puppet, not of other" in await reply_to(rig, "/resume token")
        conversation = await rig.store.read(lambda tx: tx.conversations.get(MAIN))
        assert conversation is not None
        assert conversation.engine == OTHER
        assert conversation.session_id != turn.session_id
        assert turn.engine == PUPPET


async def test_what_a_session_cost_is_unknown_until_a_turn_tells(tmp_path: Path) -> None:
    prices = {"silent": None, "free": 0.0, "dear": 0.25}

    async def play(strings: Strings) -> None:
        await strings.start("abc-123")
        await strings.end("ok", cost_usd=prices[strings.prompt.text])

    async with open_rig(tmp_path, PuppetEngine(play)) as rig:
        for count, (word, cost) in enumerate(
            (("silent", None), ("free", 0.0), ("silent", 0.0), ("dear", 0.25))
        ):
            await rig.channel.say(word)
            await rig.until_ended(count + 1)
            (session,) = await rig.store.read(lambda tx: tx.sessions.of())
            assert (session.turns, session.cost_usd) == (count + 1, cost)
            if count == 0:
                assert "This session: $0.00 in 1 turn, 1 without a price" in await reply_to(rig, "/cost")


async def test_session_shows_the_token_and_cost_what_was_spent(tmp_path: Path) -> None:
    async def dear(strings: Strings) -> None:
        await strings.start("abc-123")
        await strings.end("ok", cost_usd=0.25)

    async with open_rig(tmp_path, PuppetEngine(dear)) as rig:
        assert "No session yet" in await reply_to(rig, "/session")
        assert "Nothing spent" in await reply_to(rig, "/cost")
        await rig.channel.say("one")
        await rig.until_ended()
        await rig.channel.say("two")
        await rig.until_ended(2)
        await rig.until_idle()
        text = await reply_to(rig, "/session")
        assert "abc-123" in text
        assert "$0.50 in 2 turns" in await reply_to(rig, "/cost")


async def test_show_shows_an_ask_or_an_answer_whole_and_only_here(tmp_path: Path) -> None:
    payload = {"command": "rm -rf \u202e" + "x" * 5000 + " END"}

    async def ask(strings: Strings) -> None:
        await strings.start()
        await strings.ask(Ask(AskId("a1"), "approval", "Run it?", payload))
        await strings.end("the whole answer")

    async with open_rig(tmp_path, PuppetEngine(ask)) as rig:
        await rig.channel.say("go")
        asked = await rig.until_asked()
        files = await attached(rig, f"/show {asked.id}")
        assert files[f"{asked.id}.txt"].decode().endswith(" END")
        assert "rm -rf \\u202ex" in files[f"{asked.id}.txt"].decode(), "a hidden character is written out"
        assert hashlib.sha256(files[f"{asked.id}.json"]).hexdigest() == asked.payload_hash
        await rig.channel.answer(asked, "allow")
        (turn,) = await rig.until_ended()
        await rig.until_idle()
        assert await reply_to(rig, f"/show {turn.id}") == "the whole answer"
        assert "Nothing here" in await reply_to(rig, f"/show {turn.id}", "elsewhere")
        assert "Nothing here" in await reply_to(rig, "/show what")
        assert "/show ID" in await reply_to(rig, "/show")


@pytest.mark.parametrize(
    ("line", "hint"),
    [("/stopp", "Did you mean /stop?"), ("/sto", "Did you mean /stop?"), ("/compact", "no command /compact")],
)
async def test_an_unknown_slash_word_gets_a_hint_and_runs_nothing(
    tmp_path: Path, line: str, hint: str
) -> None:
    async with open_rig(tmp_path, PuppetEngine(until_interrupted)) as rig:
        await rig.channel.say("one")
        live = await rig.until_live()
        assert hint in await reply_to(rig, line)
        turn = await rig.store.read(lambda tx: tx.turns.get(live.id))
        assert turn is not None
        assert not turn.stop_requested
        assert await rig.store.read(lambda tx: tx.inbox.waiting(MAIN)) == []


@pytest.mark.parametrize("as_command", [True, False])
@pytest.mark.parametrize("text", ["/etc/hosts is broken", "/ what", "//x", "/", "/1 is odd"])
async def test_a_path_is_a_message_whichever_way_it_comes(
    tmp_path: Path, text: str, as_command: bool
) -> None:
    async with open_rig(tmp_path) as rig:
        await rig.channel.say("hello")
        await rig.until_ended()
        if as_command:
            await rig.channel.say(text)
        else:
            await rig.gateway.desk.accept(message(rig, text))
        await rig.until_ended(2)
        assert rig.engine.turns[1].prompt.text == text


def message(rig: Rig, text: str, native_id: str = "n1") -> InboundMessage:
    from pilothouse.channels.memory import PERSON

    return InboundMessage(rig.channel.address(), PERSON, native_id, text, private=True)


@pytest.mark.parametrize("as_command", [True, False])
async def test_engine_commands_reach_the_engine_for_owners_alone(tmp_path: Path, as_command: bool) -> None:
    async with open_rig(tmp_path, engine_commands=True) as rig:
        await rig.channel.say("hello")
        await rig.until_ended()
        if as_command:
            await rig.channel.say("/compact now")
        else:
            await rig.gateway.desk.accept(message(rig, "/compact now"))
        await rig.until_ended(2)
        assert rig.engine.turns[1].prompt.text == "/compact now"
        assert "idle" in await reply_to(rig, "/status"), "ours stay ours"
        await rig.channel.say("/compact now", author=MEMBER)
        await rig.until_said("no command /compact")
        assert len(rig.engine.turns) == 2


async def test_help_lists_the_engines_own_commands_for_who_may_use_them(tmp_path: Path) -> None:
    class Commanding(PuppetEngine):
        def commands(self, workspace: str) -> Sequence[str]:
            return ("review", "status") if workspace == str(tmp_path) else ()

    told = "Commands of puppet\n/review"
    async with open_rig(tmp_path, Commanding(), engine_commands=True) as rig:
        await rig.channel.say("hello")
        await rig.until_ended()
        assert (await reply_to(rig, "/help")).endswith(told), "/status is ours"
        await rig.channel.say("hello", "group", private=False)
        assert told not in await reply_to(rig, "/help", "group"), "there all words are framed"
    async with open_rig(tmp_path / "plain", Commanding()) as rig:
        assert told not in await reply_to(rig, "/help"), "they would not be passed on"


async def test_compact_reaches_an_engine_that_can_compact_and_no_other(tmp_path: Path) -> None:
    async with open_rig(tmp_path, compact_lines={PUPPET: "/shorten"}) as rig:
        await rig.channel.say("hello")
        await rig.until_ended()
        await rig.channel.say("/compact")
        await rig.until_ended(2)
        assert rig.engine.turns[1].prompt.text == "/shorten"
        assert rig.engine.turns[1].prompt.engine_line
        await rig.channel.say("/compact all of it")
        await rig.until_said("no command /compact")
    async with open_rig(tmp_path / "other") as rig:
        await rig.channel.say("/compact")
        await rig.until_said("no command /compact")


async def test_the_same_command_twice_happens_once(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        first = await rig.channel.say("/new", native_id="7")
        again = await rig.channel.say("/new", native_id="7")
        assert (first.state, again.state) == ("queued", "duplicate")
        await rig.until_idle()
        assert len(rig.said()) == 1


async def test_a_task_added_where_no_gateway_runs_says_when_tasks_run(tmp_path: Path) -> None:
    text = "Tasks run only while `pilothouse up` or a terminal chat is open."
    for standby in (True, False):
        (folder := tmp_path / str(standby)).mkdir()
        async with open_rig(folder, standby=standby) as rig:
            assert (text in await reply_to(rig, "/tasks add in 5m look")) is standby


async def test_what_replaces_a_webhook_is_said_to_a_watcher_as_a_command_that_works(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine()) as rig:
        told = await reply_to(rig, "/watch ann/shop#7")
        assert "docs/" not in told and "pilothouse " not in told, "nothing that a phone cannot open or run"
        (instead,) = re.findall("`(/.+)`", told)
        assert (await reply_to(rig, instead)).startswith("Added task-")
        (added,) = await rig.store.read(lambda tx: tx.schedules.of())
    assert added.prompt == "Look at the checks and reviews of ann/shop#7"
