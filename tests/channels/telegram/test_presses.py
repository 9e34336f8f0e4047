"""Presses that come one upon the other count in the order in which they were made."""

from __future__ import annotations

from typing import Any, cast

import anyio
import pytest
from tests.channels.telegram.scenes import PARTS

from pilothouse.channels.presses import ENDED, NOT_YOURS, Act, ask_key, command_key, stop_key
from pilothouse.channels.telegram.accept import Presses
from pilothouse.channels.telegram.client import BotClient
from pilothouse.channels.telegram.payload import Look, unpack
from pilothouse.channels.telegram.receive import Pressed, Stopped
from pilothouse.channels.telegram.render import render
from pilothouse.channels.telegram.sender import Sender
from pilothouse.channels.telegram.wire import (
    Button,
    CallbackQuery,
    Chat,
    DraftStopped,
    Keyboard,
    Message,
    User,
)
from pilothouse.core.ask import AskRow
from pilothouse.core.channel import Desk, Receipt
from pilothouse.core.errors import StoreError
from pilothouse.core.ids import ChannelId, ConversationId, SessionId, TurnId, UserId
from pilothouse.core.message import Address, Author, CommandButton, Content, MessageRef
from pilothouse.testing.desk import ScriptedDesk

pytestmark = pytest.mark.anyio

ADA = Author(UserId("telegram:1"), "Ada")
CHAT = Address(ChannelId("telegram"), "1")
ROW = AskRow(PARTS, ConversationId("telegram:1"), SessionId("s"), TurnId("t"), "", "open", 0.0)


class LateDesk(ScriptedDesk):
    """Its first looks take longer than the last one: several threads read for it."""

    def __init__(self, late: int) -> None:
        super().__init__()
        self._late = late

    # pyrefly: ignore [missing-override-decorator]
    async def query(self, what: str, by: Author, **terms: Any) -> Any:
        self.queries.append(what)
        if len(self.queries) <= self._late:
            await anyio.wait_all_tasks_blocked()
        return ROW


class TornDesk(ScriptedDesk):
    """Takes an answer, and cannot be asked about it afterwards."""

    # pyrefly: ignore [missing-override-decorator]
    async def query(self, what: str, by: Author, **terms: Any) -> Any:
        if self.answers:
            raise StoreError("The store is torn.")
        return ROW


class Telegram:
    """Takes whatever is drawn, and every toast."""

    def __init__(self) -> None:
        self.toasts: list[str] = []
        self.drawn = 0
        self.logged: list[str] = []

    async def set_keyboard(self, *_: object) -> None:
        self.drawn += 1
        await anyio.wait_all_tasks_blocked()

    def log(self, event: str, **_: object) -> None:
        self.logged.append(event)

    async def answer_callback(self, _: str, text: str, *, alert: bool = False) -> bool:
        self.toasts.append(text)
        return True


def presses_at(desk: ScriptedDesk, telegram: Telegram) -> Presses:
    return Presses(cast("Desk", desk), cast("BotClient", telegram), cast("Sender", telegram), telegram.log)


def press(number: int, act: Act, index: int = 0) -> Pressed:
    query = CallbackQuery(str(number), User(1), Message(7, Chat(1)), ask_key(PARTS, act, index))
    return Pressed(query, ADA, CHAT)


async def test_a_box_that_was_ticked_before_done_counts_however_long_the_look_takes() -> None:
    desk, telegram = LateDesk(late=2), Telegram()
    presses = presses_at(desk, telegram)
    async with anyio.create_task_group() as tasks:
        for number, (act, index) in enumerate([("toggle", 0), ("toggle", 1), ("done", 0)]):
            tasks.start_soon(presses.pressed, press(number, cast("Act", act), index))
    assert [answer.decision.options for answer in desk.answers] == [("1", "2")]


async def test_an_answer_that_was_taken_is_never_said_not_to_be() -> None:
    """Whether its buttons must go nobody can tell now."""
    desk, telegram = TornDesk(), Telegram()
    await presses_at(desk, telegram).pressed(press(1, "choose"))
    assert (len(desk.answers), len(telegram.toasts)) == (1, 1)
    assert telegram.logged == ["telegram.buttons_stay"]


async def test_however_often_a_stop_that_is_over_is_pressed_its_button_goes_away_once() -> None:
    class Idle(ScriptedDesk):
        # pyrefly: ignore [missing-override-decorator]
        async def query(self, what: str, by: Author, **terms: Any) -> Any:
            return None

    key = stop_key(TurnId("t"))
    message = Message(7, Chat(1), reply_markup=Keyboard(((Button(key),),)))
    telegram = Telegram()
    presses = presses_at(Idle(), telegram)
    async with anyio.create_task_group() as tasks:
        for number in range(40):
            tasks.start_soon(
                presses.pressed, Pressed(CallbackQuery(str(number), User(1), message, key), ADA, CHAT)
            )
    assert (telegram.toasts, telegram.drawn) == ([ENDED] * 40, 1)


async def test_a_stop_of_no_draft_at_all_stops_nothing() -> None:
    desk, telegram = ScriptedDesk(), Telegram()
    await presses_at(desk, telegram).stopped(Stopped(DraftStopped(Chat(1), "seven")), CHAT)
    assert (desk.commands, desk.queries, telegram.logged) == ([], [], ["telegram.stop_unknown"])


async def test_a_button_runs_its_command_where_its_message_is() -> None:
    """Telegram names no topic for an old message; the desk knows it."""
    desk, telegram = ScriptedDesk(), Telegram()
    topic = Address(ChannelId("telegram"), "1", "5")
    desk.stands[MessageRef(CHAT, "7")] = topic
    query = CallbackQuery("q1", User(1), Message(7, Chat(1)), command_key("/engine claude"))
    await presses_at(desk, telegram).pressed(Pressed(query, ADA, CHAT))
    (command,) = desk.commands
    assert (command.address, command.by, command.line) == (topic, ADA, "/engine claude")
    assert (command.native_id, telegram.toasts) == ("press:q1", [""])


async def test_a_command_that_is_refused_says_so_in_the_toast() -> None:
    desk, telegram = ScriptedDesk(), Telegram()
    desk.receipts.append(Receipt("refused"))
    query = CallbackQuery("q1", User(1), Message(7, Chat(1)), command_key("/engine claude"))
    await presses_at(desk, telegram).pressed(Pressed(query, ADA, CHAT))
    assert telegram.toasts == [NOT_YOURS]


def test_a_list_has_a_button_for_every_command_that_fits_into_one() -> None:
    buttons = (CommandButton("claude", "/engine claude"), CommandButton("far", f"/bind {'x' * 70}"))
    (part,) = render(Content("Which?", "reply", buttons=buttons), Look())
    markup = unpack(part).reply_markup
    assert markup is not None
    shown = [(button.text, button.callback_data) for row in markup.inline_keyboard for button in row]
    assert shown == [("claude", "c|/engine claude")]
