"""The adapter inside simcord: what people press, choose, fill in and command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from simcord.actors import MemberActor
from tests.channels.discord.inside import Inside, keys, open_house
from tests.channels.discord.test_gateway import APPROVAL, COLOURS, QUESTION, WORDS, asks, slow
from tests.runtime.rig import only_alive

from pilothouse.core.ask import Decision

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("button", "verdict", "line"),
    [("Allow once", "allow", "Allowed by Ada: Run make?"), ("Deny", "deny", "Denied by Ada: Run make?")],
)
async def test_an_approval_is_given_or_refused_by_a_button(
    inside: Inside, tmp_path: Path, button: str, verdict: str, line: str
) -> None:
    ada = inside.person("ada")
    heard: list[Decision] = []
    async with open_house(inside, tmp_path, {ada: "owner"}, asks(APPROVAL, heard)) as house:
        await house.build(ada)
        post = await house.until_asked("Run make?")
        pressed = await ada.click(post, label=button)
        await house.until(lambda: heard)
        assert heard[0].verdict == verdict
        settled = await house.until(
            lambda: next((m for m in inside.shown() if line in m.content.replace("\\", "")), None)
        )
        assert (settled.id, keys(settled)) == (post.id, {})
        assert (pressed.deferred, pressed.followups) == (True, [])


async def test_a_press_of_somebody_who_may_not_is_answered_to_them_alone(
    inside: Inside, tmp_path: Path
) -> None:
    ada, bob, eve = inside.person("ada"), inside.person("bob"), inside.person("eve")
    heard: list[Decision] = []
    people: dict[MemberActor, Any] = {ada: "owner", bob: "member"}
    async with open_house(inside, tmp_path, people, asks(APPROVAL, heard)) as house:
        await house.build(ada)
        post = await house.until_asked("Run make?")
        for person, label in ((bob, "Allow once"), (eve, "Allow once"), (eve, "Deny and say why")):
            told = await house.until_whispered(await person.click(post, label=label))
            assert "may not" in told
            assert told in [m.content for m in inside.general.history(viewer=person)]
            assert told not in [m.content for m in inside.general.history(viewer=ada)]
        assert heard == []
        await ada.click(post, label="Allow once")
        await house.until(lambda: heard)


async def test_several_options_are_chosen_from_a_list(inside: Inside, tmp_path: Path) -> None:
    ada = inside.person("ada")
    heard: list[Decision] = []
    async with open_house(inside, tmp_path, {ada: "owner"}, asks(QUESTION, heard)) as house:
        await house.build(ada)
        post = await house.until_asked("Which colours?")
        await ada.select(post, [str(number) for number in range(len(COLOURS))])
        await house.until(lambda: heard)
        assert heard[0].options == ("r", "b")
        await house.until_shown("Answered by Ada: Red, Blue")


@pytest.mark.parametrize(
    ("ask", "label", "verdict"),
    [(WORDS, "Answer in words", "answer"), (APPROVAL, "Deny and say why", "deny")],
)
async def test_words_come_from_a_form(
    inside: Inside, tmp_path: Path, ask: Any, label: str, verdict: str
) -> None:
    ada = inside.person("ada")
    heard: list[Decision] = []
    async with open_house(inside, tmp_path, {ada: "owner"}, asks(ask, heard)) as house:
        await house.build(ada)
        shown = await ada.click(await house.until_asked(ask.title), label=label)
        await house.until(lambda: shown.modal)
        await ada.submit_modal(shown, {"words": "Pinta, not Niña"})
        await house.until(lambda: heard)
        assert (heard[0].verdict, heard[0].text) == (verdict, "Pinta, not Niña")


async def test_a_double_press_is_one_answer(inside: Inside, tmp_path: Path) -> None:
    ada = inside.person("ada")
    heard: list[Decision] = []
    async with open_house(inside, tmp_path, {ada: "owner"}, asks(APPROVAL, heard)) as house:
        await house.build(ada)
        post = await house.until_asked("Run make?")
        key = keys(post)["Allow once"]
        pressed = [inside.forge(ada, post, key), inside.forge(ada, post, key)]
        await house.until_shown("Went on.")
        await house.until(lambda: sum(len(one.followups) for one in pressed))
        told = [one.content for press in pressed for one in press.followups]
        assert told == ["Already answered by Ada: allowed."]
        assert len(heard) == 1


async def test_a_button_still_works_after_a_restart(inside: Inside, tmp_path: Path) -> None:
    ada = inside.person("ada")
    heard: list[Decision] = []
    async with open_house(inside, tmp_path, {ada: "owner"}, asks(APPROVAL, heard)) as house:
        await house.build(ada)
        post = await house.until_asked("Run make?")
        await house.rig.until(lambda tx: not tx.outbox.channels_waiting())
        house.rig.crash()
    alive = only_alive("nobody")
    async with open_house(inside, tmp_path, {ada: "owner"}, asks(APPROVAL, heard), alive=alive) as house:
        await house.until(lambda: sum("Allow once" in keys(m) for m in inside.shown()) == 2)
        pressed = await ada.click(post, label="Allow once")
        await house.until(lambda: heard)
        assert heard[0].verdict == "allow"
        assert pressed.deferred
        await house.until(lambda: not any("Allow once" in keys(m) for m in inside.shown()))


async def test_forged_keys_change_nothing(inside: Inside, tmp_path: Path) -> None:
    ada = inside.person("ada")
    heard: list[Decision] = []
    async with open_house(inside, tmp_path, {ada: "owner"}, asks(APPROVAL, heard)) as house:
        await house.build(ada)
        post = await house.until_asked("Run make?")
        real = keys(post)["Allow once"]
        _, ask_id, _, act = real.split("|")
        for key in (
            "x",
            f"a|{ask_id}|{'0' * 12}|{act}",
            f"a|{ask_id}|{'0' * 12}|w4",
            "a|ask-nope|000000000000|c0",
            f"{real}9",
            "s|turn-nope",
        ):
            told = await house.until_whispered(inside.forge(ada, post, key))
            assert told in ("This button is no longer valid.", "This has already ended.")
        assert heard == []
        assert "Allow once" in keys(await house.until_asked("Run make?"))
        await ada.click(post, label="Allow once")
        await house.until(lambda: heard)


async def test_a_turn_is_stopped_by_the_button_of_its_progress(inside: Inside, tmp_path: Path) -> None:
    ada, eve = inside.person("ada"), inside.person("eve")
    async with open_house(inside, tmp_path, {ada: "owner"}, slow, first_view_s=0.05) as house:
        await house.build(ada)
        progress = await house.until(lambda: next((m for m in inside.shown() if "Stop" in keys(m)), None))
        assert "may not" in await house.until_whispered(await eve.click(progress, label="Stop"))
        await ada.click(progress, label="Stop")
        await house.rig.until_ended(1, house.place)
        await house.until(lambda: progress.id not in [m.id for m in inside.shown()])


# Commands, suggestions and the context menu.


async def test_engines_models_and_sessions_are_suggested(inside: Inside, tmp_path: Path) -> None:
    ada, eve = inside.person("ada"), inside.person("eve")
    async with open_house(inside, tmp_path, {ada: "owner"}) as house:

        async def suggested(who: MemberActor, command: str, option: str, typed: str) -> list[str]:
            await who.autocomplete(inside.general, command, option, typed)
            result = inside.last
            await house.until(lambda: result.acknowledged)
            return [choice["value"] for choice in result.autocomplete_choices or ()]

        await ada.slash(inside.general, "ask", text="hello")
        await house.until_shown("you said:")
        assert await suggested(ada, "engine", "name", "pup") == ["puppet"]
        assert await suggested(ada, "engine", "name", "nothing like it") == []
        await ada.slash(inside.general, "model", name="m9")
        await house.until_shown("m9")
        assert await suggested(ada, "model", "name", "M") == ["m9"]
        (turn,) = await house.rig.turns(house.place)
        assert await suggested(ada, "resume", "id", "") == [turn.session_id]
        assert await suggested(eve, "resume", "id", "") == []


async def test_a_message_is_asked_about_in_a_form(inside: Inside, tmp_path: Path) -> None:
    ada, bob = inside.person("ada"), inside.person("bob")
    async with open_house(inside, tmp_path, {ada: "owner"}) as house:
        post = await bob.send(inside.general, "the moon is made of cheese")
        shown = await ada.context_menu(inside.general, "Ask about this", post)
        await house.until(lambda: shown.modal)
        asked = await ada.submit_modal(shown, {"words": "is this true?"})
        await house.until(lambda: house.rig.engine.turns)
        prompt = house.rig.engine.turns[0].prompt.text
        assert "is this true?" in prompt
        assert "made of cheese" in prompt
        await house.until(lambda: asked.response and asked.response.content == "> is this true?")


async def test_a_message_that_is_gone_cannot_be_asked_about(inside: Inside, tmp_path: Path) -> None:
    ada, bob = inside.person("ada"), inside.person("bob")
    async with open_house(inside, tmp_path, {ada: "owner"}) as house:
        post = await bob.send(inside.general, "the moon is made of cheese")
        shown = await ada.context_menu(inside.general, "Ask about this", post)
        await house.until(lambda: shown.modal)
        await bob.delete(post)
        asked = await ada.submit_modal(shown, {"words": "is this true?"})
        await house.until(lambda: asked.response and "cannot be read" in asked.response.content)
        assert house.rig.engine.turns == []


async def test_who_is_not_let_in_is_told_so_alone(inside: Inside, tmp_path: Path) -> None:
    ada, eve = inside.person("ada"), inside.person("eve")
    async with open_house(inside, tmp_path, {ada: "owner"}) as house:
        told = await house.until_whispered(await eve.slash(inside.general, "ask", text="let me in"))
        assert "may not talk to me" in told
        assert inside.shown() == []
        assert house.rig.engine.turns == []
