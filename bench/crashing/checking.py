"""What must hold after a kill and a restart, read from the disk alone: the database, and what people saw.

A message is *lost* if it was acknowledged and is not there, not ended, or nobody was told how it ended. Something is
*doubled* if it was shown or done again and does not say so. A process that is *left* carries our marker. Whatever
else is wrong, a damaged database or an ask that did not do what it said, is *broken*, and counts as lost.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from bench.crashing.house import Home
from bench.crashing.journal import Journal

from pilothouse.core.message import AGAIN_MARK
from pilothouse.core.queue import PartRow
from pilothouse.core.schedule import split_task_place
from pilothouse.processes.procfs import Marker, carries, list_pids, read_process
from pilothouse.stores.sqlite.audit import AuditTable
from pilothouse.stores.sqlite.link import Link
from pilothouse.stores.sqlite.outbox import OutboxTable

ENDED = ("done", "failed", "withdrawn")
WAITED = "while this waited for an answer"
CUT_SHORT = "not run again"


class Fault(NamedTuple):
    kind: Literal["lost", "doubled", "left", "broken"]
    text: str


class Facts:
    """All that the checks look at, read once."""

    def __init__(self, home: Home, verdict: str) -> None:
        self.verdict = verdict
        self.database = sqlite3.connect(f"file:{home.database}?mode=ro", uri=True)
        self.link = Link(self.database)
        self.database.row_factory = sqlite3.Row
        self.inbox = self._all("SELECT * FROM inbox ORDER BY seq")
        self.outbox = self._all("SELECT * FROM outbox ORDER BY seq")
        self.turns = {row["id"]: row for row in self._all("SELECT * FROM turns ORDER BY seq")}
        self.asks = self._all("SELECT * FROM asks")
        self.events = self._all("SELECT * FROM events")
        self.seen = [line for line in home.seen.read() if line["effect"] == "send" and line["kind"] != "view"]
        self.said = {
            line["acked"]: line for line in home.people.read() if "place" in line and "acked" in line
        }
        self.places = {_key(line).partition("|")[0]: line["place"] for line in self.said.values()}
        """The scenario's name of each conversation."""
        self.world = Counter(line["done"] for line in Journal(home.world).read())

    def _all(self, sql: str) -> list[sqlite3.Row]:
        return self.database.execute(sql).fetchall()

    def parts(self, row: sqlite3.Row) -> list[PartRow]:
        return OutboxTable(self.link).parts(row["id"])

    def place_of(self, row: sqlite3.Row) -> str:
        """Where a message was sent; what a schedule says goes to the place that made it."""
        return self.places[split_task_place(row["conversation_id"])[0]]

    def place(self, name: str) -> list[dict[str, Any]]:
        return [line for line in self.seen if line["conversation"] == name]

    def chain(self, row: sqlite3.Row) -> set[str]:
        """The turns that a message led to: its own, and those that went on with an answer after a restart."""
        asked = [ask for ask in self.asks if row["why"] == f"answered {ask['id']}"]
        answered = {ask["turn_id"] or self._turn_of_tool(ask) for ask in asked}
        own = answered | ({row["turn_id"]} if row["turn_id"] else set[str]())
        waited = {
            self.turns[id]["session_id"]
            for id in own
            if WAITED in (self.turns[id]["failure"] or b"").decode()
        }
        later = {id for id, t in self.turns.items() if t["session_id"] in waited and t["cause"] == "answer"}
        return own | later

    def _turn_of_tool(self, ask: sqlite3.Row) -> str:
        """The turn that heard the answer to a question of a tool: a later one, if the answer had to be a message."""
        later = [row["turn_id"] for row in self.inbox if row["key"].endswith(f"|answer:{ask['id']}")]
        return later[0] if later else json.loads(ask["ask"])["payload"]["turn"]


def check(home: Home, verdict: str, *, scheduled: bool = True) -> list[Fault]:
    """Everything that is wrong. Call it when the restarted scenario has ended."""
    facts = Facts(home, verdict)
    rules = TOOL_RULES if home.library.exists() else RULES
    alone = (_the_schedule_ran_once, _the_exchange_came_back_once)
    rules = rules if scheduled else [rule for rule in rules if rule not in alone]
    try:
        return [fault for rule in rules for fault in rule(facts)] + list(_left(home))
    finally:
        facts.database.close()


