"""`/tasks`: the schedules of a conversation. Members change their own ones, admins all of them.

A task is added with its time first: `/tasks add every 2h WORDS`, `/tasks add 0 9 * * 1-5 WORDS`, `/tasks add in 30m WORDS`.
Scripts are added on the machine, or by the agent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from msgspec import UNSET, Struct

from pilothouse.core.errors import ConfigError
from pilothouse.core.ids import ConversationId
from pilothouse.core.message import CommandButton
from pilothouse.core.schedule import Run, Schedule
from pilothouse.core.text import first_line
from pilothouse.runtime.commands.call import CommandCall, NotDone, Reply, refusal
from pilothouse.runtime.schedules.cron import find_zone
from pilothouse.runtime.schedules.operations import (
    Done,
    NewSchedule,
    ScheduleChange,
    add_schedule,
    cancel_schedule,
    find_schedule,
    list_schedules,
    log_of,
    pause_schedule,
    resume_schedule,
    run_now,
    update_schedule,
)
from pilothouse.runtime.schedules.times import describe_runs, describe_time, describe_timing

LISTED = 20
LOGGED = 10
USAGE = (
    "To add one: /tasks add every 2h WORDS · /tasks add 0 9 * * 1-5 WORDS · /tasks add in 30m WORDS · "
    "/tasks add 2026-12-24 18:00 WORDS."
)
VERBS = "/tasks run, pause, resume, edit, remove and log take the id of a task."
_WHEN = re.compile(
    r"(?P<cron>@\w+|[\d*][^\s]*(?:\s+[\d*?LA-Za-z][^\s]*){4})(?=\s|$)|every\s+(?P<every>\d+\s*[a-zA-Z]*)(?=\s|$)"
    r"|(?:in\s+(?P<span>\d+\s*[a-zA-Z]+)|(?:at\s+)?(?P<at>\d{4}-\d\d-\d\d(?:[T ]\d\d?:\d\d\S*)?))(?=\s|$)"
)
_FIELD = re.compile(r"[\d*/,\-?LW#]+|[A-Za-z]{3}(?:[-,][A-Za-z]{3})*")


class SaidTime(Struct, frozen=True):
    """The time at the beginning of a text, and the words after it."""

    cron: str = ""
    every: str = ""
    at: str = ""
    words: str = ""

    @property
    def is_given(self) -> bool:
        return bool(self.cron or self.every or self.at)


def split_time(text: str) -> SaidTime:
    """Split a text into the time that it begins with, and the rest."""
    text = text.strip()
    found = _WHEN.match(text)
    if found is None or (found["cron"] and not _is_cron(found["cron"])):
        return SaidTime(words=text)
    at = found["span"] or found["at"] or ""
    return SaidTime(found["cron"] or "", found["every"] or "", at, text[found.end() :].strip())


def _is_cron(text: str) -> bool:
    return text.startswith("@") or all(_FIELD.fullmatch(field) for field in text.split())


def show_tasks(call: CommandCall) -> Reply:
    verb, _, rest = call.args.partition(" ")
    try:
        if not verb or verb == "list":
            return _list(call)
        if verb in VERB_TABLE:
            return VERB_TABLE[verb](call, rest.strip())
        return _one(find_schedule(call.tx, verb, call.conversation.id), call)
    except ConfigError as error:
        return NotDone(str(error))


def _list(call: CommandCall) -> Reply:
    found = list_schedules(call.tx, call.conversation.id)
    if not found:
        return Reply(f"No tasks here. {USAGE}")
    lines = [line for one in found[:LISTED] for line in _lines(one, call.at)]
    more = [f"… and {len(found) - LISTED} more"] if len(found) > LISTED else []
    buttons = tuple(
        CommandButton(first_line(one.prompt, 40), f"/tasks {one.id}") for one in found[: LISTED // 2]
    )
    return Reply("\n".join([*lines, *more, VERBS]), buttons=buttons)


def _lines(schedule: Schedule, now: float) -> list[str]:
    state = "paused"
    if not schedule.paused and schedule.next_at is not None:
        state = f"next {describe_time(schedule.next_at, now, find_zone(schedule.zone))}"
    elif not schedule.paused:
        state = "no further run"
    return [
        f"· {first_line(schedule.prompt)}",
        f"  {describe_timing(schedule.timing)}, {state} · {schedule.id}",
    ]


def _one(schedule: Schedule, call: CommandCall, text: str = "") -> Reply:
    """Show one task, with buttons for what can be done with it."""
    switch = "resume" if schedule.paused else "pause"
    verbs = (("Run now", "run"), (switch.capitalize(), switch), ("Remove", "remove"), ("Log", "log"))
    buttons = tuple(CommandButton(label, f"/tasks {verb} {schedule.id}") for label, verb in verbs)
    about = "\n".join(_lines(schedule, call.at))
    said = text or f"{about}\n{describe_runs(schedule, call.at)}"
    return Reply(said, buttons=buttons)


def _add(call: CommandCall, rest: str) -> Reply:
    said = split_time(rest)
    if not said.is_given or not said.words:
        return NotDone(f"A task needs a time and words. {USAGE}")
    wish = NewSchedule(
        conversation_id=call.conversation.id,
        prompt=said.words,
        cron=said.cron,
        every=said.every,
        at=said.at,
        by=call.by.id,
    )
    done = add_schedule(call.tx, call.ids, call.settings, wish, call.at)
    return _one(done.schedule, call, done.text)


def _edit(call: CommandCall, rest: str) -> Reply:
    id, _, said_words = rest.partition(" ")
    said = split_time(said_words)
    _own(call, id)
    change = ScheduleChange(
        prompt=said.words or UNSET,
        cron=said.cron if said.is_given else UNSET,
        every=said.every if said.is_given else UNSET,
        at=said.at if said.is_given else UNSET,
    )
    done = update_schedule(
        call.tx, call.ids, call.settings, id, change, call.at, place=call.conversation.id, by=call.by.id
    )
    return _one(done.schedule, call, done.text)


def _run(call: CommandCall, id: str) -> Reply:
    _own(call, id)
    place = call.conversation.id
    return Reply(run_now(call.tx, call.ids, call.settings, id, call.at, place=place, by=call.by.id).text)


Simple = Callable[..., Done]


def _simple(deed: Simple) -> Callable[[CommandCall, str], Reply]:
    def run(call: CommandCall, id: str) -> Reply:
        _own(call, id)
        return Reply(deed(call.tx, id, call.at, place=call.conversation.id, by=call.by.id).text)

    return run


def _log(call: CommandCall, id: str) -> Reply:
    place: ConversationId = call.conversation.id
    runs = log_of(call.tx, id or None, place=place, limit=LOGGED)
    if not runs:
        return Reply("Nothing has run yet.")
    return Reply("\n".join(_run_line(run, call, named=not id) for run in runs))


def _run_line(run: Run, call: CommandCall, *, named: bool) -> str:
    schedule = call.tx.schedules.get(run.schedule_id)
    when = describe_time(run.slot, call.at, find_zone(schedule.zone if schedule else "UTC"))
    why = f": {first_line(run.why, 200)}" if run.why else ""
    of = f" · {run.schedule_id}" if named else ""
    return f"{when}{of} – {'running' if run.ended_at is None else run.state}{why}"


def _own(call: CommandCall, id: str) -> None:
    """Refuse members who did not make the task. Raises `ConfigError`."""
    schedule = find_schedule(call.tx, id, call.conversation.id)
    if schedule.by != call.by.id and (refused := refusal(call, "command.tasks.foreign")):
        raise ConfigError(refused.text)


VERB_TABLE: Mapping[str, Callable[[CommandCall, str], Reply]] = {
    "add": _add,
    "run": _run,
    "pause": _simple(pause_schedule),
    "resume": _simple(resume_schedule),
    "edit": _edit,
    "remove": _simple(cancel_schedule),
    "cancel": _simple(cancel_schedule),
    "log": _log,
}
