"""Lists to tap: sessions, folders, engines, models and approval modes; and running what failed again."""

from __future__ import annotations

import re
from pathlib import Path, PurePath

import pytest
from tests.runtime.puppet import PUPPET, PuppetEngine, Strings, echo
from tests.runtime.rig import ADMIN, MAIN, MEMBER, Rig, open_rig
from tests.runtime.test_commands import NAMES, OTHER, buttons, reply_to

from pilothouse.core.ids import ConversationId
from pilothouse.core.message import Author
from pilothouse.core.policy import ApprovalMode
from pilothouse.core.turn import Turn
from pilothouse.runtime.commands.retry import BUSY, NOTHING, OLDER
from pilothouse.runtime.conversations.binding import pick_mode


async def tap(rig: Rig, label: str, author: Author | None = None) -> str:
    """Runs the command of the button whose label begins so, and returns the reply."""
    (line,) = [line for shown, line in buttons(rig) if shown.startswith(label)]
    return await reply_to(rig, line)


async def with_token(strings: Strings) -> None:
    await strings.start(f"token-of-{strings.prompt.text}")
    await strings.end("ok")


async def two_sessions(rig: Rig) -> list[Turn]:
    await rig.channel.say("mend the login")
    await rig.until_ended()
    await rig.channel.say("/new")
    await rig.channel.say("water the plants")
    return await rig.until_ended(2)


@pytest.mark.parametrize("command", ["/sessions", "/resume"])
async def test_earlier_sessions_are_listed_by_their_first_words_and_taken_over_by_a_tap(
    tmp_path: Path, command: str
) -> None:
    async with open_rig(tmp_path, PuppetEngine(with_token)) as rig:
        first, second = await two_sessions(rig)
        text = await reply_to(rig, command)
        lines = text.splitlines()[1:]
        assert re.search(r"` water the plants · 1 turn · \d+s ago · this one$", lines[0])
        assert re.search(r"` mend the login · 1 turn · \d+s ago$", lines[1])
        assert "mend the login · 1 turn" in await tap(rig, "mend the login")
        await rig.channel.say("go on")
        assert [turn.session_id for turn in await rig.until_ended(3)] == [
            first.session_id,
            second.session_id,
            first.session_id,
        ]


async def test_the_beginning_of_an_id_names_a_session_if_no_other_has_it(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(with_token)) as rig:
        first, _ = await two_sessions(rig)
        short = first.session_id.removeprefix("session-")[:8]
        assert "mend the login" in await reply_to(rig, f"/resume {short}")
        assert "2 sessions begin with" in await reply_to(rig, "/resume session-")
        assert "No session 'zzzzzz'" in await reply_to(rig, "/resume zzzzzz")


async def test_a_member_sees_only_the_sessions_of_the_conversation(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(with_token)) as rig:
        await two_sessions(rig)
        await rig.channel.say("elsewhere I am", "other", author=MEMBER)
        await rig.until_said("ok")
        receipt = await rig.channel.say("/sessions", "other", author=MEMBER)
        key = f"reply:{receipt.message_id}"
        await rig.until(lambda tx: (row := tx.outbox.by_key(key)) and row.status == "done")
        (shown,) = [text for text in rig.said("other") if "Earlier" in text or "no earlier" in text]
        assert "mend the login" not in shown
        assert "from memory" in await reply_to(rig, "/sessions")


async def test_a_group_is_not_told_what_an_owner_said_elsewhere(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(with_token)) as rig:
        await two_sessions(rig)
        await rig.channel.say("hello all", "group", private=False)
        await rig.until(lambda tx: tx.turns.of(ConversationId("memory:group"), statuses=("done",)))
        shown = await reply_to(rig, "/sessions", "group")
        assert "hello all" in shown
        assert "mend the login" not in shown


