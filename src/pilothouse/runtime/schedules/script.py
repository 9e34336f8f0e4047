"""Pre-agent scripts: judged as a command when the schedule is made, bound to their hash, run before the agent.

The last line of the script's output is JSON: `{"wakeAgent": true, "data": …}`. With false nothing else happens, and no
model is called; with true the data goes into the prompt. Everything else is an error.
"""

from __future__ import annotations

import hashlib
import os
import re
from typing import Any

import msgspec
from msgspec import Struct, field

from pilothouse.core.ask import Ask, AskRow, Decision
from pilothouse.core.call import Call
from pilothouse.core.ids import AskId, IdMaker, ScheduleId, UserId
from pilothouse.core.message import Content, clean_text
from pilothouse.core.people import DESTRUCTIVE, Approvers, Authority
from pilothouse.core.policy import ApprovalMode, PolicyOutcome, Site
from pilothouse.core.schedule import Schedule
from pilothouse.core.store import Tx
from pilothouse.core.text import code_block, first_line
from pilothouse.runtime.asks.show import raise_ask
from pilothouse.runtime.audit import record
from pilothouse.runtime.outbox import say
from pilothouse.runtime.ports import Ports, ScriptEnd
from pilothouse.runtime.settings import Settings
from pilothouse.runtime.trust import StoredTrust, note_trust, stored_trust

SCRIPT = "schedule.script"
"""The topic of the ask."""
SCRIPT_S = 30.0
OUTPUT_BYTES = 1_000_000
SHOWN_CHARS = 1500
MOST_DATA = 100_000


class ScriptRuling(Struct, frozen=True):
    """The policy's decision about a script, and who may answer if it is to be asked."""

    outcome: PolicyOutcome = "ask"
    why: str = ""
    approvers: Approvers = DESTRUCTIVE


NO_SCRIPT = ScriptRuling()


class ScriptResult(Struct, frozen=True):
    """The result of a script: an `error`, or whether to wake the agent and with what."""

    wake: bool = False
    data: str = ""
    """One line of JSON; empty without data."""
    error: str = ""
    detail: str = ""
    """The end of its error output."""


class _LastLine(Struct):
    wake: bool = field(name="wakeAgent")
    data: Any = None


def hash_script(script: str) -> str:
    return hashlib.sha256(script.encode()).hexdigest()


def script_ask(script: str, workspace: str) -> Ask:
    """Return the ask that the policy judges."""
    call = Call("command", "script", cwd=workspace, command=script)
    payload = {"tool": "script", "input": {"command": script}, "cwd": workspace}
    return Ask(AskId(""), "approval", "Run the script of a task?", payload, call=call)


async def judge_script(ports: Ports, script: str, workspace: str, mode: ApprovalMode) -> ScriptRuling:
    """Judge a script as the policy judges a command of an agent. Call it outside of a transaction."""
    ask = script_ask(script, workspace)
    ruling = await ports.policy.judge(ask, Site(workspace, mode=mode))
    ports.trail.note_ruling(ports.clock.now(), ask, ruling, cwd=workspace)
    kind = ports.tool_class(ask.call, workspace)
    return ScriptRuling(ruling.outcome, ruling.rule, ports.settings().approvals.get(kind, DESTRUCTIVE))


def ask_about_script(
    tx: Tx, ids: IdMaker, settings: Settings, schedule: Schedule, ruling: ScriptRuling, at: float
) -> None:
    """Ask the people who may approve such a command."""
    requesters = (schedule.by,) if schedule.by else ()
    shown = schedule.script if len(schedule.script) <= SHOWN_CHARS else f"{schedule.script[:SHOWN_CHARS]}\n…"
    cut = (
        f"\n`pilothouse tasks show {schedule.id}` shows all {len(schedule.script):,} characters."
        if shown != schedule.script
        else ""
    )
    ask = Ask(
        AskId(""),
        "approval",
        f"Let the task {schedule.id} ({first_line(schedule.prompt)}) run this script in {schedule.workspace} before "
        f"each of its runs?\n{code_block(shown, 'bash')}{cut}",
        {"schedule": schedule.id, "sha256": hash_script(schedule.script)},
        why=ruling.why,
        expires_at=at + settings.ask_timeout_s,
    )
    authority = Authority(ruling.approvers, requesters=requesters, workspace=schedule.workspace)
    places = (schedule.conversation_id,)
    raise_ask(tx, ids, ask, topic=SCRIPT, authority=authority, places=places, at=at)


def settle_script(tx: Tx, ids: IdMaker, row: AskRow, decision: Decision, at: float) -> None:
    """Carry out the answer. A yes covers exactly the script that was shown; a no pauses the schedule."""
    schedule = tx.schedules.get(ScheduleId(str(row.ask.payload["schedule"])))
    if schedule is None or hash_script(schedule.script) != row.ask.payload["sha256"]:
        return
    allowed = decision.verdict == "allow"
    if allowed:
        schedule = msgspec.structs.replace(schedule, approved=str(row.ask.payload["sha256"]))
    else:
        schedule = msgspec.structs.replace(schedule, paused=True)
    tx.schedules.save(schedule)
    by = decision.by or UserId("")
    record(tx, at, by, "schedule.script", schedule=schedule.id, allowed=allowed)
    text = (
        f"The script of {schedule.id} is approved."
        if allowed
        else f"The script of {schedule.id} was not approved, so the task is paused."
    )
    say(tx, ids, schedule.conversation_id, Content(text), key=f"script:{row.ask.id}", at=at)


async def run_script(ports: Ports, schedule: Schedule, workspace: str) -> ScriptResult:
    """Run the script, and read its last line."""
    if hash_script(schedule.script) != schedule.approved:
        return ScriptResult(error="its script is not approved")
    real, stored = await ports.read(lambda tx: _trust_in(tx, workspace))
    await note_trust(ports.settings(), stored, real)
    return read_result(await ports.run_script(schedule.script, workspace, SCRIPT_S, OUTPUT_BYTES))


def _trust_in(tx: Tx, workspace: str) -> tuple[str, StoredTrust]:
    real = os.path.realpath(workspace)
    return real, stored_trust(tx, real)


def read_result(end: ScriptEnd) -> ScriptResult:
    detail = clean_text(end.stderr.strip())[-SHOWN_CHARS:]
    if end.problem:
        return ScriptResult(error=end.problem, detail=detail)
    if end.exit_code != 0:
        return ScriptResult(error=f"it ended with exit code {end.exit_code}", detail=detail)
    try:
        last = msgspec.json.decode(end.last_line, type=_LastLine)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError):
        shown = first_line(end.last_line.decode("utf-8", "replace")) or "nothing"
        return ScriptResult(error=f"its last line is {shown}, and not JSON with wakeAgent", detail=detail)
    data = "" if last.data is None else clean_text(msgspec.json.encode(last.data).decode())
    if len(data) > MOST_DATA:
        return ScriptResult(error=f"its data has {len(data):,} characters; at most {MOST_DATA:,} are allowed")
    return ScriptResult(wake=last.wake, data=data)


def kind_of_error(result: ScriptResult) -> str:
    """Return the same text for the same error, whatever numbers and times stand in it."""
    return re.sub(r"[\d:.]+", "#", f"{result.error}\n{result.detail}")[:500] if result.error else ""


def error_text(schedule: Schedule, result: ScriptResult) -> str:
    """Tell people about a script that failed."""
    detail = f"\n{code_block(result.detail)}" if result.detail else ""
    return (
        f"The script of the task {schedule.id} ({first_line(schedule.prompt)}) failed: {result.error}.{detail}\n"
        "I say this once; it runs again at the task's next time."
    )
