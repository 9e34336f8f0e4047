"""Discord's deadlines, by simcord's clock: the first answer within three seconds, and a token of fifteen minutes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from simcord.backend.errors import BackendError
from simcord.results import InteractionResult
from tests.channels.channel_rig import MENU
from tests.channels.discord.inside import House, Inside, open_adapter, open_house
from tests.channels.discord.test_gateway import APPROVAL, WORDS, asks
from tests.runtime.puppet import Strings
from typing_extensions import override

from pilothouse.channels.discord.replies import LOOK_S
from pilothouse.core.ask import Decision
from pilothouse.core.channel import Receipt
from pilothouse.core.message import Address, Author, InboundMessage
from pilothouse.testing.desk import ScriptedDesk

pytestmark = pytest.mark.anyio

LATE_S = 4.0
TOKEN_S = 15 * 60.0
UNKNOWN_INTERACTION, ALREADY_ANSWERED = "Unknown Interaction", "already been acknowledged"


class HeldDesk(ScriptedDesk):
    """The runtime is slow: nothing is answered before it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.released = anyio.Event()

    @override
    async def accept(self, message: InboundMessage) -> Receipt:
        await self.released.wait()
        return await super().accept(message)

    @override
    async def command(
        self, address: Address, by: Author, line: str, native_id: str, *, sent_at: float = 0.0
    ) -> Receipt:
        await self.released.wait()
        return await super().command(address, by, line, native_id, sent_at=sent_at)

    @override
    async def query(self, what: str, by: Author, **terms: Any) -> Any:
        await self.released.wait()
        return await super().query(what, by, **terms)


def unanswered(house: House, why: str) -> list[str]:
    found = [str(fields["why"]) for fields in house.told("discord.interaction_unanswered")]
    return [one for one in found if why in one]


# Three seconds.


async def test_every_command_is_acknowledged_in_time_by_a_runtime_that_answers_nothing(
    inside: Inside, tmp_path: Path
) -> None:
    ada = inside.person("ada")
    desk = HeldDesk()
    async with open_adapter(inside, tmp_path, desk) as line:
        names = ada.available_commands(inside.general)
        assert {*names} == {"ask", *(command.name for command in MENU if "group" in command.menus)}
        done: dict[str, InteractionResult] = {}
        for name in names:
            given = {"text": "what is up?"} if name == "ask" else {}
            with inside.arriving_after(LOOK_S):  # as long as we may look before we say anything
                done[name] = result = await ada.slash(inside.general, name, **given)
            await line.until(lambda result=result: result.acknowledged)
            assert result.deferred
        assert (desk.commands, desk.accepted) == ([], [])
        await inside.env.advance_time(60)
        desk.released.set()
        await line.until(lambda: not any(result.deferred and result.response for result in done.values()))
        assert [message.text for message in desk.accepted] == ["what is up?"]
        assert {command.line for command in desk.commands} == {f"/{name}" for name in names} - {"/ask"}
        assert line.told("discord.interaction_unanswered") == []


async def test_a_form_and_suggestions_come_in_time_from_a_runtime_that_answers_nothing(
    inside: Inside, tmp_path: Path
) -> None:
    ada, bob = inside.person("ada"), inside.person("bob")
    async with open_adapter(inside, tmp_path, HeldDesk()) as line:
        post = await bob.send(inside.general, "the moon is made of cheese")
        with inside.arriving_after(LOOK_S):
            asked = await ada.context_menu(inside.general, "Ask about this", post)
        await line.until(lambda: asked.modal)
        with inside.arriving_after(LOOK_S):
            await ada.autocomplete(inside.general, "engine", "name", "")
        await line.until(lambda: inside.last.autocomplete_choices == [])
        with inside.arriving_after(LOOK_S):
            pressed = inside.forge(ada, post, f"a|ask-1|{'0' * 12}|w")
        await line.until(lambda: pressed.response and "Press again" in pressed.response.content)
        assert line.told("discord.interaction_unanswered") == []


async def test_a_question_that_is_acknowledged_too_late_is_asked_all_the_same(
    inside: Inside, tmp_path: Path
) -> None:
    ada = inside.person("ada")
    async with open_house(inside, tmp_path, {ada: "owner"}) as house:
        with inside.arriving_after(LATE_S):
            asked = await ada.slash(inside.general, "ask", text="what is up?")
        answer = await house.until_shown("you said:")
        assert answer.interaction_metadata is None
        await house.until_shown("Ada asked:\n> what is up?")
        assert (asked.acknowledged, asked.response) == (False, None)
        assert unanswered(house, UNKNOWN_INTERACTION)
        assert len(house.rig.engine.turns) == 1


