"""All that stands behind whoever receives: a desk, a store of files, a clock that the test moves."""

from collections.abc import Callable
from typing import Any

import anyio
from tests.channels.telegram.server.running import Server

from pilothouse.channels.telegram.client import BotClient
from pilothouse.channels.telegram.lanes import Lanes
from pilothouse.channels.telegram.poll import Poller
from pilothouse.channels.telegram.receive import Happening
from pilothouse.channels.telegram.setbacks import Setbacks
from pilothouse.channels.telegram.taking import Taker
from pilothouse.channels.telegram.trouble import Trouble
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

    def __init__(self, failures: dict[str, list[Exception]]) -> None:
        super().__init__()
        self._failures = failures

    # pyrefly: ignore [missing-override-decorator]
    async def accept(self, message: InboundMessage) -> Receipt:
        if self._failures.get(message.text):
            raise self._failures[message.text].pop()
        return await super().accept(message)


class Strict(ScriptedDesk):
    # pyrefly: ignore [missing-override-decorator]
    async def query(self, what: str, by: Author, **terms: Any) -> Any:
        raise PilothouseError(f"{by.id} may not look at this.")


class House:
    """A poller with a desk behind it, on a clock that the test moves."""

    def __init__(self, server: Server, clock: FakeClock) -> None:
        self.server = server
        self.clock = clock
        self.desk = ScriptedDesk()
        self.blobs = KeptBlobs()
        self.told: list[str] = []
        self.others: list[Happening] = []
        self.alarms: list[str] = []
        self.logged: list[tuple[str, dict[str, Any]]] = []
        self.trigger = Trigger("all")

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

    def log(self, event: str, /, **fields: Any) -> None:
        self.logged.append((event, fields))
        self.server.world.wake()

    def alarm(self, text: str) -> None:
        self.alarms.append(text)

    async def lanes(self, client: BotClient) -> Lanes:
        me = await client.get_me()
        assert not isinstance(me, Trouble)
        taker = Taker(
            self.desk,
            client,
            self.blobs,
            me,
            self.clock,
            trigger_of=self.trigger_of,
            tell=self.tell,
            others=self.other,
            log=self.log,
        )
        return Lanes(taker.take, self.clock, self.log)

    async def poller(self, client: BotClient) -> Poller:
        setbacks = Setbacks(self.clock, self.log, self.alarm)
        return Poller(client, await self.lanes(client), self.clock, self.log, setbacks)

    async def until(self, seen: Callable[[], object], step_s: float = 0.0) -> None:
        """Waits for it; with a step, time passes meanwhile."""
        with anyio.fail_after(30):
            while not seen():
                if step_s:
                    await self.clock.advance(step_s)
                await anyio.sleep(0.005)


def make_house(server: Server) -> House:
    server.world.now = lambda: 1_800_000_000.0
    return House(server, FakeClock(1_800_000_000.0))
