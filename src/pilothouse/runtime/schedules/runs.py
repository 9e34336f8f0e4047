"""Runs: the transactions that turn slots into inbox rows, and that write down what became of them.

A slot's row, its message and the schedule's next time are written in one transaction, so a slot runs once however often
it is noticed, and a `kill -9` loses none. The turn's end is read from the inbox row, whichever node ended it.

A schedule works in a conversation of its own, at the address of the one that made it: its answers arrive there, its
turns block nothing there, and each run has a new session. Its approval mode is never wider than that of the folder.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from pilothouse.core.ask import Ask, AskRow, Decision
from pilothouse.core.conversation import Conversation, Session
from pilothouse.core.errors import ConfigError
from pilothouse.core.ids import AskId, ConversationId, IdMaker, MessageId, ScheduleId, SessionId, UserId
from pilothouse.core.message import Author, Content, InboundMessage
from pilothouse.core.people import ORDINARY, Authority
from pilothouse.core.schedule import Run, Schedule, slot_key, task_place
from pilothouse.core.store import Tx
from pilothouse.core.text import first_line
from pilothouse.core.turn import Turn
from pilothouse.runtime.asks.show import raise_ask
from pilothouse.runtime.audit import APP, record
from pilothouse.runtime.conversations.binding import Wishes, bound, keep_wishes, mode_of, workspace_of
from pilothouse.runtime.outbox import say
from pilothouse.runtime.roles import may, name_of
from pilothouse.runtime.schedules.script import (
    ScriptResult,
    error_text,
    hash_script,
    kind_of_error,
)
from pilothouse.runtime.schedules.slots import Plan, PlannedSlot
from pilothouse.runtime.schedules.times import describe_time, find_zone
from pilothouse.runtime.settings import Settings

PAUSE = "schedule.pause"
"""The topic of the ask after several failures."""
FAILURES = 3
"""After this many failures in a row, people are asked whether to pause the schedule."""
LOOKED_AT = 50
STILL_RUNNING = "the run before has not ended"
NOT_APPROVED = "its script is not approved"
NOTHING_TO_DO = "its script found nothing to do"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(InboundMessage).decode


def claim(tx: Tx, ids: IdMaker, settings: Settings, schedule: Schedule, plan: Plan, at: float) -> None:
    """Write the planned slots and the next time, unless the schedule changed since it was planned."""
    if tx.schedules.get(schedule.id) != schedule:
        return
    why = _why_none(tx, settings, schedule)
    tx.schedules.save(replace(schedule, next_at=plan.next_at))
    runs: list[Run] = []
    slots = _without_known(tx, schedule, plan.slots)
    for planned in slots:
        skip = planned.skip or why or _why_overlapping(tx, schedule, planned, runs)
        runs.append(
            Run(schedule.id, planned.slot, "skipped", at, skip, at)
            if skip
            else _begin(tx, ids, settings, schedule, planned.slot, at)
        )
    tx.schedules.add_runs(runs)
    if plan.next_at is None or plan.next_at > at:
        _tell_missed(tx, ids, schedule, slots, at)


def _without_known(tx: Tx, schedule: Schedule, slots: Sequence[PlannedSlot]) -> list[PlannedSlot]:
    """Leave out slots that have a row: a clock that was set back brings them up again."""
    known = tx.schedules.known_slots(schedule.id, slots[0].slot, slots[-1].slot) if slots else set()
    return [one for one in slots if one.slot not in known]


def pause_broken(tx: Tx, ids: IdMaker, schedule: Schedule, why: str, at: float) -> None:
    """Pause an invalid schedule and tell its conversation, so that it does not block the others."""
    tx.schedules.save(replace(schedule, paused=True))
    if tx.conversations.get(schedule.conversation_id) is not None:
        content = Content(f"The task {schedule.id} is paused: {why}", "notice", dated=True)
        say(tx, ids, schedule.conversation_id, content, key=f"paused:{schedule.id}:{at}", at=at)


def _why_none(tx: Tx, settings: Settings, schedule: Schedule) -> str:
    """Return why the schedule may not run at all; empty if it may."""
    if tx.conversations.get(schedule.conversation_id) is None:
        return "its conversation is not stored"
    folder = folder_of(tx, settings, schedule)
    if schedule.by and not may(tx, settings.people, schedule.by, "desk.accept", folder):
        return f"{name_of(tx, schedule.by)}, who made it, no longer has access"
    if schedule.script and hash_script(schedule.script) != schedule.approved:
        return NOT_APPROVED
    return ""


def _why_overlapping(tx: Tx, schedule: Schedule, planned: PlannedSlot, runs: Sequence[Run]) -> str:
    """Return why a slot does not run beside an unfinished one. Late slots that `all` repeats wait for each other."""
    if schedule.overlap == "queue" or (schedule.missed == "all" and planned.late):
        return ""
    is_busy = any(run.ended_at is None for run in runs) or bool(tx.schedules.open_runs(schedule.id))
    return STILL_RUNNING if is_busy else ""


def _begin(tx: Tx, ids: IdMaker, settings: Settings, schedule: Schedule, slot: float, at: float) -> Run:
    """Begin a slot: with its script, or with its message."""
    if schedule.script:
        return Run(schedule.id, slot, "script", at)
    _put_message(tx, ids, settings, schedule, slot, "", at)
    return Run(schedule.id, slot, "waiting", at)


def begin_by_hand(tx: Tx, ids: IdMaker, settings: Settings, schedule: Schedule, at: float) -> None:
    """Begin a run that no slot planned. Raises `ConfigError` where it may not run, or runs already."""
    if why := _why_none(tx, settings, schedule):
        raise ConfigError(f"{schedule.id} does not run: {why}.")
    if schedule.overlap == "skip" and tx.schedules.open_runs(schedule.id):
        raise ConfigError(f"{schedule.id} is running, or waits to run. Wait for it to end.")
    tx.schedules.add_runs([_begin(tx, ids, settings, schedule, at, at)])


def _put_message(
    tx: Tx, ids: IdMaker, settings: Settings, schedule: Schedule, slot: float, data: str, at: float
) -> None:
    place = _place(tx, settings, schedule, at)
    session = _new_session(tx, ids, settings, schedule, place, at) if schedule.own_session else None
    key = slot_key(schedule.id, slot)
    message = InboundMessage(
        place.address,
        Author(UserId("pilothouse:schedule"), "schedule"),
        key,
        schedule.prompt,
        kind="task",
        source=schedule.id,
        sent_at=slot,
        session_id=session,
        file_text=data,
        alone=schedule.own_session,
    )
    tx.inbox.put(
        id=MessageId(ids("msg")),
        key=key,
        conversation_id=place.id,
        kind="task",
        body=_encode(message),
        at=at,
    )


def _place(tx: Tx, settings: Settings, schedule: Schedule, at: float) -> Conversation:
    """Return the conversation that the schedule works in, with the current address of the one that made it."""
    origin = tx.conversations.get(schedule.conversation_id)
    assert origin is not None, "it was looked up when the slot was claimed"
    if not schedule.own_session:
        return origin
    id = task_place(origin.id, schedule.id)
    folder = folder_of(tx, settings, schedule)
    keep_wishes(tx, id, Wishes(approval_mode=mode_of(tx, settings, folder, schedule.mode)))
    known = tx.conversations.ensure(Conversation(id, origin.address, at))
    place = replace(known, address=origin.address, private=origin.private, workspace=folder, busy="queue")
    if place != known:
        tx.conversations.save(place)
    return place


def _new_session(
    tx: Tx, ids: IdMaker, settings: Settings, schedule: Schedule, place: Conversation, at: float
) -> SessionId:
    origin = tx.conversations.get(schedule.conversation_id) or place
    chosen = bound(tx, origin)
    engine, folder = chosen.engine or settings.default_engine, folder_of(tx, settings, schedule)
    session = Session(SessionId(ids("session")), place.id, engine, folder, at, at, model=chosen.model)
    tx.sessions.add(session)
    return session.id


def folder_of(tx: Tx, settings: Settings, schedule: Schedule) -> str:
    """Return the schedule's folder. One from before folders were kept works where its conversation does."""
    return schedule.workspace or workspace_of(tx, schedule.conversation_id, settings.default_workspace)


