"""Whether jails can be made here is tried once, again after a failure, and never by a caller that must not wait."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from tests.isolation.canary import Stage, jails, no_log
from tests.isolation.test_jail import output, start

from pilothouse.core.isolation import Isolation
from pilothouse.isolation.jail import NOT_KNOWN, Jails
from pilothouse.isolation.support import AGAIN_S, MISSING, Support, Trial
from pilothouse.processes import Launcher
from pilothouse.processes.errors import SpawnFailed

WITHIN_S = 60.0
THERE = Support("/usr/bin/bwrap")


class Machine:
    """Says what a trial finds, and counts trials; `held` makes them hang."""

    def __init__(self, *found: Support) -> None:
        self.found = [*found]
        self.tried = 0
        self.at = 0.0
        self.free = threading.Event()
        self.free.set()
        self.done = threading.Semaphore(0)

    def now(self) -> float:
        return self.at

    def __call__(self) -> Support:
        assert self.free.wait(WITHIN_S)
        self.tried += 1
        self.done.release()
        return self.found.pop(0) if len(self.found) > 1 else self.found[0]


def test_a_success_counts_for_good_and_a_failure_for_a_while() -> None:
    machine = Machine(Support(problem=MISSING), THERE)
    trial = Trial(machine, machine.now)
    assert [trial.find(), trial.find()] == [Support(problem=MISSING)] * 2
    machine.at += AGAIN_S
    assert trial.find() == THERE
    machine.at += 1000 * AGAIN_S
    assert trial.find() == THERE
    assert machine.tried == 2


def test_who_must_not_wait_gets_the_last_result_while_a_thread_tries() -> None:
    machine = Machine(Support(problem=MISSING), THERE)
    trial = Trial(machine, machine.now)
    machine.free.clear()
    assert trial.known() is None
    machine.free.set()
    assert machine.done.acquire(timeout=WITHIN_S)
    assert trial.find().problem == MISSING
    machine.at += AGAIN_S
    machine.free.clear()
    known = trial.known()
    assert known is not None
    assert known.problem == MISSING
    machine.free.set()
    assert machine.done.acquire(timeout=WITHIN_S)
    assert trial.find() == THERE


async def test_reports_do_not_wait_for_a_trial_that_hangs_and_a_start_does(
    stage: Stage, tmp_path: Path
) -> None:
    machine, place = Machine(Support(problem=MISSING)), str(stage.workspace)
    machine.free.clear()
    made = Jails(lambda _: Isolation("jail"), jails(stage, tmp_path).places, no_log, machine)
    assert made.describe(place, "claude") == NOT_KNOWN
    assert made.isolation(place, "claude") == Isolation("jail"), "what is wanted, until it is known"
    machine.free.set()
    with pytest.raises(SpawnFailed, match="apt install bubblewrap"):
        await output(Launcher(made.open), start(stage, "echo ran"))
    assert made.describe(place, "claude") == MISSING