def _acknowledged_is_kept(facts: Facts) -> Iterator[Fault]:
    rows = {row["key"]: row for row in facts.inbox}
    for native_id, line in facts.said.items():
        if _key(line) not in rows:
            yield Fault("lost", f"{native_id} was acknowledged and is not in the inbox")
    for row in facts.inbox:
        if row["status"] not in ENDED:
            yield Fault("lost", f"{row['key']} has not ended: {row['status']}")


def _every_message_has_one_outcome(facts: Facts) -> Iterator[Fault]:
    for row in facts.inbox:
        keys = {f"reply:{row['id']}"} if row["kind"] == "command" else {f"end:{t}" for t in facts.chain(row)}
        told = [out for out in facts.outbox if out["key"] in keys]
        if not told and not _stopped_before_it_ran(facts, row) and not _was_taken_in(facts, row):
            yield Fault("lost", f"{row['key']} ended as {row['status']} and nobody was told")
        if len(told) > 1:
            yield Fault("doubled", f"{row['key']} has {len(told)} outcomes")


def _stopped_before_it_ran(facts: Facts, row: sqlite3.Row) -> bool:
    """A turn that waits to run again is stopped by the command, and the reply to that says so."""
    turn = facts.turns.get(row["turn_id"])
    told = any("not be resumed" in line["text"] for line in facts.place("stop"))
    return bool(turn and turn["status"] == "cancelled" and told)


def _was_taken_in(facts: Facts, row: sqlite3.Row) -> bool:
    """A message of a person may join the turn that a wake announced: its own turn then has the answer, and the wake's has none."""
    turn = facts.turns.get(row["turn_id"])
    if row["kind"] != "wake" or turn is None or turn["status"] != "done" or turn["answer"]:
        return False
    told = {out["key"] for out in facts.outbox}
    beside = [
        one for one in facts.turns.values() if one["session_id"] == turn["session_id"] and one["answer"]
    ]
    return any(one["ended_at"] >= row["created_at"] and f"end:{one['id']}" in told for one in beside)


def _what_was_sent_was_seen(facts: Facts) -> Iterator[Fault]:
    shown = Counter((line["conversation"], _plain(line["text"])) for line in facts.seen)
    for row in facts.outbox:
        if _closed_before_it_was_shown(facts, row):
            continue
        if row["status"] != "done":
            yield Fault("lost", f"{row['key']} was not delivered: {row['status']} {row['why']}")
        place = facts.place_of(row)
        for part in facts.parts(row):
            if not shown[place, _plain(part.part.text)]:
                yield Fault("lost", f"part {part.index} of {row['key']} was never seen")


def _closed_before_it_was_shown(facts: Facts, row: sqlite3.Row) -> bool:
    """Nobody is asked any more what is answered."""
    closed = [ask["id"] for ask in facts.asks if ask["state"] != "open"]
    is_closed = any(row["key"].startswith(f"ask:{id}:") for id in closed)
    is_unsent = all(part.state == "pending" for part in facts.parts(row))
    return row["kind"] == "ask" and row["status"] == "withdrawn" and is_closed and is_unsent


def is_doubled(marks: Sequence[bool], meant: int) -> bool:
    """Each of what was meant to be said begins without its mark, unless nobody saw that; its repeats follow, then the next."""
    return marks.count(False) + marks[0] > meant


def _nothing_is_shown_twice_without_its_mark(facts: Facts) -> Iterator[Fault]:
    """A platform does not tell which turn a message is about: there the same may stand as often as it was to be said."""
    parts = [
        (facts.place_of(row), part)
        for row in facts.outbox
        if row["status"] != "withdrawn"
        for part in facts.parts(row)
    ]
    wanted = Counter((place, _plain(part.part.text)) for place, part in parts)
    times: dict[tuple[str, ...], list[bool]] = defaultdict(list)
    for line in facts.seen:
        about = (line["kind"], line["turn_id"], line.get("answers", ""))
        key = (line["conversation"], *about, _plain(line["text"]))
        times[key].append(AGAIN_MARK in line["text"])
    for key, marks in times.items():
        meant = 1 if key[2] else max(1, wanted[key[0], key[-1]])
        if is_doubled(marks, meant):
            yield Fault("doubled", f"shown {len(marks)} times, not each marked: {key}")


