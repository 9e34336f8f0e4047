"""A message that comes in pieces is one, whole and once: whatever comes again, comes late, is edited or is not done yet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from tests.runtime.puppet import PuppetEngine, Strings, echo
from tests.runtime.rig import MAIN, MEMBER, Rig, open_rig
from tests.runtime.test_busy import prompts, waiting_for
from tests.runtime.test_continuing import lines, say_and_end, tell_token

from pilothouse.channels.memory import PERSON
from pilothouse.core.channel import Receipt
from pilothouse.core.message import (
    THE_REST,
    Author,
    InboundMessage,
    MessageDeleted,
    MessageEdited,
    Piece,
    made_of,
)
from pilothouse.core.store import Tx
from pilothouse.testing.clock import FakeClock

HELD: dict[str, Any] = {"max_turns_at_once": 0}
"""Nothing begins."""


def message(rig: Rig, *texts: str, first: int = 1, author: Author = PERSON, **fields: Any) -> InboundMessage:
    """Pieces `first`, `first + 1`, …, of which each says one text."""
    pieces = [Piece(f"n{first + n}", text, " " if n or first > 1 else "") for n, text in enumerate(texts)]
    empty = InboundMessage(rig.channel.address(), author, f"n{first}", "", private=True, **fields)
    return made_of(empty, pieces)


async def accept(rig: Rig, *texts: str, **fields: Any) -> Receipt:
    return await rig.gateway.desk.accept(message(rig, *texts, **fields))


async def edit(rig: Rig, number: int, text: str) -> Receipt:
    return await rig.gateway.desk.edited(MessageEdited(rig.channel.address(), PERSON, f"n{number}", text))


async def waiting(rig: Rig) -> list[str]:
    def unit(tx: Tx) -> list[str]:
        rows = tx.inbox.waiting(MAIN)
        return [msgspec.json.decode(row.body, type=InboundMessage).whole_text for row in rows]

    return await rig.store.read(unit)


async def test_a_repeat_of_any_piece_is_known(tmp_path: Path) -> None:
    async with open_rig(tmp_path, **HELD) as rig:
        whole = await accept(rig, "a", "b", "c")
        for number in (1, 2, 3):
            again = await accept(rig, "?", first=number)
            assert again == Receipt("duplicate", whole.message_id)
        assert await accept(rig, "b", "c", first=2) == Receipt("duplicate", whole.message_id)
        assert await waiting(rig) == ["a b c"]


@pytest.mark.parametrize("taken", [1, 2])
async def test_what_comes_again_with_more_brings_only_the_rest(tmp_path: Path, taken: int) -> None:
    async with open_rig(tmp_path, **HELD) as rig:
        first = await accept(rig, *"abc"[:taken])
        more = await accept(rig, *"abc")
        assert more == Receipt("queued", first.message_id)
        assert await waiting(rig) == ["a b c"]
        assert (await accept(rig, *"abc")).state == "duplicate"


async def test_the_rest_of_what_has_begun_is_a_message_that_says_so_and_no_command(tmp_path: Path) -> None:
    go = anyio.Event()
    async with open_rig(tmp_path, PuppetEngine(waiting_for(go), echo)) as rig:
        await accept(rig, "a")
        await rig.until_live()
        late = await accept(rig, "/stop it", first=2, rest_of="n1")
        assert late.state == "queued"
        assert await accept(rig, "c", first=3, rest_of="n2") == Receipt("queued", late.message_id)
        go.set()
        assert (await prompts(rig, 2))[1] == f"{THE_REST}\n\n/stop it c"
        ended = await rig.until_ended(2)
        assert [turn.status for turn in ended] == ["done", "done"]


async def test_the_rest_of_a_command_that_was_carried_out_is_no_command_either(tmp_path: Path) -> None:
    async with open_rig(tmp_path, **HELD) as rig:
        done = await accept(rig, "/status now")
        assert (await rig.inbox_row(done)).status == "done"
        assert (await accept(rig, "/status now", "/new one")).state == "queued"
        assert await waiting(rig) == [f"{THE_REST}\n\n/new one"]
        both = await accept(rig, "/status", "and more", first=8)
        assert (await rig.inbox_row(both)).kind == "command"
        assert (await accept(rig, "and more", first=9)).state == "duplicate"


async def test_what_stands_behind_new_is_a_message_in_pieces_without_it(tmp_path: Path) -> None:
    async with open_rig(tmp_path, **HELD) as rig:
        await accept(rig, "/new paint", "it")
        await accept(rig, "red", first=3, rest_of="n2")
        assert await waiting(rig) == ["paint it red"]


async def test_the_rest_is_put_to_nobody_elses_message(tmp_path: Path) -> None:
    async with open_rig(tmp_path, **HELD) as rig:
        await accept(rig, "a")
        await accept(rig, "b", first=2, author=MEMBER, rest_of="n1")
        assert await waiting(rig) == ["a", f"{THE_REST}\n\nb"]


async def test_too_much_for_one_prompt_is_two_messages(tmp_path: Path) -> None:
    async with open_rig(tmp_path, max_message_chars=60, **HELD) as rig:
        await accept(rig, "a" * 40)
        await accept(rig, "b" * 20, first=2, rest_of="n1")
        assert await waiting(rig) == ["a" * 40, f"{THE_REST}\n\n{'b' * 20}"]


async def test_an_edit_changes_one_piece_and_keeps_the_others(tmp_path: Path) -> None:
    async with open_rig(tmp_path, **HELD) as rig:
        whole = await accept(rig, "a", "b", "c")
        for number, text in ((1, "A"), (3, "C"), (2, "/stop")):
            assert (await edit(rig, number, text)).text.startswith("Changed")
        assert await waiting(rig) == ["A /stop C"]
        assert await edit(rig, 3, "C") == Receipt("duplicate", whole.message_id)
        assert (await edit(rig, 1, "/stop")).state == "refused"
        deleted = await rig.gateway.desk.deleted(MessageDeleted(rig.channel.address(), PERSON, "n2"))
        assert (deleted.state, await waiting(rig)) == ("queued", ["A C"])


async def test_an_edit_of_a_later_piece_of_what_runs_is_refused_aloud(tmp_path: Path) -> None:
    go = anyio.Event()
    async with open_rig(tmp_path, PuppetEngine(waiting_for(go))) as rig:
        await accept(rig, "a", "b")
        await rig.until_live()
        assert "runs already" in (await edit(rig, 2, "B")).text
        go.set()
        await rig.until_ended()


async def test_the_session_that_a_message_is_for_stays_when_its_rest_comes(tmp_path: Path) -> None:
    go = anyio.Event()
    async with open_rig(tmp_path, PuppetEngine(tell_token, waiting_for(go), echo), **lines()) as rig:
        await say_and_end(rig, "one", 1)
        (first,) = await rig.turns()
        await rig.channel.say("/new")
        await rig.channel.say("two")
        second = await rig.until_live()
        assert second.session_id != first.session_id
        await accept(rig, "go on\npuppet resume token-one")
        await accept(rig, "with this", first=2, rest_of="n1")
        assert await waiting(rig) == ["go on with this"]
        go.set()
        ended = await rig.until_ended(3)
        assert ended[2].session_id == first.session_id


async def test_nothing_begins_before_its_sender_is_done(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_rig(tmp_path, PuppetEngine(echo), clock=clock) as rig:
        first = await accept(rig, "a", linger_s=1.0)
        await clock.advance(0.9)
        await accept(rig, "b", first=2, rest_of="n1", linger_s=1.0)
        assert (await rig.inbox_row(first)).ready_at == pytest.approx(clock.now() + 1)
        await clock.advance(0.9)
        assert (await rig.inbox_row(first)).status == "queued"
        await clock.advance(0.2)
        rig.poke()
        assert await prompts(rig, 1) == ["a b"]
        await rig.until_ended()


async def test_something_else_that_is_said_overtakes_nothing(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(echo, echo), clock=FakeClock()) as rig:
        await accept(rig, "a", linger_s=5.0)
        await accept(rig, "b", first=5)
        await rig.until_ended()
        assert "a" in rig.engine.turns[0].prompt.text
        await rig.until_true(lambda: "b" in rig.engine.turns[-1].prompt.text)
        await rig.until_idle()


async def test_a_stop_takes_back_what_has_not_begun(tmp_path: Path) -> None:
    async with open_rig(tmp_path, clock=FakeClock()) as rig:
        first = await accept(rig, "a", linger_s=5.0)
        await rig.channel.say("/stop")
        await rig.until_true(lambda: "Stopped before it began." in rig.said())
        assert (await rig.inbox_row(first)).status == "withdrawn"


async def test_the_rest_of_what_is_steered_into_a_turn_is_steered_too(tmp_path: Path) -> None:
    go = anyio.Event()

    async def play(strings: Strings) -> None:
        await strings.start()
        await go.wait()
        await strings.end("done")

    async with open_rig(tmp_path, PuppetEngine(play), busy="steer") as rig:
        await accept(rig, "work")
        await rig.until_true(lambda: rig.engine.turns)
        await accept(rig, "a", first=5)
        await accept(rig, "b", first=6, rest_of="n5")
        steered = rig.engine.turns[0].steered
        await rig.until_true(lambda: len(steered) == 2)
        assert steered == ["a", f"{THE_REST}\n\nb"]
        go.set()
        await rig.until_ended()


async def test_the_desk_remembers_what_may_still_grow(tmp_path: Path) -> None:
    async with open_rig(tmp_path, **HELD) as rig:
        address, desk = rig.channel.address(), rig.gateway.desk
        for number in range(1, 7):
            await accept(rig, "x", first=number * 10, growth=f"note {number}")
        await accept(rig, "y", first=61, rest_of="n60", growth="note 6, longer")
        assert await desk.growing(address, PERSON) == ("note 6, longer", "note 5", "note 4", "note 3")
        assert await desk.growing(rig.channel.address("elsewhere"), PERSON) == ()
