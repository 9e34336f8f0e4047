"""Notices of `pilothouse discord`: that it is ready, a code for the first person, reloads, and trouble."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import anyio

from pilothouse.bootstrap.app import App, reload_notice
from pilothouse.bootstrap.people import make_people, offer_code
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

The first who sends it is let in as {role}."""
LET_IN = "{name} is let in as {role}. What they write in the channel is answered."
CODE_IS_OVER = "That code has expired; here is a new one."
WORKS_AGAIN = "Discord works again."


class Listener(Protocol):
    id: ChannelId

    async def listening(self) -> None: ...


async def welcome(app: App, channel: Listener, folder: Path, ready: str) -> None:
    """Prints `ready` once the channel listens; then offers pairing codes until someone is let in."""
    await channel.listening()
    say(ready)
    prefix, workspace = f"{channel.id}:", str(folder)

    def find_first(tx: Tx) -> tuple[str, str] | None:
        return find_person(tx, make_people(app.config), prefix, workspace)

    if await app.store.read(find_first):
        return
    while not (found := await _offer_until(app, find_first)):
        say(CODE_IS_OVER)
    name, role = found
    say(LET_IN.format(name=name, role=role))


async def _offer_until(
    app: App, find_first: Callable[[Tx], tuple[str, str] | None]
) -> tuple[str, str] | None:
    """Shows a code and returns who came in with it; None if it expired unused."""
    at = app.clock.now()
    made = await app.store.write(lambda tx: offer_code(tx, app.config, at=at, open_s=OPEN_S))
    say(CODE.format(code=made.code, role=made.role, minutes=OPEN_S / 60))
    with anyio.move_on_after(OPEN_S):
        while not (found := await app.store.read(find_first)):
            await anyio.sleep(LOOK_EVERY_S)
        return found
    return None


def find_person(tx: Tx, people: People, prefix: str, workspace: str) -> tuple[str, str] | None:
    """Returns name and role of someone on this channel who may talk in the folder."""
    granted = {grant.user: grant.name for grant in tx.people.everybody()}
    known: dict[UserId, str] = dict.fromkeys(people.roles, "") | granted
    known |= {user: "" for roles in people.workspaces.values() for user in roles if user not in known}
    for user, name in known.items():
        role = role_of(tx, people, user, workspace)
        if user.startswith(prefix) and allows(role, "desk.accept"):
            return name or user, role
    return None


async def report_trouble(health: Callable[[], ChannelHealth]) -> None:
    """Prints each change of the channel's trouble once; the log goes to its file only."""
    told = ""
    while True:
        trouble = health().trouble
        if trouble != told:
            say(trouble or WORKS_AGAIN)
            told = trouble
        await anyio.sleep(LOOK_EVERY_S)


def report_edit(result: Reloaded) -> None:
    if text := reload_notice(result):
        say(text)