async def test_a_command_and_a_press_that_are_acknowledged_too_late_still_count(
    inside: Inside, tmp_path: Path
) -> None:
    ada = inside.person("ada")
    heard: list[Decision] = []
    async with open_house(inside, tmp_path, {ada: "owner"}, asks(APPROVAL, heard)) as house:
        with inside.arriving_after(LATE_S):
            done = await ada.slash(inside.general, "status")
        await house.until_shown("Folder:")
        assert not done.acknowledged
        await house.build(ada)
        post = await house.until_asked("Run make?")
        with inside.arriving_after(LATE_S):
            pressed = await ada.click(post, label="Allow once")
        await house.until(lambda: heard)
        assert heard[0].verdict == "allow"
        await house.until_shown("Went on.")
        assert not pressed.acknowledged


async def test_a_form_that_came_too_late_opens_at_the_next_press(inside: Inside, tmp_path: Path) -> None:
    ada = inside.person("ada")
    heard: list[Decision] = []
    async with open_house(inside, tmp_path, {ada: "owner"}, asks(WORDS, heard)) as house:
        await house.build(ada)
        post = await house.until_asked("What name?")
        with inside.arriving_after(LATE_S):
            missed = await ada.click(post, label="Answer in words")
        await house.until(lambda: unanswered(house, UNKNOWN_INTERACTION))
        assert missed.modal is None
        shown = await ada.click(post, label="Answer in words")
        await house.until(lambda: shown.modal)
        await ada.submit_modal(shown, {"words": "Pinta"})
        await house.until(lambda: heard)
        assert heard[0].text == "Pinta"


async def test_a_command_waits_for_a_locked_store_acknowledged_and_is_done_once(
    inside: Inside, tmp_path: Path
) -> None:
    ada = inside.person("ada")
    async with open_house(inside, tmp_path, {ada: "owner"}) as house:
        house.rig.store.trouble = "database is locked"
        asked = await ada.slash(inside.general, "ask", text="what is up?")
        await house.until(lambda: house.told("discord.event_waits"))
        assert asked.deferred
        house.rig.store.trouble = ""
        await house.until_shown("you said:")
        await house.until(lambda: asked.response and asked.response.content == "> what is up?")
        assert len(house.rig.engine.turns) == 1
        assert unanswered(house, ALREADY_ANSWERED)


async def test_what_the_gateway_tells_twice_is_done_once(inside: Inside, tmp_path: Path) -> None:
    ada = inside.person("ada")
    async with open_house(inside, tmp_path, {ada: "owner"}) as house:
        with inside.telling_twice():
            asked = await ada.slash(inside.general, "ask", text="what is up?")
        await house.until_shown("you said:")
        await house.until(lambda: unanswered(house, ALREADY_ANSWERED))
        await house.until(lambda: not asked.deferred)
        await house.rig.until_idle()
        assert len(house.rig.engine.turns) == 1
        assert len(inside.shown()) == 2  # the question and its answer


# Fifteen minutes.


async def test_an_answer_after_a_quarter_of_an_hour_needs_no_token(inside: Inside, tmp_path: Path) -> None:
    ada = inside.person("ada")
    thought = anyio.Event()
    heard: list[Decision] = []

    async def play(strings: Strings) -> None:
        await strings.start()
        await thought.wait()
        heard.append(await strings.ask(APPROVAL))
        await strings.end("That took a while.")

    async with open_house(inside, tmp_path, {ada: "owner"}, play) as house:
        asked = await ada.slash(inside.general, "ask", text="think")
        await house.until(lambda: house.rig.engine.turns and not asked.deferred)
        await inside.env.advance_time(TOKEN_S)
        with pytest.raises(BackendError, match="10015"):
            inside.backend.interaction_by_token(inside.token_of(asked))
        before = len(inside.called("", "/webhooks/"))
        thought.set()
        await ada.click(await house.until_asked("Run make?"), label="Allow once")
        answer = await house.until_shown("That took a while.")
        assert answer.interaction_metadata is None
        assert heard[0].verdict == "allow"
        assert len(inside.called("", "/webhooks/")) == before
        assert house.told("discord.interaction_unanswered") == []
