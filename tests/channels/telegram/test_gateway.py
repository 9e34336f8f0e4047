"""The whole house behind a Bot API server: what people send, see and press, and what the engine gets of it."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.channels.channel_rig import MENU, LateBlobs
from tests.channels.plays import asks, slow
from tests.channels.telegram.gateway_house import config_for, open_gateway, role_id
from tests.channels.telegram.server.people import Person
from tests.channels.telegram.server.running import Server
from tests.ports import hold_port
from tests.runtime.puppet import Strings, echo, until_interrupted
from tests.runtime.rig import only_alive
from tests.runtime.test_approvals import refusals

from pilothouse.channels.telegram.config import WebhookConfig
from pilothouse.core.ask import Ask, Decision, Option
from pilothouse.core.event import MediaProduced, ToolCall, ToolStarted
from pilothouse.core.ids import AskId, CallId, ConversationId
from pilothouse.core.people import OWNERS, Role
from pilothouse.core.secret import Secret
from pilothouse.core.trigger import Trigger
from pilothouse.runtime.admission import offer_pairing
from pilothouse.runtime.ports import StoreBlobs, SystemClock

pytestmark = pytest.mark.anyio

APPROVAL = Ask(AskId("a"), "approval", "Run make?", {"command": "make"})
CLEAN = Ask(AskId("c"), "approval", "rm", {"tool": "Bash", "input": {"command": "rm -rf build"}})
WORDS = Ask(AskId("w"), "question", "What name?", {}, free_text=True)
QUESTION = Ask(
    AskId("q"), "question", "Which colours?", {}, options=(Option("r", "Red"), Option("b", "Blue")), many=True
)
JPEG = b"\xff\xd8\xff\xe0 a picture"


def place(chat_id: int) -> ConversationId:
    return ConversationId(f"telegram:{chat_id}")


async def test_a_message_is_answered_where_it_was_sent(server: Server, tmp_path: Path) -> None:
    ada, bob = server.person("Ada"), server.person("Bob")
    async with open_gateway(server, tmp_path, {ada: "owner", bob: "member"}) as house:
        ada.say("hello")
        bob.say("good day")
        await house.until_shown(ada.id, "you said: hello")
        await house.until_shown(bob.id, "you said: good day")
        assert len(server.world.texts(ada.id)) == 1
        assert not server.world.shown(ada.id)[0].silent


async def test_a_stranger_starts_no_turn(server: Server, tmp_path: Path) -> None:
    ada, eve = server.person("Ada"), server.person("Eve")
    async with open_gateway(server, tmp_path, {ada: "owner"}) as house:
        eve.say("let me in")
        ada.say("hello")
        await house.until_shown(ada.id, "you said: hello")
        assert [turn.prompt.text for turn in house.rig.engine.turns] == ["hello"]


@pytest.mark.parametrize(
    ("button", "verdict", "line"),
    [("Allow once", "allow", "Allowed by Ada: Run make?"), ("Deny", "deny", "Denied by Ada: Run make?")],
)
async def test_an_approval_is_given_by_a_button_and_says_who_gave_it(
    server: Server, tmp_path: Path, button: str, verdict: str, line: str
) -> None:
    ada = server.person("Ada")
    heard: list[Decision] = []
    async with open_gateway(server, tmp_path, {ada: "owner"}, asks(APPROVAL, heard)) as house:
        ada.say("build it")
        post = await house.until_shown(ada.id, "Run make?")
        query = ada.press(post, button)
        assert {"allow": "Allowed", "deny": "Denied"}[verdict] in await house.until_toast(query)
        await house.until(lambda: line in post.text)
        assert post.buttons == {}
        await house.until(lambda: heard)
        assert heard[0].verdict == verdict


@pytest.mark.parametrize("ask", [CLEAN, WORDS])
async def test_a_yes_from_before_an_outage_allows_nothing_that_was_asked_since(
    server: Server, tmp_path: Path, ask: Ask
) -> None:
    """She means the README; the line comes back, and the agent has asked for something else meanwhile."""
    ada, heard, goes_on = server.person("Ada"), list[Decision](), anyio.Event()

    async def play(strings: Strings) -> None:
        await strings.start()
        await goes_on.wait()
        heard.append(await strings.ask(ask))
        await strings.end("told")

    async with open_gateway(server, tmp_path, {ada: "owner"}, play, echo) as house:
        ada.say("go")
        await house.until(lambda: house.rig.engine.turns)
        await house.until(lambda: not server.world.pending)
        told = len(server.world.pending)
        ada.say("yes")
        late = server.world.pending[told:]
        del server.world.pending[told:]
        goes_on.set()
        await house.rig.until(lambda tx: tx.asks.open_in(place(ada.id)))
        await house.rig.until_delivered(place(ada.id))
        server.world.pending += late
        server.world.wake()
        await house.until_shown(ada.id, "You sent this before I asked")
        assert heard == []
        ada.say("no")
        await house.until(lambda: heard)
        await house.until_shown(ada.id, "you said: yes")


async def test_a_typed_yes_answers_and_details_are_a_button_away(server: Server, tmp_path: Path) -> None:
    ada, heard = server.person("Ada"), list[Decision]()
    payload = {"tool": "Bash", "input": {"command": "npm test", "description": "Run the tests"}}
    ask = Ask(AskId("a"), "approval", "npm test", payload)
    async with open_gateway(server, tmp_path, {ada: "owner"}, asks(ask, heard)) as house:
        ada.say("build it")
        post = await house.until_shown(ada.id, "Puppet wants to run npm test")
        assert "Run the tests" not in post.text and post.text.count("npm test") == 1
        assert list(post.buttons) == ["Allow once", "Deny", "Deny and say why", "Details"]
        ada.press(post, "Details")
        await house.until_shown(ada.id, "Run the tests")
        await house.rig.until_delivered(place(ada.id))
        ada.say("not yet")
        await house.until_shown(ada.id, "I'm waiting for your answer above")
        ada.say("yes")
        await house.until(lambda: heard)
        assert (heard[0].verdict, heard[0].remember) == ("allow", "once")
        await house.until(lambda: post.text == "Allowed by Ada: npm test")


async def test_a_press_changes_the_question_once(server: Server, tmp_path: Path) -> None:
    ada, heard = server.person("Ada"), list[Decision]()
    async with open_gateway(server, tmp_path, {ada: "owner"}, asks(APPROVAL, heard), echo) as house:
        ada.say("build it")
        post = await house.until_shown(ada.id, "Run make?")
        await house.rig.until(lambda tx: not tx.outbox.channels_waiting())
        deny = post.buttons["Deny"]
        ada.press(post, "Allow once")
        await house.until(lambda: "Allowed by Ada" in post.text)
        assert "Already answered" in await house.until_toast(ada.forge(post, deny))
        ada.say("and now")  # what somebody does in a chat is taken one after another
        await house.until_shown(ada.id, "you said: and now")
        changed = [call.method for call in server.calls if call.params.get("message_id") == post.id]
        assert changed == ["editMessageText"]


async def test_a_no_with_a_reason_reaches_the_engine_with_it(server: Server, tmp_path: Path) -> None:
    ada = server.person("Ada")
    heard: list[Decision] = []
    async with open_gateway(server, tmp_path, {ada: "owner"}, asks(APPROVAL, heard)) as house:
        ada.say("build it")
        post = await house.until_shown(ada.id, "Run make?")
        ada.press(post, "Deny and say why")
        await house.until_shown(ada.id, "Why?")
        ada.say("use ninja")
        await house.until(lambda: heard)
        assert (heard[0].verdict, heard[0].text) == ("deny", "use ninja")
        await house.until(lambda: "Denied" in post.text and not post.buttons)


async def test_several_options_are_chosen_and_then_done(server: Server, tmp_path: Path) -> None:
    ada = server.person("Ada")
    heard: list[Decision] = []
    async with open_gateway(server, tmp_path, {ada: "owner"}, asks(QUESTION, heard)) as house:
        ada.say("paint")
        post = await house.until_shown(ada.id, "Which colours?")
        assert await house.until_toast(ada.press(post, "Done")) == "Choose at least one first."
        ada.press(post, "☐ Red")
        await house.until(lambda: "☑ Red" in post.buttons)
        ada.press(post, "☐ Blue")
        await house.until(lambda: "☑ Blue" in post.buttons)
        ada.press(post, "Done (2 chosen)")
        await house.until(lambda: heard)
        assert heard[0].options == ("r", "b")
        await house.until(lambda: "Answered by Ada: Red, Blue" in post.text)


async def test_boxes_that_are_ticked_faster_than_they_are_drawn_are_all_ticked(
    server: Server, tmp_path: Path
) -> None:
    ada = server.person("Ada")
    heard: list[Decision] = []
    async with open_gateway(server, tmp_path, {ada: "owner"}, asks(QUESTION, heard)) as house:
        ada.say("paint")
        post = await house.until_shown(ada.id, "Which colours?")
        for box in ("☐ Red", "☐ Blue", "☐ Red", "Done"):
            ada.press(post, box)
        await house.until(lambda: heard)
        assert heard[0].options == ("r", "b")


async def test_boxes_are_ticked_no_faster_than_telegram_lets_us(server: Server, tmp_path: Path) -> None:
    ada = server.person("Ada")
    heard: list[Decision] = []
    server.flood.mode = "enforce"
    async with open_gateway(server, tmp_path, {ada: "owner"}, asks(QUESTION, heard)) as house:
        ada.say("paint")
        post = await house.until_shown(ada.id, "Which colours?")
        for box in ("☐ Red", "☑ Red", "☐ Red", "☐ Blue"):
            ada.press(post, box)
            await house.until(lambda: box not in post.buttons)  # noqa: B023
        ada.press(post, "Done (2 chosen)")
        await house.until(lambda: heard)
        await house.until_shown(ada.id, "Went on.")
        assert server.flood.violations == []


@pytest.mark.parametrize("show_cost", [True, False])
async def test_an_answer_tells_what_it_cost_where_people_want_to_know(
    server: Server, tmp_path: Path, show_cost: bool
) -> None:
    ada = server.person("Ada")

    async def play(strings: Strings) -> None:
        await strings.start()
        await strings.end("It is built.", cost_usd=0.25)

    async with open_gateway(server, tmp_path, {ada: "owner"}, play, show_cost=show_cost) as house:
        ada.say("build")
        answer = await house.until_shown(ada.id, "It is built.")
        assert ("$0.25" in answer.text) is show_cost


async def test_only_who_may_answer_does_and_the_other_is_told_alone(server: Server, tmp_path: Path) -> None:
    ada, bob, eve = server.person("Ada"), server.person("Bob"), server.person("Eve")
    heard: list[Decision] = []
    group = ada.make_group("Work", bob, eve)
    people: dict[Person, Role] = {ada: "owner", bob: "member"}
    async with open_gateway(server, tmp_path, people, asks(APPROVAL, heard)) as house:
        ada.say("@pilot_test_bot build it", chat=group)
        post = await house.until_button(group.id, "Allow once")
        for person in (bob, eve):
            query = person.press(post, "Allow once")
            assert "may not" in await house.until_toast(query)
            assert server.called("answerCallbackQuery")[-1].params["show_alert"]
        assert heard == []
        assert await refusals(house.rig) == [(role_id(bob), "foreign"), (role_id(eve), "foreign")]
        assert "Allow once" in post.buttons
        ada.press(post, "Allow once")
        await house.until(lambda: heard)


async def test_what_a_member_may_not_allow_in_private_is_allowed_in_the_owners_chat(
    server: Server, tmp_path: Path
) -> None:
    ada, bob = server.person("Ada"), server.person("Bob")
    heard: list[Decision] = []
    owners = {"ordinary": OWNERS, "destructive": OWNERS}
    people: dict[Person, Role] = {ada: "owner", bob: "member"}
    async with open_gateway(server, tmp_path, people, echo, asks(APPROVAL, heard), approvals=owners) as house:
        ada.say("hello")
        await house.until_shown(ada.id, "you said: hello")
        bob.say("build it")
        theirs = await house.until_button(bob.id, "Allow once")
        ours = await house.until_button(ada.id, "Allow once")
        assert "Only an owner may answer.\nAlso sent to: Ada." in theirs.text
        assert "From Bob's telegram chat." in ours.text
        assert "Also sent to" not in ours.text and "may answer" not in ours.text, "she is the one"
        ada.press(ours, "Allow once")
        await house.until(lambda: heard)
        for post in (theirs, ours):
            await house.until(lambda post=post: "Allowed by Ada: Run make?" in post.text)


async def test_forged_buttons_change_nothing(server: Server, tmp_path: Path) -> None:
    ada = server.person("Ada")
    heard: list[Decision] = []
    async with open_gateway(server, tmp_path, {ada: "owner"}, asks(APPROVAL, heard)) as house:
        ada.say("build it")
        post = await house.until_shown(ada.id, "Run make?")
        real = post.buttons["Allow once"]
        _, ask_id, _, act = real.split("|")
        forged = (
            "",
            "x",
            f"a|{ask_id}|{'0' * 12}|{act}",
            "a|ask-nope|000000000000|c0",
            f"{real}9",
            "s|turn-x",
            "\0" * 64,
        )
        for data in forged:
            query = ada.forge(post, data or "?")
            assert await house.until_toast(query) in (
                "This button is no longer valid.",
                "This has already ended.",
            )
        assert heard == []
        audited = [why for _, why in await refusals(house.rig)]
        assert audited == ["unknown", "unknown", "forged", "unknown", "forged", "unknown"]
        ada.press(post, "Allow once")
        await house.until(lambda: heard)


async def test_what_is_too_long_to_be_read_is_a_file_and_its_buttons_go_away_too(
    server: Server, tmp_path: Path
) -> None:
    ada = server.person("Ada")
    heard: list[Decision] = []
    long = Ask(AskId("l"), "approval", "Run this?", {"command": "echo word; " * 3000})
    async with open_gateway(server, tmp_path, {ada: "owner"}, asks(long, heard)) as house:
        ada.say("build it")
        post = await house.until(
            lambda: next((p for p in server.world.shown(ada.id) if "Allow once" in p.buttons), None)
        )
        assert server.called("sendDocument")
        ada.press(post, "Allow once")
        await house.until_shown(ada.id, "Allowed by Ada")
        await house.until(lambda: not any(p.buttons for p in server.world.shown(ada.id)))


async def test_a_button_that_was_left_behind_goes_away_when_it_is_pressed(
    server: Server, tmp_path: Path
) -> None:
    ada = server.person("Ada")
    heard: list[Decision] = []
    async with open_gateway(server, tmp_path, {ada: "owner"}, asks(APPROVAL, heard)) as house:
        ada.say("build it")
        post = await house.until_shown(ada.id, "Run make?")
        await house.rig.until(lambda tx: not tx.outbox.channels_waiting())
        server.faults.refuse("editMessageText", 400, "Bad Request: message can't be edited")
        ada.press(post, "Allow once")
        await house.until_shown(ada.id, "Went on.")
        assert "Deny" in post.buttons
        assert "Already answered" in await house.until_toast(ada.press(post, "Deny"))
        await house.until(lambda: not post.buttons)


async def test_a_question_that_a_crash_left_unknown_loses_its_buttons_when_it_is_answered(
    server: Server, tmp_path: Path
) -> None:
    ada = server.person("Ada")
    heard: list[Decision] = []
    held = server.faults.hold("sendMessage")
    async with open_gateway(server, tmp_path, {ada: "owner"}, asks(APPROVAL, heard)) as house:
        ada.say("build it")
        await held.arrived.wait()
        house.rig.crash()  # from now on nobody writes down which number the question gets
        held.release()
        await house.until_button(ada.id, "Allow once")
    async with open_gateway(
        server, tmp_path, {ada: "owner"}, asks(APPROVAL, heard), alive=only_alive("nobody")
    ) as house:
        posts = await house.until(
            lambda: shown if len(shown := [p for p in server.world.shown(ada.id) if p.buttons]) > 1 else None
        )
        ada.press(posts[0], "Allow once")
        await house.until_shown(ada.id, "Went on.")
        await house.until(lambda: not any(post.buttons for post in server.world.shown(ada.id)))


async def test_a_question_outlives_a_restart_and_its_old_button_still_works(
    server: Server, tmp_path: Path
) -> None:
    ada = server.person("Ada")
    heard: list[Decision] = []
    async with open_gateway(server, tmp_path, {ada: "owner"}, asks(APPROVAL, heard)) as house:
        ada.say("build it")
        post = await house.until_shown(ada.id, "Run make?")
        await house.rig.until(lambda tx: not tx.outbox.channels_waiting())
        house.rig.crash()
    async with open_gateway(
        server, tmp_path, {ada: "owner"}, asks(APPROVAL, heard), alive=only_alive("nobody")
    ) as house:
        again = await house.until(
            lambda: [p for p in server.world.shown(ada.id) if p.buttons and p is not post]
        )
        ada.press(post, "Allow once")
        await house.until(lambda: heard)
        assert heard[0].verdict == "allow"
        await house.until(lambda: not post.buttons and not again[0].buttons)
        late = ada.forge(post, "a|ask-x|000000000000|c0")
        assert await house.until_toast(late)
        assert not server.called("editMessageReplyMarkup")


@pytest.mark.parametrize("as_text", [False, True], ids=["number", "text"])
async def test_a_draft_shows_the_progress_and_stops_its_turn(
    server: Server, tmp_path: Path, *, as_text: bool
) -> None:
    ada = server.person("Ada")
    async with open_gateway(server, tmp_path, {ada: "owner"}, slow, echo) as house:
        ada.say("build it")
        await house.until(lambda: any("make" in draft.text for draft in server.world.drafts))
        draft = server.world.drafts[-1]
        assert draft.can_stop
        ada.stop_draft(draft, as_text=as_text)
        await house.rig.until_ended(1, place(ada.id))
        ada.stop_draft(draft, as_text=as_text)
        ada.say("and now")
        await house.until_shown(ada.id, "you said: and now")


async def test_in_a_group_the_progress_is_a_message_with_a_stop_button(
    server: Server, tmp_path: Path
) -> None:
    ada = server.person("Ada")
    group = ada.make_group("Work")
    async with open_gateway(server, tmp_path, {ada: "owner"}, slow) as house:
        ada.say("@pilot_test_bot build it", chat=group)
        progress = await house.until(
            lambda: next((p for p in server.world.shown(group.id) if "Stop" in p.buttons), None)
        )
        assert progress.silent
        assert await house.until_toast(ada.press(progress, "Stop")) == "Stopping."
        await house.rig.until_ended(1, place(group.id))
        await house.until(lambda: progress.deleted)
        assert (
            await house.until_toast(ada.forge(progress, progress.buttons["Stop"]))
            == "This has already ended."
        )
        assert server.world.drafts == []


async def test_a_stop_button_that_a_crash_left_goes_away_when_it_is_pressed(
    server: Server, tmp_path: Path
) -> None:
    ada, heard = server.person("Ada"), list[Decision]()
    group = ada.make_group("Work")
    async with open_gateway(server, tmp_path, {ada: "owner"}, slow) as house:
        ada.say("@pilot_test_bot build it", chat=group)
        progress = await house.until(
            lambda: next((p for p in server.world.shown(group.id) if "Stop" in p.buttons), None)
        )
        server.faults.refuse("deleteMessage", 400, "Bad Request: message can't be deleted")
        house.rig.crash()
    async with open_gateway(
        server, tmp_path, {ada: "owner"}, asks(APPROVAL, heard), alive=only_alive("nobody")
    ) as house:
        await house.rig.until_ended(1, place(group.id))
        key = progress.buttons["Stop"]
        assert await house.until_toast(ada.press(progress, "Stop")) == "This has already ended."
        await house.until(lambda: not progress.buttons)
        assert not progress.deleted
        ada.say("build it")
        question = await house.until_shown(ada.id, "Run make?")
        assert await house.until_toast(ada.forge(question, key)) == "This has already ended."
        ada.press(question, "Allow once")  # presses are taken one after another, and this one still can be
        await house.until_shown(ada.id, "Went on.")


async def test_an_answer_may_take_the_place_of_the_progress(server: Server, tmp_path: Path) -> None:
    ada, go_on = server.person("Ada"), anyio.Event()

    async def play(strings: Strings) -> None:
        await strings.start()
        await strings.emit(ToolStarted(ToolCall(CallId("c"), "command", "make")))
        await go_on.wait()
        await strings.end("All built.")

    config = config_for(server, final="edit")
    async with open_gateway(server, tmp_path, {ada: "owner"}, play, config=config) as house:
        ada.say("build it")
        progress = await house.until(
            lambda: next((p for p in server.world.shown(ada.id) if "Stop" in p.buttons), None)
        )
        await house.until(lambda: len(progress.versions) > 1)  # what is changed is known to us by its number
        go_on.set()
        await house.until(lambda: "All built." in progress.text)
        await house.rig.until_idle()
        assert not progress.deleted
        assert len(server.world.shown(ada.id)) == 1


async def test_a_photo_reaches_the_engine_and_files_come_back(server: Server, tmp_path: Path) -> None:
    ada, blobs = server.person("Ada"), LateBlobs()

    async def play(strings: Strings) -> None:
        await strings.start()
        names = ", ".join(f"{a.media_type} {a.size}" for a in strings.prompt.attachments)
        for name, kind in (("plot.png", "image/png"), ("../../.ssh/notes.txt", "text/plain")):
            await strings.emit(MediaProduced(await blobs.put(JPEG, name, kind)))
        await strings.end(f"I see {names}.")

    async with open_gateway(server, tmp_path, {ada: "owner"}, play) as house:
        blobs.inner = StoreBlobs(house.rig.store, SystemClock())
        ada.photo(JPEG, "what is this?")
        await house.until_shown(ada.id, f"I see image/jpeg {len(JPEG)}.")
        assert house.rig.engine.turns[0].prompt.text.startswith("what is this?")
        await house.until(lambda: server.called("sendPhoto") and server.called("sendDocument"))
        assert server.called("sendPhoto")[0].uploads["file"].data == JPEG
        assert server.called("sendDocument")[0].uploads["file"].name == "notes.txt"


async def test_a_stop_does_not_wait_for_a_file_that_is_still_fetched(server: Server, tmp_path: Path) -> None:
    ada = server.person("Ada")
    async with open_gateway(server, tmp_path, {ada: "owner"}, slow, echo) as house:
        ada.say("build it")
        await house.until(lambda: house.rig.engine.turns)
        held = server.faults.hold("download")
        ada.document("big.bin", b"x", "and this")
        await house.until(held.arrived.is_set)
        ada.say("/stop")
        await house.until_shown(
            ada.id, "Stopping. A message whose file is still downloading runs when it is complete."
        )
        held.release()
        await house.until_shown(ada.id, "you said: and this")


async def test_a_stop_takes_back_a_message_whose_file_is_still_fetched(
    server: Server, tmp_path: Path
) -> None:
    ada = server.person("Ada")
    held = server.faults.hold("download")
    async with open_gateway(server, tmp_path, {ada: "owner"}) as house:
        ada.document("big.bin", b"x", "look at this")
        await house.until(held.arrived.is_set)
        ada.say("/stop")
        await house.until_shown(ada.id, "Stopped before it began, while its file was downloading.")
        ada.say("something else")
        await house.until_shown(ada.id, "you said: something else")
        held.release()
        assert [turn.prompt.text for turn in house.rig.engine.turns] == ["something else"]


async def test_a_stop_takes_back_what_was_said_behind_a_file_and_not_what_is_said_after(
    server: Server, tmp_path: Path
) -> None:
    ada, now = server.person("Ada"), server.world.now()
    server.world.now = lambda: now
    held = server.faults.hold("download")
    async with open_gateway(server, tmp_path, {ada: "owner"}) as house:
        ada.document("big.bin", b"x", "look at this")
        await house.until(held.arrived.is_set)
        ada.say("be quick")
        server.world.now = lambda: now + 2
        ada.say("/stop")
        ada.say("something else")
        await house.until_shown(ada.id, "Not run: it was sent before the last /stop.")
        await house.until_shown(ada.id, "you said: something else")
        held.release()
        assert [turn.prompt.text for turn in house.rig.engine.turns] == ["something else"]


async def test_a_photo_below_a_command_goes_on_or_is_said_to_be_unused(
    server: Server, tmp_path: Path
) -> None:
    ada = server.person("Ada")
    async with open_gateway(server, tmp_path, {ada: "owner"}) as house:
        ada.photo(JPEG, "/status")
        await house.until_shown(ada.id, "takes no files")
        ada.photo(JPEG, "/new and look at this")
        await house.until_shown(ada.id, "you said: and look at this")
        (turn,) = house.rig.engine.turns
        assert [file.media_type for file in turn.prompt.attachments] == ["image/jpeg"]


async def test_a_rich_answer_that_is_answered_in_a_group_is_context(server: Server, tmp_path: Path) -> None:
    async def play(strings: Strings) -> None:
        await strings.start()
        await strings.end("# Plan\n\n- one\n- two")

    ada = server.person("Ada")
    group = ada.make_group("Work")
    async with open_gateway(server, tmp_path, {ada: "owner"}, play, echo) as house:
        ada.say("@pilot_test_bot plan", chat=group)
        answer = await house.until_shown(group.id, "Plan")
        assert "rich_message" in answer.message
        ada.say("what about this?", chat=group, reply_to=answer)
        await house.until(lambda: len(house.rig.engine.turns) == 2)
        assert "Plan" in house.rig.engine.turns[1].prompt.text


async def test_messages_that_broke_us_are_a_trouble_of_the_channel(server: Server, tmp_path: Path) -> None:
    ada = server.person("Ada")
    (tmp_path / "failed-updates.jsonl").write_text('{"update_id": 1}\n')
    async with open_gateway(server, tmp_path, {ada: "owner"}) as house:
        ada.say("hello")
        await house.until_shown(ada.id, "you said: hello")
        assert "could not be taken" in house.channel.health().trouble
        (tmp_path / "failed-updates.jsonl").unlink()
        assert house.channel.health().trouble == ""


async def test_a_topic_is_a_session_of_its_own(server: Server, tmp_path: Path) -> None:
    ada = server.person("Ada")
    group = ada.make_group("Work", forum=True)
    config = config_for(server, chats={str(group.id): Trigger("all")})
    async with open_gateway(server, tmp_path, {ada: "owner"}, config=config) as house:
        one, two = ada.make_topic(group, "one"), ada.make_topic(group, "two")
        ada.say("first", chat=group, topic=one)
        await house.until_shown(group.id, "first", one.thread_id)
        ada.say("second", chat=group, topic=two)
        await house.until_shown(group.id, "second", two.thread_id)
        sessions = await house.rig.store.read(lambda tx: tx.sessions.of())
        assert len({session.id for session in sessions}) == 2


async def test_a_reply_to_an_old_answer_goes_on_in_its_session(server: Server, tmp_path: Path) -> None:
    ada, numbers = server.person("Ada"), iter("12345")

    async def play(strings: Strings) -> None:
        await strings.start(f"token-{next(numbers)}")
        await strings.end(f"you said: {strings.prompt.text}")

    async with open_gateway(server, tmp_path, {ada: "owner"}, play) as house:
        ada.say("first")
        first = await house.until_shown(ada.id, "you said: first")
        ada.say("/new")
        await house.until_shown(ada.id, "starts a new session")
        ada.say("second")
        await house.until_shown(ada.id, "you said: second")
        ada.say("back to it", reply_to=first)
        await house.until(lambda: len(house.rig.engine.turns) == 3)
        resumed = [brief.resume.value if brief.resume else None for brief in house.rig.engine.briefs]
        assert resumed == [None, None, "token-1"]


async def test_a_message_during_a_turn_waits_and_its_sender_is_told(server: Server, tmp_path: Path) -> None:
    ada = server.person("Ada")
    async with open_gateway(server, tmp_path, {ada: "owner"}, until_interrupted, echo) as house:
        ada.say("first")
        await house.rig.until_live(place(ada.id), "running")
        ada.say("second")
        told = await house.until_shown(ada.id, "still busy")
        assert told.silent
        ada.say("/stop")
        await house.until_shown(ada.id, "you said: second")


async def test_the_menu_differs_by_scope(server: Server, tmp_path: Path) -> None:
    ada = server.person("Ada")
    async with open_gateway(server, tmp_path, {ada: "owner"}, menu=MENU) as house:
        commands = server.world.commands
        await house.until(lambda: len(commands) == 3)
        names = {scope: {row["command"] for row in rows} for scope, rows in commands.items()}
        assert len({frozenset(found) for found in names.values()}) >= 2
        assert all("stop" in found for found in names.values())


async def test_start_is_help_and_a_link_pairs(server: Server, tmp_path: Path) -> None:
    ada, bob = server.person("Ada"), server.person("Bob")
    async with open_gateway(server, tmp_path, {ada: "owner"}) as house:
        ada.say("/start")
        await house.until_shown(ada.id, "/status")
        now = house.rig.ports.clock.now()
        await house.rig.store.write(
            lambda tx: offer_pairing(tx, "K7QM2XFP", role="member", workspace="", at=now)
        )
        bob.say("/start K7QM-2XFP")
        await house.until_shown(bob.id, "You are let in as member")
        bob.say("hello")
        await house.until_shown(bob.id, "you said: hello")


async def test_a_webhook_brings_messages_and_presses_too(server: Server, tmp_path: Path) -> None:
    ada = server.person("Ada")
    heard: list[Decision] = []
    with hold_port() as port:
        # The server of these tests calls without TLS where it calls this machine; Telegram would not.
        hook = WebhookConfig(f"http://127.0.0.1:{port}/telegram", Secret("a-secret-of-the-test"), port=port)
        config = config_for(server, mode="webhook", webhook=hook)
        play = asks(APPROVAL, heard)
        async with open_gateway(server, tmp_path, {ada: "owner"}, play, config=config) as house:
            ada.say("build it")
            post = await house.until_shown(ada.id, "Run make?")
            ada.press(post, "Allow once")
            await house.until(lambda: heard)
            assert server.called("getUpdates") == []
