"""A text that an app cut into messages is joined: whole and once, also after a kill."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from itertools import combinations_with_replacement, count
from pathlib import Path

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.channels.channel_rig import MENU
from tests.channels.telegram.apps import APPS, pieces, units
from tests.channels.telegram.receiving_house import KeptBlobs
from tests.runtime.rig import Rig, open_rig

from pilothouse.channels.telegram.accept import Acceptor
from pilothouse.channels.telegram.client import open_client
from pilothouse.channels.telegram.config import Endpoint
from pilothouse.channels.telegram.content import TELEGRAM, bot_with
from pilothouse.channels.telegram.pieces import QUIET_S, SeenUpdate, gather, place_of
from pilothouse.channels.telegram.receive import Happening, Said, translate
from pilothouse.channels.telegram.wire import Chat, Entity, Me, Message, Update, User
from pilothouse.core.ids import UserId
from pilothouse.core.message import Address, InboundMessage, conversation_id, inbox_key, pieces_of
from pilothouse.core.people import People
from pilothouse.core.secret import Secret
from pilothouse.core.store import Tx
from pilothouse.core.trigger import Trigger
from pilothouse.runtime.ports import SystemClock

BOT = bot_with(Me(4_242_424, is_bot=True, first_name="Pilot", username="pilot_test_bot"), MENU)
ADA = User(7, first_name="Ada")
NAME = "@pilot_test_bot"
numbers = count(1)


def update(text: str, chat: int = 7, at: int = 100) -> Update:
    number = next(numbers)
    named = (Entity("mention", 0, len(NAME)),) if text.startswith(NAME) else ()
    kind = "private" if chat > 0 else "supergroup"
    return Update(number, Message(number, Chat(chat, kind), at, ADA, text=text, entities=named))


def said(updates: Sequence[Update]) -> InboundMessage:
    happening = translate(updates, BOT, Trigger())
    assert isinstance(happening, Said), happening
    return happening.message


def bare(text: str) -> str:
    return "".join(text.split())


words = st.text(st.sampled_from("abcXYZ019😀é,;/"), min_size=1, max_size=40)
gaps = st.sampled_from([" ", " ", " ", "\n", "\n\n", ". ", ".\n", "."])


def repeat(parts: list[tuple[str, str]], times: int) -> str:
    return "".join(word + gap for word, gap in parts) * times


texts = st.builds(repeat, st.lists(st.tuples(words, gaps), min_size=3, max_size=60), st.integers(2, 12))
seen_after = st.lists(st.floats(0, QUIET_S), min_size=60, max_size=60)


@given(texts, st.sampled_from(sorted(APPS)), seen_after)
def test_a_text_that_any_app_cut_is_one_message_with_all_its_words(
    text: str, app: str, after: list[float]
) -> None:
    cut = pieces(text, APPS[app])
    # An odd text on iOS, whose lines are long and whose pieces are short, is told in several.
    assume(all(units(piece) >= 2048 for piece in cut[:-1]))
    updates = [update(piece) for piece in cut]
    bits = [SeenUpdate(one, at) for one, at in zip(updates, after, strict=False)]
    (group,) = gather(bits, QUIET_S * 3).ready
    assert group == tuple(updates)
    message = said(group)
    assert bare(message.text) == bare(text)
    known = [piece.native_id for piece in pieces_of(message)]
    assert known == [str(one.update_id) for one in updates]


@pytest.mark.parametrize("app", APPS)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("QUJD" * 3000, id="base64"),
        pytest.param("{" + ",".join(f'"key{n}":{n}' for n in range(1500)) + "}", id="json"),
        pytest.param("word " * 2000 + "end", id="words"),
        pytest.param("\n".join(f"/usr/lib/module_{n}/file" for n in range(600)), id="paths"),
        pytest.param("\n".join(f"/usr/lib/module_{n}.py" for n in range(600)), id="files"),
        pytest.param("😀" * 5000, id="emoji"),
    ],
)
def test_what_the_apps_cut_is_as_it_was(app: str, text: str) -> None:
    assert said([update(piece) for piece in pieces(text, APPS[app])]).text == text


class House:
    def __init__(self, rig: Rig, make: Callable[[], Acceptor]) -> None:
        self.rig = rig
        self._make = make
        self.acceptor = make()

    def restart(self) -> None:
        """All that is in memory is gone."""
        self.acceptor = self._make()

    async def handle(self, updates: Sequence[Update]) -> None:
        await self.acceptor.handle(tuple(updates), place_of(updates[0]), nullcontext)

    async def found(self, updates: Sequence[Update]) -> list[str]:
        """What the inbox has of all of them, row by row."""
        address = place_of(updates[0])
        assert address is not None
        place = conversation_id(address)

        def unit(tx: Tx) -> list[str]:
            rows = {}
            for one in updates:
                row = tx.inbox.by_key(inbox_key(place, str(one.update_id)))
                assert row is not None, "each piece is durable under its own key"
                if row.kind != "piece":
                    rows[row.seq] = msgspec.json.decode(row.body, type=InboundMessage).whole_text
            return [rows[seq] for seq in sorted(rows)]

        return await self.rig.store.read(unit)


@asynccontextmanager
async def open_house(folder: Path) -> AsyncIterator[House]:
    people = People({UserId("telegram:7"): "owner"})

    async def trigger_of(address: Address) -> Trigger:
        return Trigger()

    async def tell(address: Address, text: str, reply_to: str) -> None: ...

    async def other(happening: Happening) -> None: ...

    def log(event: str, **fields: object) -> None: ...

    endpoint = Endpoint(Secret("1:a"), "http://127.0.0.1:9")
    async with open_rig(folder, max_turns_at_once=0, people=people) as rig, open_client(endpoint) as client:
        yield House(
            rig,
            lambda: Acceptor(
                rig.gateway.desk,
                client,
                KeptBlobs(),
                BOT,
                SystemClock(),
                trigger_of=trigger_of,
                tell=tell,
                others=other,
                log=log,
            ),
        )


TEXTS = [f"{NAME} {'a' * 4080}", "/stop b" + "b" * 4089, "/new c" + "c" * 4090, "/status"]


@pytest.mark.parametrize("chat", [7, -5])
async def test_with_any_kill_a_paste_is_whole_and_once(tmp_path: Path, chat: int) -> None:
    """Some pieces were taken before a kill. After it, everything from one of them on is brought again at once."""
    async with open_house(tmp_path) as house:
        for case, (again, last) in enumerate(combinations_with_replacement(range(len(TEXTS)), 2), 1):
            updates = [update(text, chat * 1000 * case) for text in TEXTS]
            await house.handle(updates[: last + 1])
            house.restart()
            await house.handle(updates[again:])
            found = await house.found(updates)
            assert "".join(found) == "".join(TEXTS), (again, last)
            assert len(found) == (1 if updates[last] is updates[-1] else 2), (again, last)


async def test_our_name_in_any_piece_calls_for_all_of_them(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        updates = [update("a" * 4096, -9), update("b" * 4096, -9), update(f"{NAME} what is this?", -9)]
        await house.handle(updates)
        (text,) = await house.found(updates)
        assert text == "a" * 4096 + "b" * 4096 + f"{NAME} what is this?"


async def test_a_piece_that_comes_later_is_a_message_of_its_own(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        updates = [update("a" * 4096), update("b" * 4096), update("the end")]
        await house.handle(updates[:2])
        await house.handle(updates[2:])
        assert await house.found(updates) == ["a" * 4096 + "b" * 4096, "the end"]


async def test_what_is_no_piece_of_anything_for_us_is_still_passed_over(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        named, other = update(f"{NAME} hi", -9), update("not for you", -9)
        await house.handle([named])
        await house.handle([other])
        assert await house.found([named]) == [f"{NAME} hi"]
        key = inbox_key(conversation_id(Address(TELEGRAM, "-9")), str(other.update_id))
        assert await house.rig.store.read(lambda tx: tx.inbox.by_key(key)) is None
