"""`pilothouse tasks`: lists, adds, changes and removes tasks (schedules), runs one now, and shows what became of each run."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click
import msgspec
from msgspec import UNSET

from pilothouse.cli.options import json_option, limit_option
from pilothouse.cli.store import load_plain, read_store, store_and_settings, write_store
from pilothouse.cli.table import plain, print_json, print_table
from pilothouse.core.errors import ConfigError
from pilothouse.core.ids import ConversationId
from pilothouse.core.schedule import Run, Schedule

if TYPE_CHECKING:
    from pilothouse.core.store import Store, Tx
    from pilothouse.runtime.schedules.operations import Done
    from pilothouse.runtime.schedules.script import ScriptRuling
    from pilothouse.runtime.settings import Settings

NO_TASKS = "No tasks. To add one: pilothouse tasks add --every 2h 'Look at the open pull requests'"


class Judged(Protocol):
    def __call__(self, tx: Tx, /, *, ruling: ScriptRuling) -> Done: ...


NO_RUNS = "no task has run yet"
NO_GATEWAY = "{id} waits, because no gateway is running. Start one, and it runs at once: pilothouse up"

_times = (
    click.option("--cron", help="Five fields, like '0 9 * * 1-5', or @daily."),
    click.option("--every", help="A span: 15m, 2h, 1d."),
    click.option(
        "--at", help="2026-12-24T18:00, or 30m for in 30 minutes. With --cron or --every: the first run."
    ),
    click.option("--zone", help="The time zone of its times; default: budget.time_zone."),
    click.option(
        "--script", type=click.File("r"), help="A file with a bash script that runs first; '-' is stdin."
    ),
    click.option("--missed", type=click.Choice(["skip", "once", "all"]), help="What to do with missed runs."),
    click.option("--max-age", help="Never run what was due longer ago than this: 1h, 1d."),
    click.option(
        "--overlap", type=click.Choice(["skip", "queue"]), help="While the run before has not ended."
    ),
    click.option(
        "--own-session/--chat-session", default=None, help="Run apart from its conversation, or in it."
    ),
)


def _with_times(function: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(_times):
        function = option(function)
    return function


@click.group("tasks", invoke_without_command=True)
@json_option
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """List, add and change tasks: prompts that run at set times. `docs/schedules.md` describes them."""
    if context.invoked_subcommand is None:
        _print(as_json)


@command.command("list")
@click.option("--all", "over", is_flag=True, help="Also those that have no further run.")
@json_option
def list_tasks(over: bool, as_json: bool) -> None:
    """List the tasks, the next to run first."""
    _print(as_json, over=over)


@command.command("add")
@click.argument("words", nargs=-1, required=True)
@click.option("--to", help="The conversation that gets the answers, like telegram:12345.")
@_with_times
@json_option
def add(words: tuple[str, ...], to: str | None, as_json: bool, **said: Any) -> None:
    """Add a task: `pilothouse tasks add --cron '0 9 * * 1-5' 'Summarise the night'`."""
    from pilothouse.bootstrap.people import terminal_user
    from pilothouse.runtime.ports import new_id
    from pilothouse.runtime.schedules.operations import NewSchedule, add_schedule

    settings, values, at = _settings(), _values(said), time.time()

    def unit(tx: Tx, ruling: ScriptRuling) -> Done:
        wish = NewSchedule(
            conversation_id=_destination(tx, to), prompt=" ".join(words), by=terminal_user(), **values
        )
        return add_schedule(tx, new_id, settings, wish, at, ruling=ruling)

    folder = read_store(lambda tx: _folder(tx, settings, _destination(tx, to))) or ""
    _tell(_write(unit, values.get("script", ""), folder, settings), as_json)


@command.command("edit")
@click.argument("id")
@click.argument("words", nargs=-1)
@_with_times
@json_option
def edit(id: str, words: tuple[str, ...], as_json: bool, **said: Any) -> None:
    """Change a task: its words, its time, its script. A changed time counts at once."""
    from pilothouse.bootstrap.people import terminal_user
    from pilothouse.runtime.ports import new_id
    from pilothouse.runtime.schedules.operations import ScheduleChange, find_schedule, update_schedule

    settings, values, at = _settings(), _values(said), time.time()
    change = ScheduleChange(prompt=" ".join(words) if words else UNSET, **values)
    folder = read_store(lambda tx: find_schedule(tx, id).workspace) or ""

    def unit(tx: Tx, ruling: ScriptRuling) -> Done:
        return update_schedule(tx, new_id, settings, id, change, at, by=terminal_user(), ruling=ruling)

    _tell(_write(unit, values.get("script", ""), folder, settings), as_json)


@command.command("show")
@click.argument("id")
@json_option
def show(id: str, as_json: bool) -> None:
    """Show a task in full, with its script."""
    from pilothouse.runtime.schedules.operations import find_schedule
    from pilothouse.runtime.schedules.times import describe_runs, describe_timing

    found = read_store(lambda tx: find_schedule(tx, id))
    if found is None:
        raise ConfigError(f"There is no task {id!r}. There are no tasks.")
    if as_json:
        print_json(msgspec.to_builtins(found))
        return
    print(f"{found.id}: {describe_timing(found.timing)}. {describe_runs(found, time.time())}")
    print(f"To {found.conversation_id}, in {found.workspace or 'the folder of its conversation'}.")
    print(f"Missed runs: {found.missed}. Overlapping runs: {found.overlap}.\n\n{found.prompt}")
    if found.script:
        state = "approved" if found.approved else "not approved"
        print(f"\nScript ({state}):\n{found.script}")


@command.command("run")
@click.argument("id")
@json_option
def run(id: str, as_json: bool) -> None:
    """Run a task once, now. The running gateway starts it; without one, it waits for the next."""
    from pilothouse.bootstrap.people import terminal_user
    from pilothouse.cli.status import find_gateway
    from pilothouse.runtime.ports import new_id
    from pilothouse.runtime.schedules.operations import run_now

    settings = _settings()
    done = write_store(lambda tx: run_now(tx, new_id, settings, id, time.time(), by=terminal_user()))
    if find_gateway(read_store(lambda tx: tx.nodes.list()) or (), time.time()) is None:
        done = msgspec.structs.replace(done, text=NO_GATEWAY.format(id=done.schedule.id))
    _tell(done, as_json)


@command.command("pause")
@click.argument("id")
@json_option
def pause(id: str, as_json: bool) -> None:
    """Pause a task. What has not begun is dropped."""
    from pilothouse.bootstrap.people import terminal_user
    from pilothouse.runtime.schedules.operations import pause_schedule

    _tell(write_store(lambda tx: pause_schedule(tx, id, time.time(), by=terminal_user())), as_json)


@command.command("resume")
@click.argument("id")
@json_option
def resume(id: str, as_json: bool) -> None:
    """Resume a paused task with its next time."""
    from pilothouse.bootstrap.people import terminal_user
    from pilothouse.runtime.schedules.operations import resume_schedule

    _tell(write_store(lambda tx: resume_schedule(tx, id, time.time(), by=terminal_user())), as_json)


@command.command("remove")
@click.argument("id")
@json_option
def remove(id: str, as_json: bool) -> None:
    """Remove a task. A run that has begun goes on."""
    from pilothouse.bootstrap.people import terminal_user
    from pilothouse.runtime.schedules.operations import cancel_schedule

    _tell(write_store(lambda tx: cancel_schedule(tx, id, time.time(), by=terminal_user())), as_json)


@command.command("log")
@click.argument("id", required=False)
@limit_option
@json_option
def log(id: str | None, limit: int, as_json: bool) -> None:
    """Show what became of each run, the latest first: ran, skipped or failed, and why."""
    from pilothouse.runtime.schedules.operations import list_schedules, log_of

    found = read_store(lambda tx: (log_of(tx, id, limit=limit), list_schedules(tx, over=True)))
    runs, schedules = found or ([], [])
    if as_json:
        print_json(msgspec.to_builtins(runs))
        return
    zones = {one.id: one.zone for one in schedules}
    rows = [_run_row(one, zones.get(one.schedule_id, "UTC")) for one in runs]
    print_table(("TASK", "DUE", "STATE", "WHY"), rows, NO_RUNS, wrap=True)


def _run_row(run: Run, zone: str) -> tuple[str, str, str, str]:
    from pilothouse.runtime.schedules.cron import find_zone
    from pilothouse.runtime.schedules.times import describe_time

    state = "running" if run.ended_at is None else run.state
    return (
        run.schedule_id,
        describe_time(run.slot, time.time(), find_zone(zone)),
        state,
        plain(run.why) or "-",
    )


def _print(as_json: bool, *, over: bool = False) -> None:
    from pilothouse.runtime.schedules.operations import list_schedules

    found = read_store(lambda tx: list_schedules(tx, over=over)) or []
    if as_json:
        print_json({"tasks": msgspec.to_builtins(found)})
        return
    heads = ("TASK", "NEXT", "WHEN", "TO", "WORDS")
    print_table(heads, [_row(one) for one in found], NO_TASKS, optional=("TO",))


def _row(schedule: Schedule) -> tuple[str, ...]:
    from pilothouse.runtime.schedules.cron import find_zone
    from pilothouse.runtime.schedules.times import describe_time, describe_timing

    state = "paused" if schedule.paused else "-"
    if schedule.next_at is not None and not schedule.paused:
        state = describe_time(schedule.next_at, time.time(), find_zone(schedule.zone))
    when = describe_timing(schedule.timing)
    return schedule.id, state, when, schedule.conversation_id, plain(schedule.prompt)


def _values(said: dict[str, Any]) -> dict[str, Any]:
    """Returns the options that were given, as fields of a wish."""
    from pilothouse.runtime.schedules.times import read_span

    file = said.pop("script", None)
    values = {name: value for name, value in said.items() if value is not None}
    if file is not None:
        try:
            values["script"] = file.read()
        except UnicodeDecodeError as error:
            raise click.BadParameter(f"{file.name} is not a text in UTF-8") from error
    if age := values.pop("max_age", None):
        values["max_age_s"] = read_span(age)
    return values


def _settings() -> Settings:
    from functools import partial

    from pilothouse.bootstrap.people import make_approvals, make_people
    from pilothouse.config import find_zone, mode_in
    from pilothouse.core.ids import EngineId
    from pilothouse.runtime.settings import Settings

    loaded = load_plain()
    gateway = loaded.config.gateway
    return Settings(
        EngineId(gateway.default_engine),
        gateway.default_workspace,
        people=make_people(loaded.config),
        approvals=make_approvals(loaded.config),
        zone=find_zone(loaded.config.budget.time_zone),
        max_message_chars=gateway.max_message_chars,
        mode_in=partial(mode_in, loaded),
    )


def _destination(tx: Tx, to: str | None) -> ConversationId:
    """Returns the named conversation; without a name, the only one that there is."""
    if to is not None:
        return ConversationId(to)
    known = [one.id for one in tx.conversations.list(limit=50) if "~" not in one.id]
    if len(known) == 1:
        return known[0]
    there = f"There are: {', '.join(known[:10])}." if known else "Write a message to Pilothouse first."
    raise ConfigError(f"Name the conversation that gets the answers with --to. {there}")


def _folder(tx: Tx, settings: Settings, place: ConversationId) -> str:
    from pilothouse.runtime.conversations.binding import workspace_of

    return workspace_of(tx, place, settings.default_workspace)


def _write(unit: Judged, script: str, folder: str, settings: Settings) -> Done:
    """Judges the script, then runs the unit. A person at this terminal is an owner: only a rule that denies the script counts."""
    import asyncio
    from functools import partial

    from pilothouse.runtime.schedules.script import NO_SCRIPT, ScriptRuling

    if not script.strip():
        return write_store(partial(unit, ruling=NO_SCRIPT))

    async def write() -> Done:
        spec, store_settings = store_and_settings(load_plain())
        async with spec.open(store_settings) as store:
            ruling = await _judge(store, script, folder)
            owner = ruling if ruling.outcome == "deny" else ScriptRuling("allow")
            return await store.write(partial(unit, ruling=owner))

    return asyncio.run(write())


async def _judge(store: Store, script: str, folder: str) -> ScriptRuling:
    from pilothouse.bootstrap.policy import make_policy
    from pilothouse.config import ConfigHolder
    from pilothouse.core.policy import Site
    from pilothouse.runtime.schedules.script import ScriptRuling, script_ask

    policy = make_policy(store, ConfigHolder(load_plain(), load_plain))
    ruling = await policy.judge(script_ask(script, folder), Site(str(Path(folder)), mode="minimal"))
    return ScriptRuling(ruling.outcome, ruling.rule)


def _tell(done: Done, as_json: bool) -> None:
    if as_json:
        print_json({"task": msgspec.to_builtins(done.schedule), "text": done.text, "fresh": done.fresh})
    else:
        print(done.text)
