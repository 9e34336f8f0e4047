"""The receiver's surroundings: a desk, a store of files, a clock that the test moves."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
from tests.channels.channel_rig import MENU
from tests.channels.telegram.server.running import Server
from tests.json_lines import read_whole_lines

from pilothouse.channels.intake_queue import Failures
from pilothouse.channels.telegram.accept import Acceptor
from pilothouse.channels.telegram.client import Backoff, BotClient
from pilothouse.channels.telegram.content import bot_with
from pilothouse.channels.telegram.receive import Happening
from pilothouse.channels.telegram.receiver import Poller
from pilothouse.channels.telegram.trouble import Trouble
from pilothouse.channels.telegram.updates import UpdateJournal, UpdateQueues
from pilothouse.core.channel import Receipt
from pilothouse.core.errors import PilothouseError
from pilothouse.core.ids import BlobHash
from pilothouse.core.message import Address, Attachment, Author, InboundMessage
from pilothouse.core.trigger import Trigger
from pilothouse.testing.clock import FakeClock
from pilothouse.testing.desk import ScriptedDesk


class KeptBlobs:
    def __init__(self) -> None:
        self.data: list[bytes] = []

    async def get(self, blob: BlobHash) -> bytes:
        return self.data[int(blob)]

    async def put(self, data: bytes, name: str, media_type: str) -> Attachment:
        self.data.append(data)
        return Attachment(name, media_type, len(data), BlobHash(str(len(self.data) - 1)))


class Moody(ScriptedDesk):
    """Fails for some texts, each as often as it is told."""

    def __init__(self, failures: dict[str, list[Exception]] | None = None) -> None:
        super().__init__()
        self.failures = failures or {}

    # pyrefly: ignore [missing-override-decorator]
    async def accept(self, message: InboundMessage) -> Receipt:
        if self.failures.get(message.text):
            raise self.failures[message.text].pop()
        return await super().accept(message)


class Slow(ScriptedDesk):
    """Takes its time for one text: until it is told to go on."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.came, self.go_on = anyio.Event(), anyio.Event()
        self._text = text

    # pyrefly: ignore [missing-override-decorator]
    async def accept(self, message: InboundMessage) -> Receipt:
        if message.text == self._text:
            self.came.set()
            await self.go_on.wait()
        return await super().accept(message)


class Strict(Moody):
    # pyrefly: ignore [missing-override-decorator]
    async def query(self, what: str, by: Author, **terms: Any) -> Any:
        raise PilothouseError(f"{by.id} may not look at this.")


class House:
    """A poller with a desk behind it, on a clock that the test moves."""

    def __init__(self, server: Server, clock: FakeClock, folder: Path) -> None:
        self.server = server
        server.polls.clock = clock
        self.folder = folder
        self.clock = clock
        self.desk = ScriptedDesk()
        self.blobs = KeptBlobs()
        self.told: list[str] = []
        self.others: list[Happening] = []
        self.others_wait_for: anyio.Event | None = None
        self.alarms: list[str] = []
        self.logged: list[tuple[str, dict[str, Any]]] = []
        self.trigger = Trigger("all")

    @property
    def kept(self) -> list[int]:
        return _numbers(self.folder / "updates.jsonl")

    @property
    def failed(self) -> list[int]:
        return _numbers(self.folder / "failed-updates.jsonl")

    @property
    def texts(self) -> list[str]:
        return [message.text for message in self.desk.accepted]

    async def trigger_of(self, address: Address) -> Trigger:
        return self.trigger

    async def tell(self, address: Address, text: str, reply_to: str) -> None:
        self.told.append(text)

    async def other(self, happening: Happening) -> None:
        self.others.append(happening)
        self.server.world.wake()
        if self.others_wait_for is not None:
            await self.others_wait_for.wait()

    def log(self, event: str, /, **fields: Any) -> None:
        self.logged.append((event, fields))
        self.server.world.wake()

    def alarm(self, text: str) -> None:
        self.alarms.append(text)

    async def queues(self, client: BotClient) -> UpdateQueues:
        me = await client.get_me()
        assert not isinstance(me, Trouble)
        acceptor = Acceptor(
            self.desk,
            client,
            self.blobs,
            bot_with(me, MENU),
            self.clock,
            trigger_of=self.trigger_of,
            tell=self.tell,
            others=self.other,
            log=self.log,
        )
        failures = Failures(self.folder / "failed-updates.jsonl", "telegram.update", self.clock, self.log)
        return UpdateQueues(acceptor, self.clock, self.log, UpdateJournal(self.folder, self.log), failures)

    async def poller(self, client: BotClient) -> Poller:
        backoff = Backoff(self.clock, self.log, self.alarm, place="here")
        return Poller(client, await self.queues(client), self.clock, self.log, backoff)

    async def until(self, seen: Callable[[], object], step_s: float = 0.0) -> None:
        """Waits for it; with a step, time passes meanwhile."""
        with anyio.fail_after(60):
            while not seen():
                if step_s:
                    await self.clock.advance(step_s)
                await anyio.sleep(0.005)


def _numbers(path: Path) -> list[int]:
    return [line["update_id"] for line in read_whole_lines(path)]


def make_house(server: Server, folder: Path) -> House:
    """What waits is kept in the folder, from one poller to the next."""
    server.world.now = lambda: 1_800_000_000.0
    return House(server, FakeClock(1_800_000_000.0), folder)