def workspace_for(tx: Tx, settings: Settings, id: ScheduleId) -> tuple[Schedule, str] | None:
    schedule = tx.schedules.get(id)
    return None if schedule is None else (schedule, folder_of(tx, settings, schedule))


def _tell_missed(tx: Tx, ids: IdMaker, schedule: Schedule, slots: Sequence[PlannedSlot], at: float) -> None:
    """Tell people once, when nothing is left to plan, how many runs were missed."""
    if (
        not any(one.late and one.skip for one in slots)
        or tx.conversations.get(schedule.conversation_id) is None
    ):
        return
    count = tx.schedules.skipped_at(schedule.id, at)
    last = describe_time(slots[-1].slot, at, find_zone(schedule.zone))
    missed = f"1 run was missed, {last}" if count == 1 else f"{count} runs were missed, the last one {last}"
    then = "It runs now." if not slots[-1].skip else "It was not made up for."
    text = f"Task {first_line(schedule.prompt, 40)} ({schedule.id}): {missed}. {then}"
    key = f"missed:{schedule.id}:{slots[-1].slot}"
    say(tx, ids, schedule.conversation_id, Content(text, "notice", dated=True), key=key, at=at)


def withdraw_waiting(tx: Tx, schedule: Schedule, why: str, at: float) -> None:
    """Drop the occurrences that have not begun: their messages leave the inbox, and their rows end as skipped."""
    for run in tx.schedules.open_runs(schedule.id):
        row = tx.inbox.by_key(slot_key(run.schedule_id, run.slot))
        if run.state == "script" or (row is not None and tx.inbox.withdraw(row.id, at, why)):
            tx.schedules.save_run(replace(run, state="skipped", why=why, ended_at=at))


