"""Groups, with a whole gateway: which messages are for us, who wrote them, and what is answered."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.channels.plays import asks
from tests.channels.telegram.gateway_house import config_for, open_gateway
from tests.channels.telegram.server.running import Server
from tests.runtime.puppet import echo

from pilothouse.core.ask import Ask, Decision
from pilothouse.core.ids import AskId, ConversationId
from pilothouse.core.people import Role
from pilothouse.core.trigger import Mode, Trigger
from pilothouse.runtime.admission import offer_pairing

pytestmark = pytest.mark.anyio

NAME = "@pilot_test_bot"
OWNER: Role = "owner"
APPROVAL = Ask(AskId("a"), "approval", "Run make?", {"command": "make"})
WORDS = Ask(AskId("w"), "question", "What name?", {}, free_text=True)


@pytest.mark.parametrize("mode", ["mention", "all"])
async def test_a_command_of_another_bot_is_answered_by_nobody_here(
    server: Server, tmp_path: Path, mode: Mode
) -> None:
    ada, eve = server.person("Ada"), server.person("Eve")
    group = ada.make_group("Work", eve)
    config = config_for(server, trigger=Trigger(mode))
    async with open_gateway(server, tmp_path, {ada: OWNER}, config=config) as house:
        for person in (ada, eve):
            person.say("/roll 20", chat=group)
        ada.say("/roll@pilot_test_bot", chat=group)
        told = await house.until_shown(group.id, "There is no command /roll")
        ada.say(f"{NAME} hello", chat=group)
        await house.until_shown(group.id, "hello")
        texts = server.world.texts(group.id)
        assert [text for text in texts if "no command" in text or "let in" in text] == [told.text]
        assert len(house.rig.engine.turns) == 1


async def test_an_owner_who_is_anonymous_is_told_how_to_be_known(server: Server, tmp_path: Path) -> None:
    ada = server.person("Ada")
    group = ada.make_group("Work")
    config = config_for(server, trigger=Trigger("all"))
    async with open_gateway(server, tmp_path, {ada: OWNER}, config=config) as house:
        ada.say("just talking", chat=group, anonymous=True)
        ada.say(f"{NAME} hello", chat=group, anonymous=True)
        told = await house.until_shown(group.id, "You are posting as the group")
        assert "Remain anonymous" in told.text
        assert str(group.id) not in told.text
        ada.say("it is me", chat=group)
        await house.until_shown(group.id, "it is me")
        assert len(house.rig.engine.turns) == 1
        assert len([text for text in server.world.texts(group.id) if "as the group" in text]) == 1
        assert await house.rig.store.read(lambda tx: tx.asks.newest()) == []


async def test_nobody_lets_a_group_in_with_a_code(server: Server, tmp_path: Path) -> None:
    ada = server.person("Ada")
    group = ada.make_group("Work")
    async with open_gateway(server, tmp_path, {ada: OWNER}) as house:
        now = house.rig.ports.clock.now()
        await house.rig.store.write(
            lambda tx: offer_pairing(tx, "K7QM2XFP", role="member", workspace="", at=now)
        )
        ada.say("/pair K7QM-2XFP", chat=group, anonymous=True)
        await house.until_shown(group.id, "You are posting as the group")
        assert await house.rig.store.read(lambda tx: tx.people.everybody()) == []


async def test_an_anonymous_administrator_presses_as_themselves(server: Server, tmp_path: Path) -> None:
    ada = server.person("Ada")
    group = ada.make_group("Work")
    heard: list[Decision] = []
    async with open_gateway(server, tmp_path, {ada: OWNER}, asks(APPROVAL, heard)) as house:
        ada.say(f"{NAME} build it", chat=group)
        post = await house.until_button(group.id, "Deny and say why")
        ada.press(post, "Deny and say why")
        why = await house.until_shown(group.id, "Why?")
        ada.say("use ninja", chat=group, reply_to=why, anonymous=True)
        await house.until_shown(group.id, "You are posting as the group")
        ada.say("use ninja", chat=group, reply_to=why)
        await house.until(lambda: heard)
        assert (heard[0].verdict, heard[0].text) == ("deny", "use ninja")


async def test_what_a_linked_channel_posts_starts_nothing(server: Server, tmp_path: Path) -> None:
    ada = server.person("Ada")
    group = ada.make_group("Work")
    config = config_for(server, trigger=Trigger("all"))
    async with open_gateway(server, tmp_path, {ada: OWNER}, config=config) as house:
        post = ada.publish(f"{NAME} is with us now", discussed_in=group)
        ada.say("what is this?", chat=group, reply_to=post)
        await house.until_shown(group.id, "what is this?")
        assert [len(turn.prompt.authors) for turn in house.rig.engine.turns] == [1]
        assert not [text for text in server.world.texts(group.id) if "let in" in text]
        assert await house.rig.store.read(lambda tx: tx.asks.newest()) == []


async def test_a_message_that_gets_our_name_by_an_edit_is_heard_once(server: Server, tmp_path: Path) -> None:
    ada = server.person("Ada")
    group = ada.make_group("Work")
    async with open_gateway(server, tmp_path, {ada: OWNER}, busy="queue") as house:
        post = ada.say("please deploy", chat=group)
        ada.edit(post, f"{NAME} please deploy")
        await house.until_shown(group.id, "please deploy")
        ada.edit(post, f"{NAME} please deploy it")
        ada.say(f"{NAME} and now?", chat=group)
        await house.until_shown(group.id, "and now?")
        assert [turn.prompt.text.count("deploy") for turn in house.rig.engine.turns] == [1, 0]


async def test_an_edit_of_what_was_taken_before_a_restart_starts_nothing(
    server: Server, tmp_path: Path
) -> None:
    ada = server.person("Ada")
    group = ada.make_group("Work")
    async with open_gateway(server, tmp_path, {ada: OWNER}) as house:
        post = ada.say(f"{NAME} deploy", chat=group)
        status = ada.say("/status", chat=group)
        await house.until_shown(group.id, "you said")
    async with open_gateway(server, tmp_path, {ada: OWNER}, name="second") as house:
        ada.edit(post, f"{NAME} deploy it")
        ada.edit(status, f"{NAME} status?")
        ada.say(f"{NAME} and now?", chat=group)
        await house.until_shown(group.id, "and now?")
        assert len(house.rig.engine.turns) == 1


@pytest.mark.parametrize("replies", [True, False])
async def test_in_a_group_a_reason_is_a_reply_or_plain_words_of_the_denier(
    server: Server, tmp_path: Path, replies: bool
) -> None:
    ada, bob = server.person("Ada"), server.person("Bob")
    group = ada.make_group("Work", bob)
    heard: list[Decision] = []
    people = {ada: OWNER, bob: OWNER}
    async with open_gateway(server, tmp_path, people, asks(APPROVAL, heard)) as house:
        bob.say(f"{NAME} build it", chat=group)
        post = await house.until_button(group.id, "Deny and say why")
        ada.press(post, "Deny and say why")
        why = await house.until_shown(group.id, "Why?")
        assert why.text.endswith("Answer in your own words. Say it in a reply to this message.")
        so = bob.say("so?", chat=group)
        ada.say("have a look", chat=group, reply_to=so)
        ada.say("have a look, @carol", chat=group)
        ada.say("/roll 6", chat=group)
        ada.say("use ninja", chat=group, reply_to=why if replies else None)
        await house.until(lambda: heard)
        assert (heard[0].verdict, heard[0].text) == ("deny", "use ninja")


async def test_in_a_group_a_question_is_answered_by_whoever_was_asked(server: Server, tmp_path: Path) -> None:
    ada, bob = server.person("Ada"), server.person("Bob")
    group = ada.make_group("Work", bob)
    heard: list[Decision] = []
    people = {ada: OWNER, bob: OWNER}
    async with open_gateway(server, tmp_path, people, asks(WORDS, heard), echo) as house:
        bob.say(f"{NAME} make one", chat=group)
        question = await house.until_shown(group.id, "What name?")
        assert question.text.endswith("Say it in a reply to this message.")
        await house.rig.until_delivered(ConversationId(f"telegram:{group.id}"))
        ada.say("lunch?", chat=group)
        bob.say("Gannet", chat=group)
        await house.until(lambda: heard)
        assert heard[0].text == "Gannet"
        await house.until_shown(group.id, "Got it.")
        bob.say("thanks all", chat=group)
        ada.say(f"{NAME} and now?", chat=group)
        await house.until_shown(group.id, "and now?")
        assert len(house.rig.engine.turns) == 2


async def test_in_private_a_question_asks_for_no_reply(server: Server, tmp_path: Path) -> None:
    ada = server.person("Ada")
    heard: list[Decision] = []
    async with open_gateway(server, tmp_path, {ada: OWNER}, asks(WORDS, heard)) as house:
        ada.say("make one")
        question = await house.until_shown(ada.id, "Answer in your own words.")
        assert question.text.endswith("Answer in your own words.")
