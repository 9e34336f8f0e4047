"""A real gateway on a real store behind the poller: a message is answered once, although its update comes twice."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.channels.channel_rig import MENU
from tests.channels.telegram.conftest import connect
from tests.channels.telegram.posts import send_message
from tests.channels.telegram.receiving_house import KeptBlobs
from tests.channels.telegram.server.people import Person
from tests.channels.telegram.server.running import Server
from tests.runtime.puppet import PuppetEngine, echo
from tests.runtime.rig import Rig, open_rig

from pilothouse.channels.intake_queue import Failures
from pilothouse.channels.telegram.accept import Acceptor
from pilothouse.channels.telegram.client import Backoff, BotClient
from pilothouse.channels.telegram.content import TELEGRAM, bot_with, chat_of
from pilothouse.channels.telegram.receive import Happening
from pilothouse.channels.telegram.receiver import Poller
from pilothouse.channels.telegram.trouble import Trouble
from pilothouse.channels.telegram.updates import UpdateJournal, UpdateQueues
from pilothouse.core.channel import Desk
from pilothouse.core.ids import UserId
from pilothouse.core.message import Address, Content, MessageRef, Part
from pilothouse.core.people import People
from pilothouse.core.trigger import Trigger
from pilothouse.runtime.ports import SystemClock


class BareChannel:
    """As little of a channel as can be: plain texts, and the receiving that is tried here."""

    def __init__(self, client: BotClient, folder: Path) -> None:
        self.id = TELEGRAM
        self.told: list[str] = []
        self._client = client
        self._folder = folder

    async def run(self, desk: Desk) -> None:
        me, clock = await self._client.get_me(), SystemClock()
        assert not isinstance(me, Trouble)
        acceptor = Acceptor(
            desk,
            self._client,
            KeptBlobs(),
            bot_with(me, MENU),
            clock,
            trigger_of=self.trigger_of,
            tell=self.tell,
            others=self.other,
            log=self.log,
        )
        failures = Failures(self._folder / "failed-updates.jsonl", "telegram.update", clock, self.log)
        queues = UpdateQueues(acceptor, clock, self.log, UpdateJournal(self._folder, self.log), failures)
        backoff = Backoff(clock, self.log, self.log, place="here")
        await Poller(self._client, queues, clock, self.log, backoff).run()

    async def trigger_of(self, address: Address) -> Trigger:
        return Trigger()

    def render(self, content: Content) -> tuple[Part, ...]:
        return (Part(content.text),)

    async def send(self, address: Address, part: Part) -> MessageRef:
        chat_id, thread_id = chat_of(address)
        sent = await send_message(self._client, chat_id, part.text, thread=thread_id)
        assert not isinstance(sent, Trouble), sent
        return MessageRef(address, str(sent.message_id))

    async def tell(self, address: Address, text: str, reply_to: str) -> None:
        self.told.append(text)

    async def other(self, happening: Happening) -> None:
        pass

    def log(self, event: str, /, **fields: Any) -> None:
        pass


@asynccontextmanager
async def open_house(
    server: Server, folder: Path, *members: Person
) -> AsyncIterator[tuple[Rig, BareChannel]]:
    people = People({UserId(f"telegram:{member.id}"): "member" for member in members})
    async with connect(server) as client:
        channel = BareChannel(client, folder)
        channels = {TELEGRAM: channel}
        async with open_rig(folder, PuppetEngine(echo), channels=channels, people=people) as rig:
            yield rig, channel


async def test_a_question_is_answered_and_a_repeat_after_a_restart_is_not(
    server: Server, tmp_path: Path
) -> None:
    ada = server.person()
    forum = ada.make_group("Lab", forum=True)
    topic = ada.make_topic(forum, "parser")
    async with open_house(server, tmp_path, ada) as (rig, _):
        asked = ada.say("hello")
        update = server.world.pending[-1]
        ada.say("@pilot_test_bot go", chat=forum, topic=topic)
        await rig.until_true(
            lambda: server.world.texts(ada.id) and server.world.texts(forum.id, topic.thread_id)
        )
        await rig.until_idle()
    assert server.world.texts(ada.id) == [f"you said: {asked.text}"]
    server.world.repeat(update)
    async with open_house(server, tmp_path, ada) as (rig, _):
        await rig.until_true(lambda: not server.world.pending)
        ada.say("again")
        await rig.until_true(lambda: len(server.world.texts(ada.id)) > 1)
        await rig.until_idle()
    assert server.world.texts(ada.id) == ["you said: hello", "you said: again"]


async def test_a_stranger_is_told_so_and_costs_no_download(server: Server, tmp_path: Path) -> None:
    ada, mallory = server.person(), server.person("Mallory")
    async with open_house(server, tmp_path, ada) as (rig, channel):
        mallory.document("bomb.zip", b"x", "open it")
        await rig.until_true(lambda: channel.told)
        await rig.until_true(lambda: not server.world.pending)
    assert f"telegram:{mallory.id}" in channel.told[0]
    assert server.called("getFile") == []
    assert server.world.texts(mallory.id) == []
