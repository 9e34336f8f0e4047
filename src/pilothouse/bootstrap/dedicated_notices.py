"""What the terminal of `pilothouse discord` says: that it is ready, a code for the first person, what became of an edit of the
configuration, and what goes wrong. Nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import anyio

from pilothouse.bootstrap.app import House, words_for
from pilothouse.bootstrap.people import make_people, offer
from pilothouse.bootstrap.terminal_text import say
from pilothouse.config import Reloaded
from pilothouse.core.channel import ChannelHealth
from pilothouse.core.ids import ChannelId, UserId
from pilothouse.core.people import People, allows
from pilothouse.core.store import Tx
from pilothouse.runtime.roles import role_of

LOOK_EVERY_S = 1.0
OPEN_S = 600.0
CODE = """\
Nobody is let in here yet. Send this in the channel, as a message, within {minutes:.0f} minutes:

    {code}

Whoever does first is let in as {role}.
"""
LET_IN = "{name} is let in as {role}. What they write in the channel is answered.\n"
CODE_IS_OVER = "That code is over; here is a new one.\n"
WORKS_AGAIN = "Discord works again.\n"


class Listener(Protocol):
    id: ChannelId

    async def listening(self) -> None: ...


async def welcome(house: House, channel: Listener, folder: Path, ready: str) -> None:
    """Says that we are ready once we hear; then waits for the first person, if there is none."""
    await channel.listening()
    _tell(f"{ready}\n")
    prefix, workspace = f"{channel.id}:", str(folder)

    def somebody(tx: Tx) -> tuple[str, str] | None:
        return first_let_in(tx, make_people(house.config), prefix, workspace)

    if await house.store.read(somebody):
        return
    while not (found := await _offer_until(house, somebody)):
        _tell(CODE_IS_OVER)
    name, role = found
    _tell(LET_IN.format(name=name, role=role))


async def _offer_until(
    house: House, somebody: Callable[[Tx], tuple[str, str] | None]
) -> tuple[str, str] | None:
    """Who came in with the code that is shown; None if nobody did while it counted."""
    at = house.clock.now()
    made = await house.store.write(lambda tx: offer(tx, house.config, at=at, open_s=OPEN_S))
    _tell(CODE.format(code=made.code, role=made.role, minutes=OPEN_S / 60))
    with anyio.move_on_after(OPEN_S):
        while not (found := await house.store.read(somebody)):
            await anyio.sleep(LOOK_EVERY_S)
        return found
    return None


def first_let_in(tx: Tx, people: People, prefix: str, workspace: str) -> tuple[str, str] | None:
    """Name and role of somebody of this channel who may talk in the folder."""
    granted = {grant.user: grant.name for grant in tx.people.everybody()}
    known: dict[UserId, str] = dict.fromkeys(people.roles, "") | granted
    known |= {user: "" for roles in people.workspaces.values() for user in roles if user not in known}
    for user, name in known.items():
        role = role_of(tx, people, user, workspace)
        if user.startswith(prefix) and allows(role, "desk.accept"):
            return name or user, role
    return None


async def tell_troubles(health: Callable[[], ChannelHealth]) -> None:
    """The log is in its file; what a person must know stands here, once."""
    told = ""
    while True:
        trouble = health().trouble
        if trouble != told:
            _tell(f"{trouble}\n" if trouble else WORKS_AGAIN)
            told = trouble
        await anyio.sleep(LOOK_EVERY_S)


def tell_edit(result: Reloaded) -> None:
    if text := words_for(result):
        _tell(text)


def _tell(text: str) -> None:
    say(text.removesuffix("\n"))