def unended_turns(tx: Tx, place: ConversationId) -> list[tuple[Schedule, Turn]]:
    """Return the turns of the schedules that a conversation made which have not ended."""
    ids = dict.fromkeys(run.schedule_id for run in tx.schedules.open_runs())
    made = [one for id in ids if (one := tx.schedules.get(id)) is not None and one.conversation_id == place]
    statuses = ("running", "waiting", "queued", "parked")
    return [(one, turn) for one in made for turn in tx.turns.of(task_place(place, one.id), statuses=statuses)]


def rewrite_waiting(tx: Tx, schedule: Schedule) -> None:
    """Give the occurrences that have not begun the schedule's new words."""
    for run in tx.schedules.open_runs(schedule.id):
        row = tx.inbox.by_key(slot_key(run.schedule_id, run.slot))
        if row is not None and row.status == "queued":
            tx.inbox.rewrite(row.id, _encode(replace(_decode(row.body), text=schedule.prompt)))


def ended_runs(tx: Tx) -> list[Run]:
    """Return the runs whose message is finished, in their final state."""
    waiting = [run for run in tx.schedules.open_runs() if run.state == "waiting"]
    return [ended for run in waiting if (ended := _ended(tx, run)) is not None]


def _ended(tx: Tx, run: Run) -> Run | None:
    row = tx.inbox.by_key(slot_key(run.schedule_id, run.slot))
    if row is None:
        return replace(run, state="failed", why="its message is no longer stored", ended_at=run.created_at)
    match row.status:
        case "done":
            why = "it was stopped" if row.why == "cancelled" else ""
            return replace(run, state="ran", why=why, ended_at=row.ended_at)
        case "failed":
            return replace(run, state="failed", why=row.why, ended_at=row.ended_at)
        case "withdrawn":
            return replace(run, state="skipped", why=row.why, ended_at=row.ended_at)
        case _:
            return None


