"""Many sessions on one process: deltas wait for each other, and everything arrives whole and in order."""

from __future__ import annotations

import anyio
import pytest
from tests.engines.script.rig import WITHIN_S, Rig, read

from pilothouse.core.event import EngineEvent, TextDelta, TurnEnded
from pilothouse.engines.link import CROWD
from pilothouse.engines.mailbox import MAX_JOINED_BYTES, Mailbox
from pilothouse.engines.script.session import Mail, join_items
from pilothouse.engines.script.wire import Event

pytestmark = pytest.mark.anyio


def said(text: str, block: str = "a") -> Event:
    return Event("one", 1, TextDelta(block, text))


async def test_a_crowd_loses_no_word_and_keeps_the_order(rig: Rig) -> None:
    """The prompt's own words come back in small pieces, so that nobody's may be taken for another's."""
    answers: dict[str, list[EngineEvent]] = {}
    together = anyio.Event()

    async def take_part(name: str) -> None:
        async with engine.open(rig.brief(name)) as session:
            opened.add(name)
            if len(opened) == CROWD:
                together.set()
            await together.wait()
            answers[name] = await read(session, f"{name}: " + "0123456789" * 20)

    opened: set[str] = set()
    steps = [{"stream": "{prompt}", "chunk": 7, "every_s": 0.001}]
    with anyio.fail_after(WITHIN_S):
        async with rig.engine(steps) as engine, anyio.create_task_group() as tasks:
            for number in range(CROWD):
                tasks.start_soon(take_part, f"s{number}")
    for name, events in answers.items():
        text = "".join(event.text for event in events if isinstance(event, TextDelta))
        assert text == f"{name}: " + "0123456789" * 20
        assert isinstance(events[-1], TurnEnded)


async def test_deltas_that_come_quietly_are_one_when_they_are_read() -> None:
    mailbox = Mailbox[Mail](join=join_items)
    for word in ("a", "b", "c"):
        assert mailbox.offer(said(word), 1, quietly=True)
    assert mailbox.offer(said("other", "b"), 5, quietly=True)
    assert mailbox.offer(said("loud", "b"), 4)
    assert [await mailbox.get() for _ in range(3)] == [said("abc"), said("other", "b"), said("loud", "b")]


async def test_what_is_joined_stays_short() -> None:
    mailbox = Mailbox[Mail](join=join_items)
    piece = "x" * (MAX_JOINED_BYTES // 2)
    for _ in range(3):
        mailbox.offer(said(piece), len(piece), quietly=True)
    assert [await mailbox.get() for _ in range(2)] == [said(piece * 2), said(piece)]


async def test_a_reader_sleeps_through_what_is_quiet_until_the_bell() -> None:
    mailbox, heard = Mailbox[Mail](join=join_items), list[object]()

    async def listen() -> None:
        heard.append(await mailbox.get())

    with anyio.fail_after(WITHIN_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen)
            await anyio.wait_all_tasks_blocked()
            mailbox.offer(said("quiet"), 5, quietly=True)
            await anyio.wait_all_tasks_blocked()
            assert heard == []
            mailbox.ring()
    assert heard == [said("quiet")]


async def test_a_full_mailbox_wakes_a_reader_that_heard_no_bell() -> None:
    mailbox = Mailbox[Mail](max_items=1)

    async def listen() -> None:
        await mailbox.get()

    with anyio.fail_after(WITHIN_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen)
            await anyio.wait_all_tasks_blocked()
            mailbox.offer(said("quiet"), 5, quietly=True)
            assert not mailbox.offer(said("more"), 4)
            await mailbox.wait_for_room()
    assert mailbox.offer(said("more"), 4)
