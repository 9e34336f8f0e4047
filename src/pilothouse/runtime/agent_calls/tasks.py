"""Schedules that an agent makes and changes by a tool: only those of its own conversation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pilothouse.core.ids import ConversationId, UserId
from pilothouse.core.store import Tx
from pilothouse.core.text import first_line
from pilothouse.runtime.agent_calls.caller import Caller, check_live
from pilothouse.runtime.conversations.binding import mode_of
from pilothouse.runtime.ports import INBOX, OUTBOX, SCHEDULES, Ports
from pilothouse.runtime.schedules.operations import (
    Done,
    NewSchedule,
    ScheduleChange,
    add_schedule,
    list_schedules,
    update_schedule,
)
from pilothouse.runtime.schedules.script import NO_SCRIPT, ScriptRuling, judge_script
from pilothouse.runtime.schedules.times import describe_runs, describe_timing

PROMPT_CHARS = 80


class ChangeState(Protocol):
    """An operation on one schedule: to cancel, pause or resume it."""

    def __call__(
        self, tx: Tx, id: str, at: float, *, place: ConversationId | None = None, by: str = ""
    ) -> Done: ...


async def add_task(ports: Ports, caller: Caller, make: Callable[[UserId], NewSchedule], script: str) -> str:
    """Add a schedule for the person who asked. Raises `ConfigError`."""
    ruling, authors = await _judge(ports, caller, script), caller.turn.prompt.authors
    wish = make(authors[0] if authors else UserId(""))

    def unit(tx: Tx) -> Done:
        return add_schedule(tx, ports.ids, ports.settings(), wish, ports.clock.now(), ruling=ruling)

    return await _write(ports, caller, unit)


async def update_task(ports: Ports, caller: Caller, id: str, change: ScheduleChange, script: str) -> str:
    ruling, place = await _judge(ports, caller, script), caller.conversation.id

    def unit(tx: Tx) -> Done:
        at, settings = ports.clock.now(), ports.settings()
        return update_schedule(
            tx, ports.ids, settings, id, change, at, place=place, by=_by(caller), ruling=ruling
        )

    return await _write(ports, caller, unit)


async def change_state(ports: Ports, caller: Caller, id: str, change: ChangeState) -> str:
    place = caller.conversation.id
    return await _write(
        ports, caller, lambda tx: change(tx, id, ports.clock.now(), place=place, by=_by(caller))
    )


async def list_tasks(ports: Ports, caller: Caller) -> str:
    now = ports.clock.now()
    found = await ports.store.read(lambda tx: list_schedules(tx, caller.conversation.id))
    lines = [
        f"{one.id}: {first_line(one.prompt, PROMPT_CHARS)} ({describe_timing(one.timing)}). "
        f"{'Paused.' if one.paused else describe_runs(one, now)}"
        for one in found
    ]
    return "\n".join(lines) or "This conversation has no tasks."


async def _judge(ports: Ports, caller: Caller, script: str) -> ScriptRuling:
    if not script:
        return NO_SCRIPT
    settings, workspace = ports.settings(), caller.session.workspace
    mode = await ports.store.read(lambda tx: mode_of(tx, settings, workspace, None))
    return await judge_script(ports, script, workspace, mode)


async def _write(ports: Ports, caller: Caller, act: Callable[[Tx], Done]) -> str:
    def unit(tx: Tx) -> Done:
        check_live(tx, caller)
        return act(tx)

    done = await ports.store.write(unit)
    ports.signals.poke(SCHEDULES, INBOX, OUTBOX)
    return done.text


def _by(caller: Caller) -> str:
    return f"engine:{caller.turn.engine}"