def settle_ended(tx: Tx, ids: IdMaker, settings: Settings, at: float) -> None:
    """Write the final state of every run that ended."""
    for run in ended_runs(tx):
        _end(tx, ids, settings, run, at)


def script_ended(tx: Tx, ids: IdMaker, settings: Settings, run: Run, result: ScriptResult, at: float) -> None:
    """Go on after the script, unless the run or its schedule was dropped meanwhile."""
    schedule = tx.schedules.get(run.schedule_id)
    if schedule is None or run.slot not in [one.slot for one in tx.schedules.open_runs(run.schedule_id)]:
        return
    trouble = kind_of_error(result)
    if trouble and trouble != schedule.trouble:
        content = Content(error_text(schedule, result), "notice", dated=True)
        key = f"script:{schedule.id}:{run.slot}"
        say(tx, ids, schedule.conversation_id, content, key=key, at=at)
    if trouble != schedule.trouble:
        tx.schedules.save(replace(schedule, trouble=trouble))
    if result.error:
        why = f"its script failed: {result.error}"
        _end(tx, ids, settings, replace(run, state="failed", why=why, ended_at=at), at)
    elif not result.wake:
        _end(tx, ids, settings, replace(run, state="ran", why=NOTHING_TO_DO, ended_at=at), at)
    else:
        _put_message(tx, ids, settings, schedule, run.slot, result.data, at)
        tx.schedules.save_run(replace(run, state="waiting"))


def _end(tx: Tx, ids: IdMaker, settings: Settings, run: Run, at: float) -> None:
    tx.schedules.save_run(replace(run, ended_at=run.ended_at or at))
    schedule = tx.schedules.get(run.schedule_id)
    if run.state == "failed" and schedule is not None and not schedule.paused:
        tried = [one for one in tx.schedules.runs(run.schedule_id, limit=LOOKED_AT) if one.state != "skipped"]
        ended = [one.state for one in tried if one.ended_at is not None]
        if ended[:FAILURES] == ["failed"] * FAILURES and ended[FAILURES : FAILURES + 1] != ["failed"]:
            _ask_to_pause(tx, ids, settings, schedule, run.why, at)


def _ask_to_pause(tx: Tx, ids: IdMaker, settings: Settings, schedule: Schedule, why: str, at: float) -> None:
    if schedule.next_at is None:  # nothing is left to pause
        return
    ask = Ask(
        AskId(""),
        "approval",
        f"The task {schedule.id} ({first_line(schedule.prompt)}) failed three times in a row, the last time because: "
        f"{first_line(why, 200)} Pause it?",
        {"schedule": schedule.id},
        expires_at=at + settings.ask_timeout_s,
    )
    requesters = (schedule.by,) if schedule.by else ()
    authority = Authority(ORDINARY, requesters, folder_of(tx, settings, schedule))
    raise_ask(tx, ids, ask, topic=PAUSE, authority=authority, places=(schedule.conversation_id,), at=at)


def settle_pause(tx: Tx, ids: IdMaker, row: AskRow, decision: Decision, at: float) -> None:
    """Carry out the answer to "pause it?"."""
    schedule = tx.schedules.get(ScheduleId(str(row.ask.payload["schedule"])))
    if schedule is None or decision.verdict != "allow":
        return
    withdraw_waiting(tx, schedule, "its task was paused", at)
    tx.schedules.save(replace(schedule, paused=True))
    record(tx, at, decision.by or APP, "schedule.paused", schedule=schedule.id)
    text = f"Paused {schedule.id}. /tasks resume {schedule.id} starts it again."
    say(tx, ids, ConversationId(row.conversation_id), Content(text), key=f"pause:{row.ask.id}", at=at)
