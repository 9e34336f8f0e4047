"""A process and all its descendants, wherever they went.

Rules: nothing is signalled or reaped but by pid and start time. A descendant that was seen once stays known after it left
the group, the session and its parent. Each member is asked to end once. Only adopted orphans are reaped here: asyncio and
`subprocess` wait for their own children.
"""

import os
import signal
import sys
from contextlib import suppress
from typing import Protocol

from pilothouse.processes.procfs import (
    Marker,
    ProcessId,
    ProcessInfo,
    ancestors,
    carries,
    list_pids,
    read_process,
    variable_names,
)
from pilothouse.processes.subreaper import reap

KEPT_MARKER = "PILOTHOUSE_KEPT"
"""The environment variable of a keeper and of everything below it."""


class Tree(Protocol):
    """The part of a tree that stopping needs."""

    def refresh(self, *, thorough: bool = False) -> None: ...

    def alive(self) -> tuple[ProcessId, ...]: ...

    @property
    def is_settled(self) -> bool: ...

    def signal(self, signum: signal.Signals) -> None: ...


class ProcessTree:
    """The whole tree, by way of /proc.

    A process belongs if its parent does, if it is in the leader's session or group (exact until the leader is reaped: its
    zombie keeps the number), or if it carries the marker, no variable of `spared_name`, and is below none of `owners`.
    """

    def __init__(
        self,
        leader: int | None = None,
        marker: Marker | None = None,
        spared: frozenset[int] = frozenset(),
        spared_name: str = "",
        owners: frozenset[int] = frozenset(),
    ) -> None:
        self._leader = leader
        self._marker = marker
        self._spared = spared | owners
        self._owners = owners
        self._spared_name = spared_name
        self._members: dict[ProcessId, ProcessInfo] = {}
        self._looked_at: set[int] = set()
        self._unclear: set[ProcessId] = set()
        self._settled = False
        self._signalled: set[tuple[ProcessId, signal.Signals]] = set()
        if leader is not None and (info := read_process(leader)):
            self._members[info.id] = info

    def refresh(self, *, thorough: bool = False) -> None:
        """Find new members among the pids that were not there last time, or, if `thorough`, among all."""
        with suppress(OSError):  # no descriptor left: the next look finds them
            self._find(thorough=thorough)

    def alive(self) -> tuple[ProcessId, ...]:
        """Return the members that run. Collects adopted orphans that have ended."""
        return tuple(info.id for info in self._survey() if info.alive)

    @property
    def is_settled(self) -> bool:
        """False if the last look found a living member, or a process that ended while it was looked at: either may have
        left a child that was not seen."""
        return self._settled

    def signal(self, signum: signal.Signals) -> None:
        """Signal every living member, once each; SIGKILL every time."""
        if signum is signal.SIGKILL and self._leader is not None:
            # Needs no descriptor, and the kernel lets no fork slip through.
            GroupTree(self._leader).signal(signum)
        for info in self._survey():
            signalled = (info.id, signum) in self._signalled and signum is not signal.SIGKILL
            if info.alive and not signalled:
                self._signalled.add((info.id, signum))
                send_signal(info.id, signum)
                if info.stopped:
                    send_signal(info.id, signal.SIGCONT)

    def _find(self, *, thorough: bool) -> None:
        present = self._survey()
        pids = list_pids()
        fresh = (
            (pids if thorough else pids - self._looked_at) - {info.id.pid for info in present} - self._spared
        )
        candidates = {pid: info for pid in fresh if (info := read_process(pid))}
        verdicts = {pid: self._is_ours(info) for pid, info in candidates.items()}
        unclear = {candidates[pid].id for pid, ours in verdicts.items() if ours is None}
        self._looked_at = pids - {id.pid for id in unclear}
        known, vanished = len(self._members), len(fresh) - len(candidates)
        forking = any(info.alive for info in present)  # a child may have come after the list of pids
        self._adopt([candidates[pid] for pid, ours in verdicts.items() if ours], candidates)
        self._adopt(present, candidates)
        self._settled = not (forking or vanished) and unclear <= self._unclear and len(self._members) == known
        self._unclear = unclear

    def _survey(self) -> list[ProcessInfo]:
        infos = [info for member in self._members.values() if (info := _look_again(member))]
        present = [info for info in infos if not self._reap(info)]
        self._members = {info.id: info for info in present}
        return present

    def _reap(self, info: ProcessInfo) -> bool:
        """Collect an adopted orphan. The leader is not one: its status is awaited elsewhere."""
        if info.alive or info.parent != os.getpid() or info.id.pid == self._leader:
            return False
        return reap(info.id.pid)

    def _is_ours(self, info: ProcessInfo) -> bool | None:
        """Return None if it cannot be told yet."""
        if self._leader is not None and self._leader in (info.session, info.group):
            return True
        if self._marker is None or info.kernel:
            return False
        if self._spared_name and self._spared_name in variable_names(info.id.pid):
            return False
        found = carries(info.id.pid, self._marker)
        return False if found and self._owners & ancestors(info.id.pid) else found

    def _adopt(self, found: list[ProcessInfo], candidates: dict[int, ProcessInfo]) -> None:
        while found:
            self._members.update({info.id: info for info in found})
            parents = {info.id.pid for info in found}
            for pid in parents:
                candidates.pop(pid, None)
            found = [info for info in candidates.values() if info.parent in parents]


class GroupTree:
    """The process group, which is all that can be known without /proc."""

    def __init__(self, leader: int) -> None:
        self._leader = leader
        self._signalled: set[signal.Signals] = set()

    def refresh(self, *, thorough: bool = False) -> None:
        """A group has no list of members to bring up to date."""

    def alive(self) -> tuple[ProcessId, ...]:
        return (ProcessId(self._leader, 0),) if self._send(0) else ()

    @property
    def is_settled(self) -> bool:
        return True

    def signal(self, signum: signal.Signals) -> None:
        if signum is signal.SIGKILL or signum not in self._signalled:
            self._signalled.add(signum)
            self._send(signum)

    def _send(self, signum: int) -> bool:
        try:
            os.killpg(self._leader, signum)
        except (ProcessLookupError, PermissionError):  # macOS: a group of zombies only is "not permitted"
            return False
        return True


def send_signal(target: ProcessId, signum: signal.Signals) -> bool:
    """Signal exactly this process, never a later one with the same pid. Return False if it ended or is not ours."""
    try:
        if sys.platform == "linux":
            return _send_by_descriptor(target, signum)
        os.kill(target.pid, signum)
    except OSError:  # ended, another user's, or no descriptor left to make sure that it is the same
        return False
    return True


def _send_by_descriptor(target: ProcessId, signum: signal.Signals) -> bool:
    try:
        descriptor = os.pidfd_open(target.pid)
    except ProcessLookupError:
        return False
    except OSError:  # kernels before 5.3, or no descriptor left: check, then signal, with a small gap between
        return _is_still(target) and os.kill(target.pid, signum) is None
    try:
        if not _is_still(target):
            return False
        signal.pidfd_send_signal(descriptor, signum)
        return True
    finally:
        os.close(descriptor)


def _look_again(info: ProcessInfo) -> ProcessInfo | None:
    """Return the process as it is now, or as it was known if it cannot be read; None if it has ended."""
    try:
        now = read_process(info.id.pid)
    except OSError:
        return info
    return now if now is not None and now.id == info.id else None


def _is_still(target: ProcessId) -> bool:
    info = read_process(target.pid)
    return info is not None and info.id == target
