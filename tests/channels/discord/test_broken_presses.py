"""A press, form or command that fails is reported to its person alone, who can press again."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from tests.channels.channel_rig import MENU
from tests.channels.discord.line import Line, open_line
from tests.channels.discord.server.people import Person
from tests.channels.discord.server.running import Server
from tests.channels.discord.server.world import Answer
from typing_extensions import override

from pilothouse.channels.intake_queue import NOT_TAKEN
from pilothouse.channels.presses import ENDED, NOT_YOURS, UNKNOWN, ask_key, command_key, stop_key
from pilothouse.core.ask import Ask, AskRow, hash_payload
from pilothouse.core.channel import Receipt
from pilothouse.core.errors import StoreError, StoreUnavailable
from pilothouse.core.ids import AskId, ConversationId, SessionId, TurnId
from pilothouse.core.message import Author
from pilothouse.testing.clock import FakeClock
from pilothouse.testing.desk import ScriptedDesk

pytestmark = pytest.mark.anyio

ASK = Ask(AskId("ask-1"), "approval", "Run it?", {}, hash_payload({}))


class Fragile(ScriptedDesk):
    """Breaks when it is asked, as it is told; then there is nothing to find."""

    def __init__(self, *failures: Exception) -> None:
        super().__init__()
        self.failures = [*failures]

    @override
    async def query(self, what: str, by: Author, **terms: Any) -> Any:
        if self.failures:
            raise self.failures.pop(0)
        return None if what in ("live_turn", "ask") else await super().query(what, by, **terms)


class Torn(ScriptedDesk):
    """Takes an answer, and cannot be asked about it afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.found: AskRow | None = AskRow(
            ASK, ConversationId("discord:1"), SessionId("s"), TurnId("t"), "", "open", 0.0
        )

    @override
    async def query(self, what: str, by: Author, **terms: Any) -> Any:
        found, self.found = self.found, None
        if found is None:
            raise StoreError("The store is torn.")
        return found


async def press(server: Server, line: Line, who: Person, key: str) -> Answer:
    if not server.world.shown(server.world.general):
        await line.send(server.world.general, "hello")
    (post,) = server.world.shown(server.world.general)
    return who.forge(post, key)


async def until_whispered(line: Line, answer: Answer) -> str:
    """All that only this person reads, once there is any."""

    def told() -> list[str]:
        own = [answer.text] if answer.kind == "message" and answer.ephemeral else []
        return [*own, *(post.text for post in answer.followups if post.ephemeral)]

    await line.until(told)
    return "\n".join(told())


@pytest.mark.parametrize("error", [ValueError("oh"), StoreError("oh")])
@pytest.mark.parametrize(
    ("key", "otherwise"),
    [
        (stop_key(TurnId("turn-1")), ENDED),
        (ask_key(ASK, "choose", 0), UNKNOWN),
        (ask_key(ASK, "words", 1), UNKNOWN),
    ],
)
async def test_a_press_that_breaks_is_answered_and_may_be_repeated(
    server: Server, tmp_path: Path, key: str, otherwise: str, error: Exception
) -> None:
    """Two are acknowledged before they break; nothing may come before the form that the third opens."""
    if key.endswith("w1") and isinstance(error, StoreError):
        error = RuntimeError("oh")  # a store that does not work is waited for there, for a moment
    ada = server.person("ada")
    async with open_line(server, tmp_path, desk=Fragile(error)) as line:
        assert await until_whispered(line, await press(server, line, ada, key)) == NOT_TAKEN
        await line.until(lambda: line.told("discord.event_failed"))
        assert await until_whispered(line, await press(server, line, ada, key)) == otherwise
        await line.rest()
    assert [fields["error"] for fields in line.told("discord.event_failed")] == [error]
    assert not (tmp_path / "failed-events.jsonl").exists()


async def test_a_press_that_waits_for_the_store_and_then_breaks_is_answered(
    server: Server, tmp_path: Path
) -> None:
    ada, clock = server.person("ada"), FakeClock()
    desk = Fragile(StoreUnavailable("locked"), ValueError("oh"))
    async with open_line(server, tmp_path, clock=clock, desk=desk) as line:
        pressed = await press(server, line, ada, stop_key(TurnId("turn-1")))
        await line.until(lambda: line.told("discord.event_waits"))
        assert pressed.followups == []
        await clock.advance(2)
        assert await until_whispered(line, pressed) == NOT_TAKEN


async def test_what_cannot_be_read_is_answered(server: Server, tmp_path: Path) -> None:
    ada = server.person("ada")
    async with open_line(server, tmp_path) as line:
        pressed = await press(server, line, ada, cast("str", None))
        assert await until_whispered(line, pressed) == NOT_TAKEN
        assert line.told("discord.interaction_unreadable")


async def test_suggestions_that_break_are_none(server: Server, tmp_path: Path) -> None:
    ada = server.person("ada")
    async with open_line(server, tmp_path, menu=MENU, desk=Fragile(ValueError("oh"))) as line:
        await line.until(lambda: line.told("discord.commands_registered"))
        typed = ada.type_option("engine", "name", "cl")
        await line.until(lambda: typed.kind)
        assert (typed.kind, typed.choices) == ("autocomplete", [])


async def test_an_answer_that_was_taken_is_never_said_not_to_be(server: Server, tmp_path: Path) -> None:
    ada, desk = server.person("ada"), Torn()
    async with open_line(server, tmp_path, desk=desk) as line:
        pressed = await press(server, line, ada, ask_key(ASK, "choose", 0))
        await line.until(lambda: line.told("discord.buttons_stay"))
        await line.rest()
        assert (len(desk.answers), pressed.followups) == (1, [])
        assert line.told("discord.event_failed") == []


async def test_a_button_runs_its_command_and_a_refusal_is_whispered(server: Server, tmp_path: Path) -> None:
    ada, key = server.person("ada"), command_key("/engine claude")
    assert key is not None
    async with open_line(server, tmp_path) as line:
        await press(server, line, ada, key)
        await line.until(lambda: line.desk.commands)
        assert [command.line for command in line.desk.commands] == ["/engine claude"]
        line.desk.receipts.append(Receipt("refused"))
        assert await until_whispered(line, await press(server, line, ada, key)) == NOT_YOURS
