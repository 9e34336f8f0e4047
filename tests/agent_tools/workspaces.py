"""Two workspaces whose turns run at the same time, and every row that belongs to each: for tests of isolation."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import anyio
from tests.agent_tools.agent import Agent
from tests.runtime.puppet import PuppetEngine, Strings
from tests.runtime.rig import Rig, open_rig

from pilothouse.bootstrap.files import read_file
from pilothouse.channels.memory import MEMORY
from pilothouse.core.conversation import Conversation
from pilothouse.core.ids import SessionId
from pilothouse.core.message import Address
from pilothouse.core.schedule import split_task_place
from pilothouse.core.store import Tx
from pilothouse.runtime.agent_calls.questions import AGENT_QUESTION
from pilothouse.testing.policy import FixedPolicy

SIDES = ("main", "other")
"""Names of the workspaces, and of the places of their conversations."""
SECRETS = {"main": "canary-of-main", "other": "canary-of-other"}
"""Words in the file `own.txt` of each workspace."""
OWNED = (
    "SELECT * FROM outbox WHERE conversation_id = ?1",
    "SELECT p.* FROM outbox_parts p JOIN outbox o ON o.seq = p.outbox_seq WHERE o.conversation_id = ?1",
    "SELECT * FROM inbox WHERE conversation_id = ?1",
    "SELECT * FROM asks WHERE conversation_id = ?1",
    "SELECT * FROM schedules WHERE conversation_id = ?1",
    "SELECT b.* FROM blob_uses b JOIN outbox o ON b.owner = 'outbox ' || o.id WHERE o.conversation_id = ?1",
    "SELECT id, status, prompt FROM turns WHERE conversation_id = ?1",
)
SETTINGS = (
    "SELECT * FROM people",
    "SELECT * FROM rules",
    "SELECT id, status, conversation_id FROM turns",
    "SELECT id, workspace FROM sessions",
    "SELECT * FROM schedules",
    "SELECT * FROM asks",
)


class Workspaces:
    def __init__(self, rig: Rig, db: sqlite3.Connection, sessions: dict[str, SessionId]) -> None:
        self.rig = rig
        self._db = db
        self._sessions = sessions

    def agent(self, side: str) -> Agent:
        """An agent with a new count of calls."""
        return Agent(self.rig, self._sessions[side])

    def rows(self, place: str) -> list[tuple[Any, ...]]:
        """Every row of the store that belongs to the conversation there."""
        return [row for query in OWNED for row in self._query(query, f"memory:{place}")]

    def settings_rows(self) -> list[tuple[Any, ...]]:
        """The rows that say who may do what, and where: of the whole store."""
        return [row for query in SETTINGS for row in self._query(query)]

    def numbers(self) -> list[int]:
        """The numbers of all sent messages, as agents write them, of both sides."""
        return [1000 + seq for (seq,) in self._query("SELECT seq FROM outbox ORDER BY seq")]

    def tasks(self) -> list[str]:
        return [id for (id,) in self._query("SELECT id FROM schedules ORDER BY seq")]

    def session(self, side: str) -> SessionId:
        return self._sessions[side]

    def turns_in(self, side: str) -> int:
        """The number of turns that worked in the folder of a side."""
        query = (
            "SELECT COUNT(*) FROM turns t JOIN sessions s ON s.id = t.session_id WHERE s.workspace LIKE ?1"
        )
        return self._query(query, f"%/{side}")[0][0]

    def askers_of(self, agent: str) -> set[str]:
        """The agents that asked this one, by the audit log."""
        rows = self._query("SELECT detail FROM audit WHERE what = 'agent.asked'")
        details = [json.loads(detail) for (detail,) in rows]
        return {detail["asker"] for detail in details if detail["agent"] == agent}

    def marks(self, place: str) -> int:
        return sum(ref.address.place == place for ref, _ in self.rig.channel.reactions)

    async def until_quiet(self) -> None:
        """Wait until everything was sent, every question is closed and no other agent works, so that rows change by calls
        only."""
        self.rig.poke()
        await self.rig.until(
            lambda tx: (
                not tx.asks.open_about(AGENT_QUESTION)
                and not tx.outbox.channels_waiting()
                and not any(tx.inbox.unfinished(place.id) for place in _exchanges(tx))
                and len(tx.turns.of(statuses=("running", "waiting", "queued"))) <= len(SIDES)
            )
        )

    def _query(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        return self._db.execute(query, values).fetchall()


def _exchanges(tx: Tx) -> list[Conversation]:
    """The conversations in which other agents answer. A request waits there before it has a turn."""
    return [place for place in tx.conversations.list() if split_task_place(place.id)[1] is not None]


@asynccontextmanager
async def open_workspaces(folder: Path, **settings: Any) -> AsyncIterator[Workspaces]:
    """`main` is granted the destination `team` and the agent of `library`; `other` is granted none."""
    sessions: dict[str, SessionId] = {}
    done = anyio.Event()

    async def play(strings: Strings) -> None:
        await strings.start(strings.brief.session_id)
        if strings.brief.workspace.endswith("/library"):
            await strings.end("read")
            return
        sessions[strings.prompt.text] = strings.brief.session_id
        await done.wait()
        await strings.end("over")

    for side in (*SIDES, "library", "root"):
        (folder / side).mkdir()
        (folder / side / "own.txt").write_text(SECRETS.get(side, "public"))
    (folder / "main" / "link").symlink_to(folder / "other" / "own.txt")
    (folder / "other" / "link").symlink_to(folder / "main" / "own.txt")
    folders = {side: str((folder / side).resolve()) for side in (*SIDES, "library")}
    async with open_rig(
        folder,
        PuppetEngine(play),
        policy=FixedPolicy(),
        workspaces=folders,
        default_workspace=folders["main"],
        agents={folders["main"]: ("library",)},
        roots=(str((folder / "root").resolve()),),
        destinations={folders["main"]: {"team": Address(MEMORY, "team")}},
        **settings,
    ) as rig:
        rig.ports.read_file = read_file
        await rig.channel.say("/bind other", "other")
        await rig.until_said("other")
        await rig.channel.say("main")
        await rig.channel.say("other", "other")
        await rig.until_true(lambda: len(sessions) == 2)
        with closing(sqlite3.connect(folder / "pilothouse.db")) as db:
            workspaces = Workspaces(rig, db, sessions)
            await workspaces.until_quiet()
            yield workspaces
        done.set()
        await rig.until_idle()
