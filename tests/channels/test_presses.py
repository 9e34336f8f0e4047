"""A press acts on what the desk knows, and the person is told why it does not."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.channels.telegram.scenes import PARTS

from pilothouse.channels.presses import (
    CHOOSE,
    ENDED,
    NOT_YOURS,
    NOT_YOURS_TO_STOP,
    SAY_IT,
    UNKNOWN,
    Act,
    AskPress,
    ButtonDesk,
    CommandPress,
    ask_key,
    command_key,
    parse_key,
)
from pilothouse.core.ask import AskRow
from pilothouse.core.channel import Receipt
from pilothouse.core.errors import PilothouseError, StoreError
from pilothouse.core.ids import ChannelId, ConversationId, SessionId, TurnId, UserId
from pilothouse.core.message import Address, Author
from pilothouse.testing.desk import ScriptedDesk

pytestmark = pytest.mark.anyio

ADA = Author(UserId("test:1"), "Ada")
CHAT = Address(ChannelId("test"), "1")
ROW = AskRow(PARTS, ConversationId("test:1"), SessionId("s"), TurnId("t"), "", "open", 0.0)


class FixedDesk(ScriptedDesk):
    """Gives the same result, or error, for every query."""

    def __init__(self, found: object) -> None:
        super().__init__()
        self._found = found

    # pyrefly: ignore [missing-override-decorator]
    async def query(self, what: str, by: Author, **terms: Any) -> Any:
        if isinstance(self._found, Exception):
            raise self._found
        return self._found


def buttons(desk: ScriptedDesk) -> ButtonDesk:
    def log(event: str, **fields: object) -> None:
        pass

    return ButtonDesk(desk, "test", log)


def press(act: Act) -> AskPress:
    found = parse_key(ask_key(PARTS, act, 50))
    assert isinstance(found, AskPress)
    return found


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (ROW, ROW),
        (None, UNKNOWN),
        (replace(ROW, ask=replace(PARTS, payload_hash="f" * 64)), UNKNOWN),
        (PilothouseError("test:1 may not look at this."), NOT_YOURS),
    ],
)
async def test_a_press_finds_exactly_its_ask(found: object, expected: object) -> None:
    desk = FixedDesk(found)
    assert await buttons(desk).ask(press("choose"), ADA) == expected
    assert len(desk.answers) == (0 if found is ROW else 1), "the desk refuses and audits it"


@pytest.mark.parametrize(
    ("act", "state", "told"),
    [
        ("choose", "open", UNKNOWN),
        ("done", "open", CHOOSE),
        ("pick", "answered", ENDED),
        ("words", "open", SAY_IT),
    ],
)
async def test_a_press_that_decides_nothing_answers_nothing(act: Act, state: Any, told: str) -> None:
    desk = FixedDesk(ROW)
    assert await buttons(desk).answer(replace(ROW, state=state), press(act), ADA) == told
    assert all(answer.payload_hash == press(act).hash for answer in desk.answers), (
        "refused: no ask has such a hash"
    )


@pytest.mark.parametrize(
    ("found", "told"), [(None, ENDED), (PilothouseError("test:1 may not look at this."), NOT_YOURS_TO_STOP)]
)
async def test_a_stop_that_does_not_count_says_why(found: object, told: str) -> None:
    assert await buttons(FixedDesk(found)).press_stop(CHAT, ADA, TurnId("t")) == told


async def test_a_press_that_the_store_could_not_look_up_is_raised() -> None:
    desk = buttons(FixedDesk(StoreError("locked")))
    with pytest.raises(StoreError):
        await desk.ask(press("choose"), ADA)
    with pytest.raises(StoreError):
        await desk.press_stop(CHAT, ADA, None)


@pytest.mark.parametrize("line", ["/retry", "/resume session-3f9k2a7c1d5e", "/bind päckchen mit leerzeichen"])
def test_a_command_key_names_its_command(line: str) -> None:
    key = command_key(line)
    assert key is not None
    assert parse_key(key) == CommandPress(line)
    assert parse_key("c|", [line]) == CommandPress(line)


@pytest.mark.parametrize("line", ["hello", "", "/", "/bind a\nb", f"/bind {'x' * 60}"])
def test_what_is_no_short_command_gets_no_key(line: str) -> None:
    assert command_key(line) is None


@pytest.mark.parametrize(
    ("key", "picked"), [("c|", []), ("c|hello", []), ("c|", ["/a", "/b"]), ("c|", ["rm"])]
)
def test_a_key_without_a_command_is_none_of_ours(key: str, picked: list[str]) -> None:
    assert parse_key(key, picked) is None


async def test_a_refused_command_is_told_to_the_person_who_pressed() -> None:
    desk = ScriptedDesk()
    desk.receipts += [Receipt("refused"), Receipt("refused", text="Slower."), Receipt("queued")]
    told = [await buttons(desk).run(CHAT, ADA, "/retry", str(number)) for number in range(3)]
    assert told == [NOT_YOURS, "Slower.", ""]