def _nothing_is_done_twice(facts: Facts) -> Iterator[Fault]:
    for deed, count in facts.world.items():
        if count > 1:
            yield Fault("doubled", f"{deed} was done {count} times")
    for native_id, line in facts.said.items():
        turns = [id for id, turn in facts.turns.items() if native_id in json.loads(turn["prompt"])["text"]]
        if len(turns) > 1:
            yield Fault("doubled", f"{native_id} was given to {len(turns)} turns")
        finals = {out["turn_id"] for out in facts.outbox if native_id in out["body"].decode()} - {None}
        if len(finals & set(turns)) > 1:
            yield Fault("doubled", f"{native_id} was answered by {len(finals)} turns")
        if not turns and not line["text"].startswith("/") and "reply" not in native_id:
            yield Fault("lost", f"{native_id} was given to no turn")


def _the_schedule_ran_once(facts: Facts) -> Iterator[Fault]:
    slots = [row for row in facts.inbox if row["kind"] == "task"]
    if len(slots) != 1:
        yield Fault("lost" if not slots else "doubled", f"the schedule gave {len(slots)} rows")
    runs = facts.database.execute("SELECT state FROM schedule_runs").fetchall()
    if len(runs) != 1 or runs[0][0] not in ("ran", "failed"):
        yield Fault("broken", f"the schedule's one slot ended as {[run[0] for run in runs]}")


def _the_exchange_came_back_once(facts: Facts) -> Iterator[Fault]:
    """One agent asked another: one request, and one answer, which a turn of the asking session was given."""
    requests = [row for row in facts.inbox if row["kind"] == "agent"]
    answers = [row for row in facts.inbox if row["key"].startswith("answer:")]
    if (len(requests), len(answers)) != (1, 1):
        kind: Literal["lost", "doubled"] = "doubled" if max(len(requests), len(answers)) > 1 else "lost"
        yield Fault(kind, f"an agent asked {len(requests)} times, and got {len(answers)} answers")
    for row in answers:
        turn = facts.turns.get(row["turn_id"])
        if turn is None or "SYSTEM RESPONSE" not in json.loads(turn["prompt"])["text"]:
            yield Fault("lost", f"{row['key']} was given to no turn")


def _the_agents_request_came_back_once(facts: Facts) -> Iterator[Fault]:
    """As above; but a kill may fall between the call of the tool and its effect, and then the turn is said to be cut short."""
    called = any(row["kind"] == "agent" for row in facts.inbox)
    texts = [line["text"] for line in facts.place("agent")]
    if called or any(text.startswith("Passed on.") for text in texts):
        yield from _the_exchange_came_back_once(facts)
    elif not any(CUT_SHORT in text for text in texts):
        yield Fault("lost", f"another agent was never asked: {texts}")


def _the_ask_did_what_it_said(facts: Facts) -> Iterator[Fault]:
    finals = [line["text"] for line in facts.place("approve")]
    cut = any(CUT_SHORT in text for text in finals)
    released, refused = (
        sum(text.startswith(word) and AGAIN_MARK not in text for text in finals)
        for word in ("Released.", "Not released: not today")
    )
    marked = any(AGAIN_MARK in text for text in finals if text.startswith(("Released.", "Not released:")))
    if facts.verdict == "deny":
        if facts.world["release"] or released:
            yield Fault("broken", "a denied release ran")
        if refused != 1 and not cut and not marked:
            yield Fault("broken", f"the denial was told {refused} times: {finals}")
    elif refused or (released != 1 and not cut and not marked):
        yield Fault("broken", f"an allowed release ended so: {finals}")
    elif released and not facts.world["release"]:
        yield Fault("broken", "a release was told that never ran")


def _nobody_is_asked_again_what_they_have_said(facts: Facts) -> Iterator[Fault]:
    given = Counter(
        (ask["session_id"], ask["payload_hash"]) for ask in facts.asks if ask["state"] == "answered"
    )
    for (session, _), count in given.items():
        if count > 1:
            yield Fault("doubled", f"in {session} the same was asked and answered {count} times")


def _the_question_got_its_answer(facts: Facts) -> Iterator[Fault]:
    finals = [line["text"] for line in facts.place("stop")]
    if not any(text.startswith("Painted: blue reply") or CUT_SHORT in text for text in finals):
        yield Fault("broken", f"the question's answer came to nothing: {finals}")


