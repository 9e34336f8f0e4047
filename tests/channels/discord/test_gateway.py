"""The whole house behind a Discord: what people send, see and press, and what the engine gets of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from simcord.backend.models import Channel
from tests.agent_tools.agent import Agent
from tests.channels.channel_rig import LateBlobs
from tests.channels.discord.gateway_house import config_for, open_gateway
from tests.channels.discord.server.cdn import File
from tests.channels.discord.server.faults import DELETE, EDIT, SEND
from tests.channels.discord.server.people import Person
from tests.channels.discord.server.rest import Call
from tests.channels.discord.server.running import Server
from tests.channels.plays import asks, pass_until, slow, works_until
from tests.runtime.puppet import Strings, echo, until_interrupted
from tests.runtime.rig import only_alive

from pilothouse.bootstrap.files import read_file
from pilothouse.channels.discord.addresses import DISCORD
from pilothouse.channels.discord.config import Rules
from pilothouse.core.ask import Ask, Decision, Option
from pilothouse.core.errors import NoThreads
from pilothouse.core.event import MediaProduced, ToolCall, ToolStarted
from pilothouse.core.ids import AskId, CallId, ConversationId
from pilothouse.core.message import Address
from pilothouse.core.people import Role
from pilothouse.runtime.admission import offer_pairing
from pilothouse.runtime.ports import StoreBlobs, SystemClock
from pilothouse.testing.clock import FakeClock
from pilothouse.testing.policy import FixedPolicy

pytestmark = pytest.mark.anyio

APPROVAL = Ask(AskId("a"), "approval", "Run make?", {"command": "make"})
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(60)
COLOURS = (Option("r", "Red"), Option("b", "Blue"))
CLEAN = Ask(AskId("c"), "approval", "rm", {"tool": "Bash", "input": {"command": "rm -rf build"}})
QUESTION = Ask(AskId("q"), "question", "Which colours?", {}, options=COLOURS, many=True)
WORDS = Ask(AskId("w"), "question", "What name?", {}, free_text=True)


def place(channel: Channel) -> ConversationId:
    if channel.thread_metadata is not None:
        return ConversationId(f"discord:{channel.parent_id}#{channel.id}")
    return ConversationId(f"discord:{channel.id}")


async def test_a_message_is_answered_where_it_was_sent(server: Server, tmp_path: Path) -> None:
    ada, bob = server.person("ada"), server.person("bob")
    general, us = server.world.general, f"<@{server.world.bot_id}>"
    async with open_gateway(server, tmp_path, {ada: "owner", bob: "member"}) as house:
        asked = ada.say(f"{us} hello")
        bob.say("good day", channel=bob.dm)
        answer = await house.until_shown(general, "hello")
        await house.until_shown(bob.dm, "you said: good day")
        assert "<@" not in answer.text
        assert len(server.world.texts(general)) == 1
        assert not answer.silent
        assert server.called(SEND)[0].body["allowed_mentions"]["parse"] == []
        assert asked.reactions == []


async def test_an_edit_that_discord_has_received_is_waited_for_before_the_answer(
    server: Server, tmp_path: Path
) -> None:
    ada, clock, may_end = server.person("ada"), FakeClock(), anyio.Event()
    done: list[str] = []

    async def note(call: Call, _result: Any) -> bool:
        done.append("edit" if call.method == "PATCH" else call.path.rpartition("/")[2])
        return False

    async with open_gateway(
        server, tmp_path, {ada: "owner"}, works_until(may_end, "Built."), clock=clock
    ) as house:
        ada.say("build it", channel=ada.dm)
        await pass_until(clock, lambda: server.world.shown(ada.dm))
        server.rest.after = note
        held = server.faults.hold(EDIT)
        await pass_until(clock, held.arrived.is_set)
        done.clear()
        may_end.set()
        await house.rig.until_ended(conversation=place(ada.dm))
        held.release()
        await house.until_shown(ada.dm, "Built.")
        assert [what for what in done if what in ("edit", "messages")] == ["edit", "messages"]


async def test_what_is_not_for_us_starts_no_turn(server: Server, tmp_path: Path) -> None:
    ada, eve, other = server.person("ada"), server.person("eve"), server.person("botty", bot=True)
    us = f"<@{server.world.bot_id}>"
    async with open_gateway(server, tmp_path, {ada: "owner"}) as house:
        ada.say("just talking to eve")
        eve.say(f"{us} let me in")
        other.say(f"{us} hello, bot")
        server.hook(server.world.general).say(f"{us} hello from a hook")
        ada.say(f"{us} hello")
        await house.until(lambda: house.rig.engine.turns)
        (turn,) = house.rig.engine.turns
        assert ("hello" in turn.prompt.text, turn.prompt.by) == (True, "Ada")
        assert not any(word in turn.prompt.text for word in ("talking", "let me in", "hook", "hello, bot"))


@pytest.mark.parametrize(
    ("button", "verdict", "line"),
    [("Allow once", "allow", "Allowed by Ada: Run make?"), ("Deny", "deny", "Denied by Ada: Run make?")],
)
async def test_an_approval_is_given_by_a_button_and_says_who_gave_it(
    server: Server, tmp_path: Path, button: str, verdict: str, line: str
) -> None:
    ada = server.person("ada")
    heard: list[Decision] = []
    async with open_gateway(server, tmp_path, {ada: "owner"}, asks(APPROVAL, heard)) as house:
        ada.say("build it", channel=ada.dm)
        post = await house.until_asked(ada.dm, "Run make?")
        pressed = ada.press(post, button)
        await house.until(lambda: heard)
        assert heard[0].verdict == verdict
        await house.until(lambda: line in post.text.replace("\\", ""))
        assert post.buttons == {}
        assert pressed.kind == "deferred_update"
        assert pressed.followups == []


@pytest.mark.parametrize("ask", [CLEAN, WORDS])
async def test_a_yes_from_before_an_outage_allows_nothing_that_was_asked_since(
    server: Server, tmp_path: Path, ask: Ask
) -> None:
    """She means the README; the line comes back, and the agent has asked for something else meanwhile."""
    ada, heard, goes_on = server.person("ada"), list[Decision](), anyio.Event()

    async def play(strings: Strings) -> None:
        await strings.start()
        await goes_on.wait()
        heard.append(await strings.ask(ask))
        await strings.end("told")

    async with open_gateway(server, tmp_path, {ada: "owner"}, play, echo) as house:
        ada.say("go", channel=ada.dm)
        await house.until(lambda: house.rig.engine.turns)
        late: list[tuple[str, Mapping[str, Any]]] = []
        heard_by = server.world.state.subscribers
        heard_by[heard_by.index(server.gateway.tell)] = lambda event, data: late.append((event, data))
        ada.say("yes", channel=ada.dm)
        heard_by[-1] = server.gateway.tell
        goes_on.set()
        await house.rig.until(lambda tx: tx.asks.open_in(place(ada.dm)))
        await house.rig.until_delivered(place(ada.dm))
        for event, data in late:
            server.gateway.tell(event, data)
        await house.until_shown(ada.dm, "You sent this before I asked")
        assert heard == []
        ada.say("no", channel=ada.dm)
        await house.until(lambda: heard)
        await house.until_shown(ada.dm, "you said: yes")


async def test_a_typed_yes_answers_and_details_are_a_button_away(server: Server, tmp_path: Path) -> None:
    ada, heard = server.person("ada"), list[Decision]()
    payload = {"tool": "Bash", "input": {"command": "npm test", "description": "Run the tests"}}
    ask = Ask(AskId("a"), "approval", "npm test", payload)
    async with open_gateway(server, tmp_path, {ada: "owner"}, asks(ask, heard)) as house:
        ada.say("build it", channel=ada.dm)
        post = await house.until_asked(ada.dm, "Puppet wants to run `npm test`")
        assert list(post.buttons) == ["Allow once", "Deny", "Deny and say why", "Details"]
        ada.press(post, "Details")
        await house.until_shown(ada.dm, "Run the tests")
        await house.rig.until_delivered(place(ada.dm))
        ada.say("yes", channel=ada.dm)
        await house.until(lambda: heard)
        assert heard[0].verdict == "allow"
        await house.until(lambda: "Allowed by Ada: npm test" in post.text)


async def test_a_press_changes_the_question_once(server: Server, tmp_path: Path) -> None:
    ada, heard = server.person("ada"), list[Decision]()
    async with open_gateway(server, tmp_path, {ada: "owner"}, asks(APPROVAL, heard)) as house:
        ada.say("build it", channel=ada.dm)
        post = await house.until_asked(ada.dm, "Run make?")
        await house.rig.until(lambda tx: not tx.outbox.channels_waiting())
        deny = post.buttons["Deny"]
        ada.press(post, "Allow once")
        await house.until(lambda: "Allowed by Ada" in post.text)
        assert "Already answered" in await house.until_whispered(ada.forge(post, deny))
        assert len(server.called(f"PATCH /channels/{ada.dm.id}/messages/{post.id}")) == 1


async def test_a_no_with_a_reason_is_said_in_a_form_and_reaches_the_engine(
    server: Server, tmp_path: Path
) -> None:
    ada = server.person("ada")
    heard: list[Decision] = []
    async with open_gateway(server, tmp_path, {ada: "owner"}, asks(APPROVAL, heard)) as house:
        ada.say("build it", channel=ada.dm)
        post = await house.until_asked(ada.dm, "Run make?")
        shown = ada.press(post, "Deny and say why")
        await house.until(lambda: shown.kind == "modal")
        ada.submit(shown, words="use ninja")
        await house.until(lambda: heard)
        assert (heard[0].verdict, heard[0].text) == ("deny", "use ninja")
        await house.until(lambda: "Denied" in post.text and not post.buttons)


async def test_several_options_are_chosen_from_a_list(server: Server, tmp_path: Path) -> None:
    ada = server.person("ada")
    heard: list[Decision] = []
    async with open_gateway(server, tmp_path, {ada: "owner"}, asks(QUESTION, heard)) as house:
        ada.say("paint", channel=ada.dm)
        post = await house.until_asked(ada.dm, "Which colours?")
        ada.choose(post, "Red", "Blue")
        await house.until(lambda: heard)
        assert heard[0].options == ("r", "b")
        await house.until(lambda: "Answered by Ada: Red, Blue" in post.text)


async def test_a_question_is_answered_in_words(server: Server, tmp_path: Path) -> None:
    ada = server.person("ada")
    heard: list[Decision] = []
    async with open_gateway(server, tmp_path, {ada: "owner"}, asks(WORDS, heard)) as house:
        ada.say("call it something", channel=ada.dm)
        post = await house.until_asked(ada.dm, "What name?")
        shown = ada.press(post, "Answer in words")
        await house.until(lambda: shown.kind == "modal")
        ada.submit(shown, words="Pinta")
        await house.until(lambda: heard)
        assert heard[0].text == "Pinta"


async def test_only_who_may_answer_does_and_the_other_is_told_alone(server: Server, tmp_path: Path) -> None:
    ada, bob, eve = server.person("ada"), server.person("bob"), server.person("eve")
    heard: list[Decision] = []
    people: dict[Person, Role] = {ada: "owner", bob: "member"}
    async with open_gateway(server, tmp_path, people, asks(APPROVAL, heard)) as house:
        ada.say(f"<@{server.world.bot_id}> build it")
        post = await house.until_asked(server.world.general, "Run make?")
        for person in (bob, eve):
            pressed = person.press(post, "Allow once")
            assert "may not" in await house.until_whispered(pressed)
            assert all(told.ephemeral for told in pressed.followups)
        shown = eve.press(post, "Deny and say why")
        assert "may not" in await house.until_whispered(shown)
        assert heard == []
        assert "Allow once" in post.buttons
        ada.press(post, "Allow once")
        await house.until(lambda: heard)


async def test_forged_buttons_change_nothing(server: Server, tmp_path: Path) -> None:
    ada = server.person("ada")
    heard: list[Decision] = []
    async with open_gateway(server, tmp_path, {ada: "owner"}, asks(APPROVAL, heard)) as house:
        ada.say("build it", channel=ada.dm)
        post = await house.until_asked(ada.dm, "Run make?")
        real = post.buttons["Allow once"]
        _, ask_id, _, act = real.split("|")
        forged = ("x", f"a|{ask_id}|{'0' * 12}|{act}", "a|ask-nope|000000000000|c0", f"{real}9", "s|turn-x")
        for custom_id in (*forged, f"a|{ask_id}|{'0' * 12}|w4", "q|1"):
            pressed = ada.forge(post, custom_id)
            told = await house.until_whispered(pressed) if custom_id != "q|1" else ""
            assert told in ("This button is no longer valid.", "This has already ended.", "")
        assert heard == []
        ada.press(post, "Allow once")
        await house.until(lambda: heard)


async def test_a_button_that_was_left_behind_goes_away_when_it_is_pressed(
    server: Server, tmp_path: Path
) -> None:
    ada = server.person("ada")
    heard: list[Decision] = []
    async with open_gateway(server, tmp_path, {ada: "owner"}, asks(APPROVAL, heard)) as house:
        ada.say("build it", channel=ada.dm)
        post = await house.until_asked(ada.dm, "Run make?")
        edit = f"PATCH /channels/{ada.dm.id}/messages/{post.id}"
        await house.rig.until(lambda tx: not tx.outbox.channels_waiting())
        server.faults.missing_permission(edit)
        ada.press(post, "Allow once")
        await house.until_shown(ada.dm, "Went on.")
        await house.until(lambda: not server.faults.waiting)
        assert "Deny" in post.buttons
        assert "Already answered" in await house.until_whispered(ada.press(post, "Deny"))
        await house.until(lambda: not post.buttons)


async def test_a_question_that_a_crash_left_unknown_loses_its_buttons_when_it_is_answered(
    server: Server, tmp_path: Path
) -> None:
    ada = server.person("ada")
    heard: list[Decision] = []
    held, quiet = server.faults.hold(SEND), {"first_view_s": 1000.0}
    async with open_gateway(server, tmp_path, {ada: "owner"}, asks(APPROVAL, heard), **quiet) as house:
        ada.say("build it", channel=ada.dm)
        await held.arrived.wait()
        house.rig.crash()  # from now on nobody writes down which number the question gets
        held.release()
        await house.until_shown(ada.dm, "Run make?")
    async with open_gateway(
        server, tmp_path, {ada: "owner"}, asks(APPROVAL, heard), alive=only_alive("nobody"), **quiet
    ) as house:
        posts = server.world.shown
        asked = await house.until(
            lambda: shown if len(shown := [post for post in posts(ada.dm) if post.buttons]) > 1 else None
        )
        ada.press(asked[0], "Allow once")
        await house.until_shown(ada.dm, "Went on.")
        await house.until(lambda: not any(post.buttons for post in posts(ada.dm)))


async def test_a_form_of_a_question_that_is_over_does_not_open_and_its_button_goes_away(
    server: Server, tmp_path: Path
) -> None:
    ada = server.person("ada")
    heard: list[Decision] = []
    async with open_gateway(server, tmp_path, {ada: "owner"}, asks(WORDS, heard)) as house:
        ada.say("name it", channel=ada.dm)
        post = await house.until_asked(ada.dm, "What name?")
        edit = f"PATCH /channels/{ada.dm.id}/messages/{post.id}"
        server.faults.missing_permission(edit)
        await house.rig.until_delivered(place(ada.dm))
        ada.say("Pilothouse", channel=ada.dm)
        await house.until_shown(ada.dm, "Went on.")
        await house.until(lambda: server.called(edit))
        assert await house.until_whispered(ada.press(post, "Answer in words")) == "This has already ended."
        await house.until(lambda: not post.buttons)


async def test_progress_that_was_left_behind_loses_its_button_when_it_is_pressed(
    server: Server, tmp_path: Path
) -> None:
    ada = server.person("ada")
    server.faults.missing_permission(DELETE)
    async with open_gateway(server, tmp_path, {ada: "owner"}, slow) as house:
        ada.say("build it", channel=ada.dm)
        left = await house.until(
            lambda: next((post for post in server.world.shown(ada.dm) if "Stop" in post.buttons), None)
        )
        ada.press(left, "Stop")
        await house.rig.until_ended(1, place(ada.dm))
        await house.until(lambda: server.called(DELETE))
        assert await house.until_whispered(ada.press(left, "Stop")) == "This has already ended."
        await house.until(lambda: not left.buttons)


async def test_a_question_outlives_a_restart_and_its_old_button_still_works(
    server: Server, tmp_path: Path
) -> None:
    ada = server.person("ada")
    heard: list[Decision] = []
    async with open_gateway(server, tmp_path, {ada: "owner"}, asks(APPROVAL, heard)) as house:
        ada.say("build it", channel=ada.dm)
        post = await house.until_asked(ada.dm, "Run make?")
        await house.rig.until(lambda tx: not tx.outbox.channels_waiting())
        house.rig.crash()
    async with open_gateway(
        server, tmp_path, {ada: "owner"}, asks(APPROVAL, heard), alive=only_alive("nobody")
    ) as house:
        again = await house.until_asked(ada.dm, "Run make?", beside=post)
        ada.press(post, "Allow once")
        await house.until(lambda: heard)
        assert heard[0].verdict == "allow"
        await house.until(lambda: not post.buttons and not again.buttons)


@pytest.mark.parametrize("way", ["button", "reaction"])
async def test_progress_is_a_quiet_message_that_stops_its_turn(
    server: Server, tmp_path: Path, way: str
) -> None:
    ada, eve = server.person("ada"), server.person("eve")
    general = server.world.general
    async with open_gateway(server, tmp_path, {ada: "owner"}, slow) as house:
        ada.say(f"<@{server.world.bot_id}> build it")
        progress = await house.until(
            lambda: next((p for p in server.world.shown(general) if "Stop" in p.buttons), None)
        )
        assert progress.silent
        key = progress.buttons["Stop"]
        if way == "button":
            assert "may not" in await house.until_whispered(eve.press(progress, "Stop"))
            ada.press(progress, "Stop")
        else:
            eve.react(progress, "🛑")
            ada.react(progress, "👍")
            ada.react(progress, "🛑")
        await house.rig.until_ended(1, place(general))
        await house.until(lambda: progress.deleted)
        answer = await house.until_shown(general, "")
        assert await house.until_whispered(ada.forge(answer, key)) == "This has already ended."


async def test_a_stop_button_that_a_crash_left_goes_away_when_it_is_pressed(
    server: Server, tmp_path: Path
) -> None:
    ada = server.person("ada")
    general = server.world.general
    async with open_gateway(server, tmp_path, {ada: "owner"}, slow) as house:
        ada.say(f"<@{server.world.bot_id}> build it")
        progress = await house.until(
            lambda: next((p for p in server.world.shown(general) if "Stop" in p.buttons), None)
        )
        server.faults.missing_permission(f"DELETE /channels/{general.id}/messages/{progress.id}")
        house.rig.crash()
    async with open_gateway(server, tmp_path, {ada: "owner"}, slow, alive=only_alive("nobody")) as house:
        await house.rig.until_ended(1, place(general))
        assert await house.until_whispered(ada.press(progress, "Stop")) == "This has already ended."
        await house.until(lambda: not progress.buttons)
        assert not progress.deleted


async def test_an_answer_may_take_the_place_of_the_progress(server: Server, tmp_path: Path) -> None:
    ada, go_on = server.person("ada"), anyio.Event()

    async def play(strings: Strings) -> None:
        await strings.start()
        await strings.emit(ToolStarted(ToolCall(CallId("c"), "command", "make")))
        await go_on.wait()
        await strings.end("All built.")

    config = config_for(server, final="edit")
    async with open_gateway(server, tmp_path, {ada: "owner"}, play, config=config) as house:
        ada.say("build it", channel=ada.dm)
        progress = await house.until(
            lambda: next((p for p in server.world.shown(ada.dm) if "Stop" in p.buttons), None)
        )
        await house.until(lambda: len(progress.versions) > 1)  # what is changed is known to us by its number
        go_on.set()
        await house.until(lambda: "All built." in progress.text)
        await house.rig.until_idle()
        assert not progress.deleted
        assert len(server.world.shown(ada.dm)) == 1


async def test_files_come_back_with_the_answer(server: Server, tmp_path: Path) -> None:
    ada, blobs = server.person("ada"), LateBlobs()
    large = b"x" * (11 << 20)

    async def play(strings: Strings) -> None:
        await strings.start()
        for name, kind, data in (
            ("plot.png", "image/png", b"\x89PNG\r\n\x1a\n"),
            ("../../.ssh/notes.txt", "text/plain", b"notes"),
            ("core.bin", "application/octet-stream", large),
        ):
            await strings.emit(MediaProduced(await blobs.put(data, name, kind)))
        await strings.end("Here.")

    async with open_gateway(server, tmp_path, {ada: "owner"}, play) as house:
        blobs.inner = StoreBlobs(house.rig.store, SystemClock())
        ada.say("draw", channel=ada.dm)
        post = await house.until_shown(ada.dm, "Here.")
        assert len(post.files) == 2
        assert all("/" not in name for name in post.files)
        assert server.world.file(post, post.files[0]) == b"\x89PNG\r\n\x1a\n"
        assert "too large" in post.text


async def test_an_agent_is_told_that_its_file_is_too_large_here(server: Server, tmp_path: Path) -> None:
    ada, told = server.person("ada"), list[str]()

    async def play(strings: Strings) -> None:
        await strings.start()
        agent = Agent(house.rig, strings.brief.session_id)
        told.extend([await agent.call("send_file", path=name) for name in ("large.bin", "small.txt")])
        await strings.end("Done.")

    (tmp_path / "large.bin").write_bytes(b"x" * (11 << 20))
    (tmp_path / "small.txt").write_text("42")
    async with open_gateway(server, tmp_path, {ada: "owner"}, play, policy=FixedPolicy()) as house:
        house.rig.ports.read_file = read_file
        ada.say("go", channel=ada.dm)
        await house.until_shown(ada.dm, "Done.")
        await house.rig.until_idle()
        assert [post.files for post in server.world.shown(ada.dm) if post.files] == [["small.txt"]]
    assert told[0] == "refused: large.bin is not sent: it has 11.5 MB, and 10.5 MB is the most there."
    assert told[1].startswith("Delivered")


async def test_an_image_reaches_the_engine_and_a_lying_one_is_named(server: Server, tmp_path: Path) -> None:
    ada, eve = server.person("ada"), server.person("eve")

    async def play(strings: Strings) -> None:
        await strings.start()
        names = ", ".join(f"{a.name} {a.media_type} {a.size}" for a in strings.prompt.attachments)
        await strings.end(f"I see {names}.")

    async with open_gateway(server, tmp_path, {ada: "owner"}, play) as house:
        eve.say("a stranger's", channel=eve.dm, files=[File("x.png", PNG)])
        files = [File("plot.png", PNG), File("empty.png", b""), File("liar.png", b"#!/bin/sh")]
        ada.say("what is this?", channel=ada.dm, files=files)
        await house.until_shown(ada.dm, f"I see plot.png image/png {len(PNG)}.")
        prompt = house.rig.engine.turns[0].prompt.text
        assert "what is this?" in prompt
        assert "empty.png" in prompt
        assert "liar.png" in prompt


async def test_a_reaction_starts_a_turn_only_where_it_is_switched_on(server: Server, tmp_path: Path) -> None:
    ada, bob = server.person("ada"), server.person("bob")
    loud, general = server.world.make_channel("loud"), server.world.general
    config = config_for(server, per_channel={str(loud.id): Rules(reactions=True)})
    async with open_gateway(server, tmp_path, {ada: "owner"}, config=config) as house:
        quiet, heard = bob.say("a quiet bug", channel=general), bob.say("a loud bug", channel=loud)
        ada.react(quiet, "👀")
        ada.react(heard, "👀")
        await house.until(lambda: house.rig.engine.turns)
        await house.until_shown(loud, "you said")
        (turn,) = house.rig.engine.turns
        assert "a loud bug" in turn.prompt.text
        assert "Ada" in turn.prompt.text


async def test_a_reaction_that_is_taken_back_while_it_waits_starts_nothing(
    server: Server, tmp_path: Path
) -> None:
    ada, loud = server.person("ada"), server.world.make_channel("loud")
    ada.give_role(crew := server.world.make_role("crew"))  # which Discord tells only with what is given
    rules = Rules(mode="all", reactions=True, roles=(str(crew.id),))
    config = config_for(server, per_channel={str(loud.id): rules})
    async with open_gateway(
        server, tmp_path, {ada: "owner"}, until_interrupted, echo, config=config
    ) as house:
        said = ada.say("first", channel=loud)
        await house.rig.until_live(place(loud), "running")
        ada.react(said, "👀")
        await house.rig.until(lambda tx: len(tx.inbox.waiting(place(loud))) == 1)
        ada.unreact(said, "👀")
        await house.rig.until(lambda tx: not tx.inbox.waiting(place(loud)))


async def test_a_thread_is_a_session_of_its_own_with_its_channels_rules(
    server: Server, tmp_path: Path
) -> None:
    ada, quiet = server.person("ada"), server.world.make_channel("quiet")
    config = config_for(server, per_channel={str(server.world.general.id): Rules(mode="all")})
    async with open_gateway(server, tmp_path, {ada: "owner"}, config=config) as house:
        one, two, other = (
            ada.make_thread("one"),
            ada.make_thread("two"),
            ada.make_thread("three", channel=quiet),
        )
        ada.say("overheard", channel=other)
        ada.say("first", channel=one)
        await house.until_shown(one, "first")
        ada.say("second", channel=two)
        await house.until_shown(two, "second")
        sessions = await house.rig.store.read(lambda tx: tx.sessions.of())
        assert {session.conversation_id for session in sessions} == {place(one), place(two)}


async def test_a_reply_to_an_old_answer_goes_on_in_its_session(server: Server, tmp_path: Path) -> None:
    ada, numbers = server.person("ada"), iter("12345")

    async def play(strings: Strings) -> None:
        await strings.start(f"token-{next(numbers)}")
        await strings.end(f"you said: {strings.prompt.text}")

    async with open_gateway(server, tmp_path, {ada: "owner"}, play) as house:
        ada.say("first", channel=ada.dm)
        first = await house.until_shown(ada.dm, "you said: first")
        ada.say("/new", channel=ada.dm)
        await house.until_shown(ada.dm, "starts a new session")
        ada.say("second", channel=ada.dm)
        await house.until_shown(ada.dm, "you said: second")
        ada.say("back to it", channel=ada.dm, reply_to=first)
        await house.until(lambda: len(house.rig.engine.turns) == 3)
        resumed = [brief.resume.value if brief.resume else None for brief in house.rig.engine.briefs]
        assert resumed == [None, None, "token-1"]


async def test_a_message_during_a_turn_waits_and_its_sender_is_told(server: Server, tmp_path: Path) -> None:
    ada = server.person("ada")
    async with open_gateway(server, tmp_path, {ada: "owner"}, until_interrupted, echo) as house:
        ada.say("first", channel=ada.dm)
        await house.rig.until_live(place(ada.dm), "running")
        ada.say("second", channel=ada.dm)
        told = await house.until_shown(ada.dm, "still busy")
        assert told.silent
        ada.say("/stop", channel=ada.dm)
        await house.until_shown(ada.dm, "you said: second")


async def test_what_waits_is_changed_by_an_edit_and_dropped_by_a_deletion(
    server: Server, tmp_path: Path
) -> None:
    ada = server.person("ada")
    async with open_gateway(server, tmp_path, {ada: "owner"}, until_interrupted, echo) as house:
        ada.say("first", channel=ada.dm)
        await house.rig.until_live(place(ada.dm), "running")
        second = ada.say("second", channel=ada.dm)
        third = ada.say("third", channel=ada.dm)
        await house.rig.until(lambda tx: len(tx.inbox.waiting(place(ada.dm))) == 2)
        ada.edit(second, "the second, better")
        ada.delete(third)
        await house.until_shown(ada.dm, "the new text is queued")
        await house.rig.until(lambda tx: len(tx.inbox.waiting(place(ada.dm))) == 1)
        ada.say("/stop", channel=ada.dm)
        await house.until_shown(ada.dm, "you said: the second, better")
        assert not any("third" in turn.prompt.text for turn in house.rig.engine.turns)


async def test_a_pairing_code_lets_somebody_in(server: Server, tmp_path: Path) -> None:
    ada, bob = server.person("ada"), server.person("bob")
    async with open_gateway(server, tmp_path, {ada: "owner"}) as house:
        now = house.rig.ports.clock.now()
        await house.rig.store.write(
            lambda tx: offer_pairing(tx, "K7QM2XFP", role="member", workspace="", at=now)
        )
        bob.say("/pair K7QM-2XFP", channel=bob.dm)
        await house.until_shown(bob.dm, "You are let in as member")
        bob.say("hello", channel=bob.dm)
        await house.until_shown(bob.dm, "you said: hello")


async def test_a_thread_is_opened_on_request_and_works_as_its_channel_does(
    server: Server, tmp_path: Path
) -> None:
    ada, general = server.person("ada"), server.world.general
    config = config_for(server, per_channel={str(general.id): Rules(mode="all")})
    async with open_gateway(server, tmp_path, {ada: "owner"}, config=config) as house:
        ada.say("/thread release notes")
        thread = await house.until(lambda: next(_threads(server, "release notes"), None))
        ada.say("write them", channel=thread)
        await house.until_shown(thread, "write them")
        ada.say("/thread nowhere", channel=ada.dm)
        await house.until_shown(ada.dm, "no threads in private")
        with pytest.raises(NoThreads):
            await house.channel.open_thread(Address(DISCORD, str(ada.dm.id)), "nowhere")


def _threads(server: Server, name: str) -> Iterator[Channel]:
    return (one for one in server.world.state.channels.values() if one.thread_metadata and one.name == name)


async def test_progress_that_arrived_without_an_answer_is_found_again_and_taken_away(
    server: Server, tmp_path: Path
) -> None:
    ada, general = server.person("ada"), server.world.general
    server.faults.lose_answer(SEND, times=3)
    async with open_gateway(
        server, tmp_path, {ada: "owner"}, slow, first_view_s=0, edit_every_s=0.05, retry_first_s=0.05
    ) as house:
        ada.say(f"<@{server.world.bot_id}> build")
        await house.until(lambda: len(server.called(SEND)) > 3)
        post = await house.until_shown(general, "make")
        ada.press(post, "Stop")
        await house.until(lambda: server.called(DELETE))
        await house.until(lambda: post not in server.world.shown(general))
        assert len({call.body["nonce"] for call in server.called(SEND)[:4]}) == 1
        assert not [one for one in server.world.shown(general) if "Stop" in one.buttons]
