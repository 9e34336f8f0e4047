"""Schedules that an agent makes and changes by a tool: only those of its own conversation.

The run of a task reaches the tasks of the chat that made it, and so does an agent that another one asked there; but only
those of its own folder, and it makes them for that folder. No task gets a wider approval mode than the turn that made it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec.structs import replace

from pilothouse.core.ids import ScheduleId, UserId
from pilothouse.core.schedule import Schedule
from pilothouse.core.store import Tx
from pilothouse.core.text import first_line
from pilothouse.runtime.agent_calls.caller import Caller, check_live
from pilothouse.runtime.conversations.binding import mode_of, widest_for
from pilothouse.runtime.ports import INBOX, OUTBOX, SCHEDULES, Ports
from pilothouse.runtime.schedules.operations import (
    Done,
    NewSchedule,
    ScheduleChange,
    add_schedule,
    find_among,
    in_order,
    is_alive,
    update_schedule,
)
from pilothouse.runtime.schedules.runs import folder_of
from pilothouse.runtime.schedules.script import NO_SCRIPT, ScriptRuling, judge_script
from pilothouse.runtime.schedules.times import describe_runs, describe_timing
from pilothouse.runtime.settings import Settings

PROMPT_CHARS = 80


class ChangeState(Protocol):
    """An operation on one schedule: to cancel, pause or resume it."""

    def __call__(self, tx: Tx, id: str, at: float, *, by: str = "") -> Done: ...


async def add_task(ports: Ports, caller: Caller, wish: NewSchedule) -> str:
    """Add a schedule for the person who asked. Raises `ConfigError`."""
    ruling, turn = await _judge(ports, caller, wish.script), caller.turn
    by = turn.prompt.authors[0] if turn.prompt.authors else UserId("")
    id = ScheduleId(f"task-{hashlib.sha256(caller.key.encode()).hexdigest()[:12]}")

    def unit(tx: Tx) -> Done:
        whole = replace(wish, id=id, by=by, workspace=caller.session.workspace, mode=widest_for(tx, turn))
        return add_schedule(tx, ports.ids, ports.settings(), whole, ports.clock.now(), ruling=ruling)

    return await _write(ports, caller, unit)


async def update_task(ports: Ports, caller: Caller, id: str, change: ScheduleChange, script: str) -> str:
    ruling = await _judge(ports, caller, script)

    def unit(tx: Tx) -> Done:
        at, settings = ports.clock.now(), ports.settings()
        found = find_among(_reached(tx, settings, caller), id)
        most, by = widest_for(tx, caller.turn), _by(caller)
        return update_schedule(tx, ports.ids, settings, found.id, change, at, most=most, by=by, ruling=ruling)

    return await _write(ports, caller, unit)


async def change_state(ports: Ports, caller: Caller, id: str, change: ChangeState) -> str:
    def unit(tx: Tx) -> Done:
        found = find_among(_reached(tx, ports.settings(), caller), id)
        return change(tx, found.id, ports.clock.now(), by=_by(caller))

    return await _write(ports, caller, unit)


async def list_tasks(ports: Ports, caller: Caller) -> str:
    now = ports.clock.now()
    reached = await ports.store.read(lambda tx: _reached(tx, ports.settings(), caller))
    lines = [
        f"{one.id}: {first_line(one.prompt, PROMPT_CHARS)} ({describe_timing(one.timing)}). "
        f"{'Paused.' if one.paused else describe_runs(one, now)}"
        for one in in_order(filter(is_alive, reached))
    ]
    return "\n".join(lines) or "This conversation has no tasks."


def _reached(tx: Tx, settings: Settings, caller: Caller) -> Sequence[Schedule]:
    """Return the schedules that a call may reach."""
    found = tx.schedules.of(caller.place)
    if caller.place == caller.conversation.id:
        return found
    return [one for one in found if folder_of(tx, settings, one) == caller.session.workspace]


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