def _the_tools_did_what_they_said(facts: Facts) -> Iterator[Fault]:
    texts = [line["text"] for line in facts.place("agent")]
    told = sum(text.startswith("A word by a tool.") and AGAIN_MARK not in text for text in texts)
    marked = any(text.startswith("A word by a tool.") and AGAIN_MARK in text for text in texts)
    if told > 1:
        yield Fault("doubled", f"the message of a tool was shown {told} times")
    if not told and not marked and any(text.startswith("Told.") for text in texts):
        yield Fault("lost", "the message of a tool, which was told to be sent")


def _the_agents_question_got_its_answer(facts: Facts) -> Iterator[Fault]:
    """An answer that was taken reaches the agent once: as the result of its call, or as a message after a restart."""
    texts = [line["text"] for line in facts.place("agent")]
    heard = sum(
        text.startswith(("They said: blue", "They said later:")) and AGAIN_MARK not in text for text in texts
    )
    marked = any(text.startswith("They said") and AGAIN_MARK in text for text in texts)
    answers = [ask for ask in facts.asks if ask["topic"] == "agent-question" and ask["state"] == "answered"]
    if heard > 1:
        yield Fault("doubled", f"the answer reached the agent {heard} times")
    if answers and not heard and not marked:
        yield Fault("lost", f"an answer that was taken and reached nobody: {texts}")
    if not answers and not any(CUT_SHORT in text for text in texts):
        yield Fault("lost", f"the question of the agent was never answered: {texts}")


def _the_log_is_whole(facts: Facts) -> Iterator[Fault]:
    ends = Counter(row["turn_id"] for row in facts.events if json.loads(row["body"])["type"] == "turn_ended")
    for id, turn in facts.turns.items():
        if turn["status"] not in ("done", "failed", "cancelled"):
            yield Fault("lost", f"turn {id} has not ended: {turn['status']}")
        if ends[id] != 1:
            yield Fault("broken", f"the log of {id} has {ends[id]} ends")
    seqs: dict[str, list[int]] = defaultdict(list)
    for row in facts.events:
        seqs[row["conversation_id"]].append(row["seq"])
    for place, numbers in seqs.items():
        if sorted(numbers) != list(range(1, len(numbers) + 1)):
            yield Fault("broken", f"the log of {place} has gaps")


def _the_database_is_sound(facts: Facts) -> Iterator[Fault]:
    (answer,) = facts.database.execute("PRAGMA integrity_check").fetchone()
    if answer != "ok":
        yield Fault("broken", f"integrity_check: {answer}")
    if facts.database.execute("PRAGMA foreign_key_check").fetchall():
        yield Fault("broken", "a row refers to one that is not there")
    if not AuditTable(facts.link).verify().intact:
        yield Fault("broken", "the audit chain is not intact")


def _left(home: Home) -> Iterator[Fault]:
    marker = Marker("PILOTHOUSE_NODE", str(home.database))
    for pid in list_pids():
        info = read_process(pid)
        if info and info.alive and carries(pid, marker):
            yield Fault("left", f"process {pid} still runs")


def _plain(text: str) -> str:
    return " ".join(text.replace(AGAIN_MARK, "").split())


def _key(line: dict[str, Any]) -> str:
    """Under which the inbox knows what was said."""
    return line.get("key") or f"memory:{line['place']}|{line['acked']}"


RULES: tuple[Callable[[Facts], Iterator[Fault]], ...] = (
    _acknowledged_is_kept,
    _every_message_has_one_outcome,
    _what_was_sent_was_seen,
    _nothing_is_shown_twice_without_its_mark,
    _nothing_is_done_twice,
    _the_schedule_ran_once,
    _the_exchange_came_back_once,
    _the_ask_did_what_it_said,
    _nobody_is_asked_again_what_they_have_said,
    _the_question_got_its_answer,
    _the_log_is_whole,
    _the_database_is_sound,
)
_OF_OTHER_TALKS = (_the_ask_did_what_it_said, _the_question_got_its_answer, _the_exchange_came_back_once)
TOOL_RULES = (
    *(rule for rule in RULES if rule not in _OF_OTHER_TALKS),
    _the_tools_did_what_they_said,
    _the_agents_question_got_its_answer,
    _the_agents_request_came_back_once,
)
