"""A message that came in pieces is whole, and once: also when its pieces come again, or are edited."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from tests.runtime.puppet import PuppetEngine
from tests.runtime.rig import MAIN, Rig, open_rig
from tests.runtime.test_busy import waiting_for

from pilothouse.channels.memory import PERSON
from pilothouse.core.channel import Receipt
from pilothouse.core.message import Author, InboundMessage, MessageDeleted, MessageEdited, Piece, made_of
from pilothouse.core.store import Tx

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
        assert more.state == "queued" and more.message_id != first.message_id
        assert " ".join(await waiting(rig)) == "a b c"
        assert (await accept(rig, *"abc")).state == "duplicate"


async def test_the_rest_of_a_command_that_was_carried_out_is_no_command_either(tmp_path: Path) -> None:
    async with open_rig(tmp_path, **HELD) as rig:
        done = await accept(rig, "/status now")
        assert (await rig.inbox_row(done)).status == "done"
        assert (await accept(rig, "/status now", "/new one")).state == "queued"
        assert await waiting(rig) == ["/new one"]
        both = await accept(rig, "/status", "and more", first=8)
        assert (await rig.inbox_row(both)).kind == "command"
        assert (await accept(rig, "and more", first=9)).state == "duplicate"


async def test_what_stands_behind_new_is_a_message_in_pieces_without_it(tmp_path: Path) -> None:
    async with open_rig(tmp_path, **HELD) as rig:
        await accept(rig, "/new paint", "it", "red")
        assert await waiting(rig) == ["paint it red"]


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
