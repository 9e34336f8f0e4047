"""Pieces that come after a kill, forwards that come after their comment, and edits of single pieces: over a whole gateway."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.channels.telegram.gateway_house import GatewayHouse, config_for, open_gateway
from tests.channels.telegram.server.people import Person
from tests.channels.telegram.server.running import Server
from tests.runtime.puppet import echo, until_interrupted
from tests.runtime.rig import only_alive

from pilothouse.core.ids import ConversationId
from pilothouse.core.message import InboundMessage

TEXT = "word " * 1200 + "THE-END"
PICTURES = [b"one", b"two", b"three"]


def send(ada: Person, what: str) -> list[Any]:
    """All but its first piece stay on the way: they come when they are put to `pending`."""
    world = ada.world
    before = len(world.pending)
    if what == "paste":
        ada.paste(TEXT)
    else:
        ada.album(PICTURES, "look")
    sent = world.pending[before:]
    world.pending[before:] = sent[:1]
    return sent[1:]


def check_whole(what: str, house: GatewayHouse) -> None:
    prompts = [turn.prompt for turn in house.rig.engine.turns]
    text = " ".join(prompt.text for prompt in prompts)
    if what == "paste":
        assert (text.count("word"), text.count("THE-END")) == (1200, 1)
    else:
        assert sum(len(prompt.attachments) for prompt in prompts) == 3


def until_all(what: str, house: GatewayHouse) -> Any:
    def all_there() -> bool:
        prompts = [turn.prompt for turn in house.rig.engine.turns]
        if what == "paste":
            return any("THE-END" in prompt.text for prompt in prompts)
        return sum(len(prompt.attachments) for prompt in prompts) >= 3

    return house.until(all_there)


@pytest.mark.parametrize("what", ["paste", "album"])
async def test_a_kill_before_the_confirmation_costs_no_piece(
    server: Server, tmp_path: Path, what: str
) -> None:
    ada = server.person("Ada")
    rest = send(ada, what)
    first = list(server.world.pending)
    async with open_gateway(server, tmp_path, {ada: "owner"}) as house:
        await house.until_shown(ada.id, "you said")
        await house.rig.until_idle()
        house.rig.crash()
        turns = list(house.rig.engine.turns)
    server.world.pending = [*first, *rest]
    async with open_gateway(server, tmp_path, {ada: "owner"}, alive=only_alive("nobody")) as house:
        house.rig.engine.turns[:0] = turns
        await until_all(what, house)
        await house.rig.until_idle()
        check_whole(what, house)


@pytest.mark.parametrize("which", [0, 1])
async def test_an_edit_of_one_piece_keeps_the_others(server: Server, tmp_path: Path, which: int) -> None:
    ada = server.person("Ada")
    place = ConversationId(f"telegram:{ada.id}")
    async with open_gateway(server, tmp_path, {ada: "owner"}, until_interrupted, echo) as house:
        ada.say("first")
        await house.rig.until_live(place, "running")
        posts = ada.paste(TEXT)
        await house.until_shown(ada.id, "still busy")
        ada.edit(posts[which], posts[which].message["text"].replace("word ", "WORD ", 1))
        await house.until_shown(ada.id, "Changed")
        (row,) = await house.rig.store.read(lambda tx: tx.inbox.waiting(place))
        text = msgspec.json.decode(row.body, type=InboundMessage).text
        assert (text.count("word"), text.count("WORD"), text.count("THE-END")) == (1199, 1, 1)
        ada.say("/stop")
        await house.until(lambda: len(house.rig.engine.turns) == 2)
        await house.rig.until_idle()


async def test_forwards_that_come_with_their_comment_are_one_message_with_it(
    server: Server, tmp_path: Path
) -> None:
    ada, bob = server.person("Ada"), server.person("Bob")
    config = config_for(server, forward_wait_s=5.0)
    async with open_gateway(server, tmp_path, {ada: "owner"}, echo, echo, config=config) as house:
        ada.say("Summarise these")
        for number in (1, 2):
            ada.say(f"news {number}", forwarded_from=bob)
        await house.until(lambda: not server.world.pending)
        ada.say("/status")  # so that nobody waits any longer
        (turn,) = await house.until(lambda: house.rig.engine.turns)
        text = "Summarise these\n[forwarded from Bob]\nnews 1\n[forwarded from Bob]\nnews 2"
        assert turn.prompt.text == text
        await house.rig.until_idle()