async def test_without_sessions_the_list_says_so(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        assert await reply_to(rig, "/sessions") == "There is no earlier session yet."


async def test_engines_and_models_are_chosen_by_a_tap(tmp_path: Path) -> None:
    puppet, other = PuppetEngine(), PuppetEngine()
    async with open_rig(tmp_path, puppet, engines={PUPPET: puppet, OTHER: other}, engine_names=NAMES) as rig:
        await reply_to(rig, "/engine")
        assert buttons(rig) == [["other", "/engine other"]]
        assert "other, in a new session" in await tap(rig, "other")
        await reply_to(rig, "/model big")
        await reply_to(rig, "/model")
        assert buttons(rig) == [["default", "/model default"]]
        assert "default model" in await tap(rig, "default")


async def test_folders_below_a_root_are_listed_and_chosen(tmp_path: Path) -> None:
    root, outside = tmp_path / "projects", tmp_path / "secrets"
    for folder in (root / "shop", root / ".hidden", root / "shop" / "api", outside):
        folder.mkdir(parents=True)
    (root / "way-out").symlink_to(outside)
    (root / "notes.txt").write_text("no folder")
    async with open_rig(tmp_path, roots=(str(root),)) as rig:
        text = await reply_to(rig, "/bind")
        assert "· shop" in text
        assert buttons(rig) == [["shop", "/bind shop"]]
        for wrong in (outside, root, "way-out", ".hidden", "../secrets", "notes.txt", "nothing"):
            assert "There is no folder" in await reply_to(rig, f"/bind {wrong}")
        assert str(root / "shop" / "api") in await reply_to(rig, "/bind shop/api")
        assert f"{root / 'shop'}, in a new session" in await tap(rig, "shop")
        await rig.channel.say("go")
        await rig.until_ended()
        assert [brief.workspace for brief in rig.engine.briefs] == [str(root / "shop")]


def shop_is_trusted(workspace: str) -> ApprovalMode | None:
    return "trusted" if workspace.endswith("shop") else None


async def folders_of_turns(rig: Rig) -> list[str]:
    await rig.channel.say("go")
    await rig.until_ended(len(rig.engine.briefs) + 1)
    return [PurePath(brief.workspace).name for brief in rig.engine.briefs]


async def test_a_folder_with_a_wider_mode_is_asked_for_and_one_with_a_narrower_mode_is_not(
    tmp_path: Path,
) -> None:
    for name in ("shop", "boat"):
        (tmp_path / "projects" / name).mkdir(parents=True)
    async with open_rig(tmp_path, roots=(str(tmp_path / "projects"),), mode_in=shop_is_trusted) as rig:
        assert "boat, in a new session" in await reply_to(rig, "/bind boat")
        told = await reply_to(rig, "/bind shop")
        assert "(trusted) allows more than the one here (minimal). Please answer" in told
        await rig.channel.answer(await rig.until_asked("its approval mode is trusted"), "deny")
        assert await folders_of_turns(rig) == ["boat"]
        await reply_to(rig, "/bind shop")
        await rig.channel.answer(await rig.until_asked("its approval mode is trusted"), "allow")
        await rig.until_said("shop, in a new session")
        assert await folders_of_turns(rig) == ["boat", "shop"]
        assert "boat, in a new session" in await reply_to(rig, "/bind boat"), "narrower"
        assert await folders_of_turns(rig) == ["boat", "shop", "boat"]
        assert await rig.store.read(lambda tx: tx.asks.open_in(MAIN)) == []


async def test_a_yes_to_a_folder_does_not_cover_a_mode_that_became_wider_since(tmp_path: Path) -> None:
    shop = tmp_path / "projects" / "shop"
    shop.mkdir(parents=True)
    async with open_rig(tmp_path, roots=(str(tmp_path / "projects"),)) as rig:
        await rig.store.write(lambda tx: pick_mode(tx, str(shop), "trusted", 1.0, ""))
        await reply_to(rig, "/bind shop")
        ask = await rig.until_asked("its approval mode is trusted")
        await rig.store.write(lambda tx: pick_mode(tx, str(shop), "full-access", 1.0, ""))
        await rig.channel.answer(ask, "allow")
        await rig.until_said("allows more by now. Send /bind again.")
        assert (await folders_of_turns(rig))[-1] != "shop"


async def test_only_an_owner_confirms_a_folder_with_a_wider_mode_and_is_asked_in_private(
    tmp_path: Path,
) -> None:
    (tmp_path / "projects" / "shop").mkdir(parents=True)
    async with open_rig(tmp_path, roots=(str(tmp_path / "projects"),), mode_in=shop_is_trusted) as rig:
        await rig.channel.say("hi", "owners-own", private=True)
        await rig.channel.say("/bind shop", author=ADMIN, private=False)
        await rig.until_said("An owner is asked first.")
        ask = await rig.until_asked("its approval mode is trusted")
        shown = await rig.until_true(lambda: [text for text in rig.said("owners-own") if "Work in" in text])
        assert "From Admin in memory:main." in shown[0]
        assert not (await rig.channel.answer(ask, "allow", author=ADMIN)).accepted
        assert (await rig.channel.answer(ask, "allow")).accepted
        await rig.until_said("shop, in a new session")
        await rig.channel.say("go")
        await rig.until_ended()
        assert PurePath(rig.engine.briefs[-1].workspace).name == "shop"


async def test_a_member_is_not_told_which_folders_there_are(tmp_path: Path) -> None:
    (tmp_path / "projects" / "secret-plan").mkdir(parents=True)
    async with open_rig(tmp_path, roots=(str(tmp_path / "projects"),)) as rig:
        await rig.channel.say("/bind", author=MEMBER)
        assert "secret-plan" not in await rig.until_said("The folder is")


async def test_without_roots_no_folder_can_be_named(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        assert "No other folders are set up" in await reply_to(rig, "/bind")
        assert "There is no folder" in await reply_to(rig, f"/bind {tmp_path}")


async def modes(rig: Rig) -> list[ApprovalMode]:
    await rig.channel.say("go")
    await rig.until_ended(len(rig.engine.briefs) + 1)
    return [brief.approval_mode for brief in rig.engine.briefs]


async def test_a_wider_mode_is_asked_for_and_a_narrower_one_holds_at_once(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        listed = await reply_to(rig, "/mode")
        assert "→ minimal" in listed
        assert [label for label, _ in buttons(rig)] == ["trusted", "full-access"]
        assert "answer the question" in await tap(rig, "full-access")
        ask = await rig.until_asked("without asking")
        assert await modes(rig) == ["minimal"]
        await rig.channel.answer(ask, "allow")
        await rig.until_said("full-access. The agent does everything without asking")
        assert await modes(rig) == ["minimal", "full-access"]
        assert "trusted" in await reply_to(rig, "/mode trusted")
        assert await modes(rig) == ["minimal", "full-access", "trusted"]
        assert "trusted (reads and changes files" in await reply_to(rig, "/status")


async def test_a_wider_mode_that_is_denied_changes_nothing(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await reply_to(rig, "/mode trusted")
        await rig.channel.answer(await rig.until_asked("change files"), "deny")
        assert await modes(rig) == ["minimal"]


async def test_only_an_owner_changes_the_mode_or_confirms_it(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await rig.channel.say("/mode trusted", author=MEMBER)
        await rig.until_said("Only an owner may do that here.")
        await reply_to(rig, "/mode trusted")
        ask = await rig.until_asked("change files")
        assert not (await rig.channel.answer(ask, "allow", author=MEMBER)).accepted
        assert "There is no approval mode 'yolo'" in await reply_to(rig, "/mode yolo")


async def test_a_configured_mode_is_stronger_than_a_chat(tmp_path: Path) -> None:
    def configured(workspace: str) -> ApprovalMode | None:
        return "trusted"

    async with open_rig(tmp_path, mode_in=configured) as rig:
        listed = await reply_to(rig, "/mode")
        assert (
            "→ trusted" in listed
            and "cannot be changed here: the configuration sets the mode trusted" in listed
        )
        assert not any("buttons" in post.part.data for post in rig.channel.sent), "no tap would change it"
        for mode in ("minimal", "full-access"):
            assert "the configuration sets the mode trusted" in await reply_to(rig, f"/mode {mode}")
        assert await rig.store.read(lambda tx: tx.asks.open_in(MAIN)) == []


async def test_a_folder_that_accepts_less_is_not_widened(tmp_path: Path) -> None:
    def widest(workspace: str) -> ApprovalMode:
        return "trusted"

    async with open_rig(tmp_path, widest_in=widest) as rig:
        assert f"{tmp_path} accepts no wider mode than trusted" in await reply_to(rig, "/mode full-access")
        assert await rig.store.read(lambda tx: tx.asks.open_in(MAIN)) == []
        assert "answer the question" in await reply_to(rig, "/mode trusted")


def failing_once(kind: str, *, began: bool = False) -> PuppetEngine:
    async def fail(strings: Strings) -> None:
        await strings.start()
        if began:
            await strings.say("half")
        await strings.fail(kind, "No.")

    return PuppetEngine(fail, echo)


async def test_retry_runs_the_last_failed_turn_again_with_its_prompt(tmp_path: Path) -> None:
    async with open_rig(tmp_path, failing_once("auth")) as rig:
        await rig.channel.say("mend it")
        (failed,) = await rig.until_ended()
        await rig.until_said("No. /retry tries again.")
        ((label, line),) = rig.channel.sent[-1].part.data["buttons"]
        assert (label, line) == ("Retry", f"/retry {failed.id}")
        assert await reply_to(rig, line) == "Trying again."
        await rig.until_said("you said: mend it")
        again = (await rig.until_ended(2))[-1]
        assert (again.session_id, again.prompt.authors) == (failed.session_id, failed.prompt.authors)
        assert await reply_to(rig, f"/retry {failed.id}") == OLDER
        assert await reply_to(rig, "/retry") == NOTHING


async def test_retry_of_a_turn_that_had_begun_continues_it(tmp_path: Path) -> None:
    async with open_rig(tmp_path, failing_once("auth", began=True)) as rig:
        await rig.channel.say("mend it")
        await rig.until_ended()
        await reply_to(rig, "/retry")
        await rig.until_said("you said: Continue.")


async def test_retry_while_something_runs_starts_nothing(tmp_path: Path) -> None:
    async def hang(strings: Strings) -> None:
        await strings.start()
        await strings.interrupted.wait()
        await strings.end("")

    async with open_rig(tmp_path, PuppetEngine(hang)) as rig:
        assert await reply_to(rig, "/retry") == NOTHING
        await rig.channel.say("one")
        await rig.until_live()
        assert await reply_to(rig, "/retry") == BUSY
        await rig.channel.say("/stop")


async def test_new_while_an_earlier_message_is_parked_says_what_goes_first(tmp_path: Path) -> None:
    async def limited(strings: Strings) -> None:
        await strings.start()
        await strings.fail("quota", "The limit is reached.", retry_at=rig_now[0] + 3600)

    rig_now = [0.0]
    async with open_rig(tmp_path, PuppetEngine(limited)) as rig:
        rig_now[0] = rig.ports.clock.now()
        await rig.channel.say("one")
        await rig.until(lambda tx: tx.turns.of(MAIN, statuses=("parked",)))
        assert "waits to run again, and goes first; /stop drops it" in await reply_to(rig, "/new")
        receipt = await rig.channel.say("two")
        assert receipt.text.startswith("The limit is reached. An earlier message runs again at ")
        assert receipt.text.endswith(", and yours comes after it. /stop drops the earlier one.")
