"""All that people and agents do with schedules, as plain functions over a transaction.

The command line, `/tasks` and the agent's tools call the same functions. Each takes `place`: the conversation whose
schedules may be reached, or None for all of them. A refusal is a `ConfigError` whose text is fit for a person.
After the transaction, the caller pokes `SCHEDULES`, `INBOX` and `OUTBOX`.

A script is judged before the transaction (`script.py`), and `ScriptRuling` brings the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from pilothouse.core.errors import ConfigError
from pilothouse.core.ids import ConversationId, IdMaker, ScheduleId, UserId
from pilothouse.core.message import clean_text
from pilothouse.core.policy import ApprovalMode
from pilothouse.core.schedule import DAY_S, At, Cron, Every, Missed, Overlap, Run, Schedule
from pilothouse.core.store import Tx
from pilothouse.core.text import first_line
from pilothouse.runtime.audit import record
from pilothouse.runtime.channel_status import serves_channels
from pilothouse.runtime.conversations.binding import narrowest, wishes_of, workspace_of
from pilothouse.runtime.schedules.cron import find_zone
from pilothouse.runtime.schedules.runs import begin_by_hand, rewrite_waiting, withdraw_waiting
from pilothouse.runtime.schedules.script import NO_SCRIPT, ScriptRuling, ask_about_script, hash_script
from pilothouse.runtime.schedules.slots import next_slot
from pilothouse.runtime.schedules.times import When, describe_runs, describe_timing, read_when, zone_name
from pilothouse.runtime.settings import Settings

MAX_PER_PLACE = 200
MAX_SCRIPT_CHARS = 20_000
WHEN_TASKS_RUN = "Tasks run only while `pilothouse up` or a terminal chat is open."
LONGEST_AGE_S = 31 * DAY_S


class NewSchedule(Struct, frozen=True, kw_only=True):
    """A schedule to be made. Exactly one of `cron` and `every`, or `at` alone for a single run."""

    conversation_id: ConversationId
    prompt: str
    cron: str = ""
    """Five fields, or `@daily` and its like."""
    every: str = ""
    """A span such as `15m`, `2h`, `1d`."""
    at: str = ""
    """ISO 8601, in `zone` unless it names one; or a span from now. With `cron` or `every`: the first run."""
    zone: str = ""
    """Empty for the configured one."""
    script: str = ""
    missed: Missed = "once"
    max_age_s: float = DAY_S
    overlap: Overlap = "skip"
    own_session: bool = True
    by: UserId = UserId("")
    """The person for whom it is made: its runs are skipped while they have no access."""
    id: ScheduleId = ScheduleId("")
    """Empty for a new one. A repeated call names the same id."""
    workspace: str = ""
    """Empty for that of its conversation."""
    mode: ApprovalMode | None = None
    """It never gets a wider approval mode than this; None for that of its conversation."""


class ScheduleChange(Struct, frozen=True, kw_only=True):
    """The fields to change; an empty `script` or `at` removes it, an empty recurrence makes it a single run."""

    prompt: str | UnsetType = UNSET
    cron: str | UnsetType = UNSET
    every: str | UnsetType = UNSET
    at: str | UnsetType = UNSET
    zone: str | UnsetType = UNSET
    script: str | UnsetType = UNSET
    missed: Missed | UnsetType = UNSET
    max_age_s: float | UnsetType = UNSET
    overlap: Overlap | UnsetType = UNSET
    own_session: bool | UnsetType = UNSET


class Done(Struct, frozen=True):
    """A schedule after an operation, and the sentence about it."""

    schedule: Schedule
    text: str
    fresh: bool = True
    """False if the same schedule existed already."""


def add_schedule(
    tx: Tx,
    ids: IdMaker,
    settings: Settings,
    wish: NewSchedule,
    at: float,
    *,
    ruling: ScriptRuling = NO_SCRIPT,
) -> Done:
    """Add a schedule. The same one twice (conversation, prompt, timing, script) is one: its id is returned."""
    prompt, script = _checked_prompt(wish.prompt, settings), _checked_script(wish.script)
    zone = wish.zone.strip() or zone_name(settings.zone)
    when = read_when(cron=wish.cron, every=wish.every, at=wish.at, zone=zone, now=at)
    _check_age(wish.max_age_s)
    if tx.conversations.get(wish.conversation_id) is None:
        raise ConfigError(f"There is no conversation {wish.conversation_id}. {_known_places(tx)}")
    known = tx.schedules.of(wish.conversation_id)
    for one in known:
        is_same = (one.prompt, one.script) == (prompt, script) and _is_same(one, when, explicit=bool(wish.at))
        if is_same or one.id == wish.id:
            return Done(one, f"This task exists already: {one.id}. {describe_runs(one, at)}", fresh=False)
    if sum(map(is_alive, known)) >= MAX_PER_PLACE:
        raise ConfigError(
            f"This conversation has {MAX_PER_PLACE} tasks, which is the most. Remove one first."
        )
    schedule = Schedule(
        wish.id or ScheduleId(ids("task")),
        wish.conversation_id,
        when.timing,
        prompt,
        wish.missed,
        when.first_at,
        overlap=wish.overlap,
        max_age_s=wish.max_age_s,
        own_session=wish.own_session,
        zone=zone,
        workspace=wish.workspace or workspace_of(tx, wish.conversation_id, settings.default_workspace),
        by=wish.by,
        mode=wish.mode or wishes_of(tx, wish.conversation_id).approval_mode,
        created_at=at,
        script=script,
        approved=hash_script(script) if script and ruling.outcome == "allow" else "",
    )
    _refuse_denied(script, ruling)
    tx.schedules.save(schedule)
    record(tx, at, wish.by, "schedule.added", schedule=schedule.id, timing=describe_timing(schedule.timing))
    waits = _ask_where_needed(tx, ids, settings, schedule, ruling, at)
    when_run = "" if serves_channels(tx, at) else f" {WHEN_TASKS_RUN}"
    return Done(schedule, f"Added {schedule.id}. {describe_runs(schedule, at)}{when_run}{waits}")


def list_schedules(tx: Tx, place: ConversationId | None = None, *, over: bool = False) -> list[Schedule]:
    """List schedules, the next to run first. Those without a further run are left out unless `over`."""
    return in_order(one for one in tx.schedules.of(place) if over or is_alive(one))


def is_alive(schedule: Schedule) -> bool:
    """True if it has a further run, or may get one by being resumed."""
    return schedule.next_at is not None or schedule.paused


def in_order(schedules: Iterable[Schedule]) -> list[Schedule]:
    return sorted(schedules, key=lambda one: (one.paused, one.next_at or 0.0))


def cancel_schedule(tx: Tx, id: str, at: float, *, place: ConversationId | None = None, by: str = "") -> Done:
    """Remove a schedule. An occurrence that has not begun is dropped; a running one goes on."""
    schedule = find_schedule(tx, id, place)
    withdraw_waiting(tx, schedule, "its task was removed", at)
    tx.schedules.remove(schedule.id)
    record(tx, at, by, "schedule.removed", schedule=schedule.id)
    return Done(schedule, f"Removed {schedule.id}: {first_line(schedule.prompt)}")


def pause_schedule(tx: Tx, id: str, at: float, *, place: ConversationId | None = None, by: str = "") -> Done:
    """Pause a schedule. An occurrence that has not begun is dropped."""
    schedule = replace(find_schedule(tx, id, place), paused=True)
    withdraw_waiting(tx, schedule, "its task was paused", at)
    tx.schedules.save(schedule)
    record(tx, at, by, "schedule.paused", schedule=schedule.id)
    return Done(schedule, f"Paused {schedule.id}. /tasks resume {schedule.id} starts it again.")


def resume_schedule(tx: Tx, id: str, at: float, *, place: ConversationId | None = None, by: str = "") -> Done:
    """Resume a paused schedule with its next slot; slots of the pause never run, and a first run that is ahead stays."""
    schedule = find_schedule(tx, id, place)
    if not schedule.paused:
        return Done(schedule, f"{schedule.id} is not paused. {describe_runs(schedule, at)}")
    is_ahead = schedule.next_at is not None and schedule.next_at > at
    next_at = schedule.next_at if is_ahead else next_slot(schedule.timing, at)
    if next_at is None:
        raise ConfigError(f"The time of {schedule.id} has passed. Give it a new one, or run it now.")
    schedule = replace(schedule, paused=False, next_at=next_at)
    tx.schedules.save(schedule)
    record(tx, at, by, "schedule.resumed", schedule=schedule.id)
    return Done(schedule, f"Resumed {schedule.id}. {describe_runs(schedule, at)}")


def update_schedule(
    tx: Tx,
    ids: IdMaker,
    settings: Settings,
    id: str,
    change: ScheduleChange,
    at: float,
    *,
    place: ConversationId | None = None,
    most: ApprovalMode | None = None,
    by: str = "",
    ruling: ScriptRuling = NO_SCRIPT,
) -> Done:
    """Change a schedule. A changed time counts at once, also for a paused one; a changed script is judged anew. From then on
    it gets no wider approval mode than `most`."""
    before = find_schedule(tx, id, place)
    changes = {
        name: value for name in change.__struct_fields__ if (value := getattr(change, name)) is not UNSET
    }
    if not changes:
        raise ConfigError(
            "Nothing to change was named. Give a prompt, a time, a cron, `every`, a zone or a script."
        )
    plain = {
        name: changes[name] for name in ("missed", "overlap", "own_session", "max_age_s") if name in changes
    }
    _check_age(plain.get("max_age_s", before.max_age_s))
    schedule = replace(before, mode=narrowest(before.mode, most), **plain)
    if "prompt" in changes:
        schedule = replace(schedule, prompt=_checked_prompt(changes["prompt"], settings))
    if {"cron", "every", "at", "zone"} & changes.keys():
        when = _changed_when(schedule, changes, at)
        schedule = replace(schedule, timing=when.timing, next_at=when.first_at, zone=when.zone)
    if "script" in changes and (script := _checked_script(changes["script"])) != schedule.script:
        _refuse_denied(script, ruling)
        approved = hash_script(script) if script and ruling.outcome == "allow" else ""
        schedule = replace(schedule, script=script, approved=approved, trouble="")
    tx.schedules.save(schedule)
    rewrite_waiting(tx, schedule)
    record(tx, at, by, "schedule.changed", schedule=schedule.id, fields=sorted(changes))
    asked = schedule.script != before.script
    waits = _ask_where_needed(tx, ids, settings, schedule, ruling, at) if asked else ""
    return Done(schedule, f"Changed {schedule.id}. {describe_runs(schedule, at)}{waits}")


def run_now(
    tx: Tx,
    ids: IdMaker,
    settings: Settings,
    id: str,
    at: float,
    *,
    place: ConversationId | None = None,
    by: str = "",
) -> Done:
    """Run a schedule once, now, also a paused one. Its own times stay as they are."""
    schedule = find_schedule(tx, id, place)
    begin_by_hand(tx, ids, settings, schedule, at)
    record(tx, at, by, "schedule.run", schedule=schedule.id)
    return Done(schedule, f"{schedule.id} runs now.")


def log_of(
    tx: Tx, id: str | None = None, *, place: ConversationId | None = None, limit: int = 20
) -> Sequence[Run]:
    """List what became of the slots, the latest first: of one schedule, or of all that may be reached."""
    if id is not None:
        return tx.schedules.runs(find_schedule(tx, id, place).id, limit=limit)
    if place is None:
        return tx.schedules.runs(limit=limit)
    runs = [run for one in tx.schedules.of(place) for run in tx.schedules.runs(one.id, limit=limit)]
    return sorted(runs, key=lambda run: run.slot, reverse=True)[:limit]


def find_schedule(tx: Tx, id: str, place: ConversationId | None = None) -> Schedule:
    """Find a schedule by its id, or by an unambiguous end or beginning of it. Raises `ConfigError`."""
    return find_among(tx.schedules.of(place), id)


def find_among(known: Sequence[Schedule], id: str) -> Schedule:
    said = id.strip().lower()
    exact = [one for one in known if one.id == said]
    found = exact or [one for one in known if said and (one.id.startswith(said) or one.id.endswith(said))]
    if len(found) == 1:
        return found[0]
    if found:
        raise ConfigError(f"{said[:40]!r} fits {len(found)} tasks: {', '.join(one.id for one in found[:5])}.")
    there = f"There are: {', '.join(one.id for one in known[:10])}." if known else "There are no tasks."
    raise ConfigError(f"There is no task {said[:40]!r}. {there}")


def _changed_when(schedule: Schedule, changes: dict[str, str], at: float) -> When:
    """Read the timing anew: what was not named stays. Without its recurrence it runs once more."""
    zone = changes.get("zone", "").strip() or schedule.zone
    if not {"cron", "every", "at"} & changes.keys():
        return _in_zone(schedule, zone, at)
    kept = {} if {"cron", "every"} & changes.keys() else msgspec.to_builtins(schedule.timing)
    cron = changes.get("cron", kept.get("expression", ""))
    every = changes.get("every", f"{kept['every_s']:.0f}s" if "every_s" in kept else "")
    first = changes.get("at", "")
    if cron or every or first:
        return read_when(cron=cron, every=every, at=first, zone=zone, now=at)
    return _in_zone(replace(schedule, timing=At(schedule.next_at or at)), zone, at)


def _in_zone(schedule: Schedule, zone: str, at: float) -> When:
    """Change the zone alone. A cron means the hours of the new one; a first run that is ahead stays where it is."""
    find_zone(zone)
    if schedule.next_at is None:
        raise ConfigError(f"{schedule.id} has no further run. Give it a time.")
    timing, next_at = schedule.timing, schedule.next_at
    if isinstance(timing, Cron):
        starts_later = next_at > (next_slot(timing, at) or next_at)
        timing = replace(timing, zone=zone)
        next_at = next_at if starts_later else next_slot(timing, at) or next_at
    return When(timing, next_at, zone)


def _checked_prompt(prompt: str, settings: Settings) -> str:
    prompt = clean_text(prompt).strip()
    if not prompt:
        raise ConfigError("The task has no words. Say what is to be done.")
    if len(prompt) > settings.max_message_chars:
        raise ConfigError(
            f"The task has {len(prompt):,} characters; at most {settings.max_message_chars:,} are allowed. "
            "Put the rest into a file of the folder, and name it."
        )
    return prompt


def _checked_script(script: str) -> str:
    script = script.strip("\n") if script.strip() else ""
    if len(script) > MAX_SCRIPT_CHARS:
        raise ConfigError(
            f"The script has {len(script):,} characters; at most {MAX_SCRIPT_CHARS:,} are allowed. "
            "Put it into a file of the folder, and call that."
        )
    if clean_text(script) != script:
        raise ConfigError("The script contains characters that no shell can read. Remove NUL characters.")
    return script


def _check_age(max_age_s: float) -> None:
    if not 60.0 <= max_age_s <= LONGEST_AGE_S:
        raise ConfigError("The maximum age of a missed run is 1 minute to 31 days.")


def _refuse_denied(script: str, ruling: ScriptRuling) -> None:
    if script and ruling.outcome == "deny":
        raise ConfigError(f"The script may not run: {ruling.why}. The task was not saved.")


def _ask_where_needed(
    tx: Tx, ids: IdMaker, settings: Settings, schedule: Schedule, ruling: ScriptRuling, at: float
) -> str:
    if not schedule.script or schedule.approved:
        return ""
    ask_about_script(tx, ids, settings, schedule, ruling, at)
    return " Its script waits for approval; until then nothing runs."


def _is_same(schedule: Schedule, when: When, *, explicit: bool) -> bool:
    """Compare timings. The start of an interval counts only if somebody named it."""
    if isinstance(schedule.timing, Every) and isinstance(when.timing, Every) and not explicit:
        return schedule.timing.every_s == when.timing.every_s
    return schedule.timing == when.timing


def _known_places(tx: Tx) -> str:
    known = [one.id for one in tx.conversations.list(limit=50) if "~" not in one.id]
    return f"There are: {', '.join(known[:10])}." if known else "Nobody has written to Pilothouse yet."
