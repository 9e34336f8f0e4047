"""What a jail may use: processes, memory, open files, core files. Nothing here starts more than 120 processes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.isolation.canary import NOT_TESTED, Stage, jails, need_jail, no_log
from tests.isolation.test_jail import output, start

from pilothouse.core.isolation import Isolation, Limits
from pilothouse.isolation.cgroup import (
    LEAF,
    Bases,
    enter_words,
    find_bases,
    look_for_bases,
    open_group,
    sweep_groups,
)
from pilothouse.isolation.jail import Jails
from pilothouse.isolation.limits import MB, PROCESSES, Bounds, bounds_of, describe_limits, limiter_words
from pilothouse.processes import Launcher

FORKS = "i=0; while [ $i -lt 120 ]; do sleep 30 & i=$((i+1)); done; echo all started"
"""A bounded one: without a limit it starts 120 processes."""
HOLDS = 'python3 -c \'held = bytearray(200_000_000); print("all", "held")\''
LIMITS = Limits(processes=40, open_files=128, memory_mb=100)


def need(controller: str) -> None:
    if controller not in find_bases().limited:
        pytest.skip(NOT_TESTED.format(why=f"no control group with {controller} can be made here"))


async def test_a_jail_starts_no_more_processes_than_it_may(stage: Stage, tmp_path: Path) -> None:
    need_jail()
    if os.geteuid() == 0:
        need("pids")
    script = {"argv": ["sh", "-c", FORKS]}
    held = await output(Launcher(jails(stage, tmp_path, limits=LIMITS).open), start(stage, "", **script))
    assert "all started" not in held
    assert "fork" in held
    free = await output(Launcher(jails(stage, tmp_path).open), start(stage, "", **script))
    assert "all started" in free


@pytest.mark.parametrize("grouped", [True, False])
async def test_a_jail_holds_no_more_memory_than_it_may(stage: Stage, tmp_path: Path, grouped: bool) -> None:
    need_jail()
    if grouped:
        need("memory")
    places, limited = jails(stage, tmp_path).places, Isolation("jail", limits=LIMITS)
    made = Jails(lambda _: limited, places, no_log, bases=find_bases if grouped else Bases)
    assert "all held" not in await output(Launcher(made.open), start(stage, HOLDS))
    assert "all held" in await output(Launcher(jails(stage, tmp_path).open), start(stage, HOLDS))


async def test_open_files_and_core_files_are_limited(stage: Stage, tmp_path: Path) -> None:
    need_jail()
    told = await output(
        Launcher(jails(stage, tmp_path, limits=LIMITS).open),
        start(stage, "ulimit -Hn; ulimit -Hc; ulimit -v"),
    )
    assert told.split() == ["128", "0", "unlimited"]


async def test_no_group_is_left_behind(stage: Stage, tmp_path: Path) -> None:
    need_jail()
    bases = find_bases()
    before = {name for _, base in bases.folders for name in os.listdir(base)}
    await output(Launcher(jails(stage, tmp_path).open), start(stage, "(setsid sleep 600 &); true"))
    after = {name for _, base in bases.folders for name in os.listdir(base)}
    assert not {name for name in after - before if name.startswith(f"pilothouse-{os.getpid()}-")}


def test_a_workspace_lowers_its_limits_and_never_raises_them() -> None:
    def bounds(limits: Limits, own: Limits) -> Bounds:
        return bounds_of(Isolation("jail", limits=limits, own_limits=own))

    assert bounds(Limits(), Limits()).processes == PROCESSES
    assert bounds(Limits(processes=9000), Limits()).processes == 9000
    assert bounds(Limits(processes=9000), Limits(processes=50)).processes == 50
    assert bounds(Limits(), Limits(processes=9000)).processes == PROCESSES
    usual = bounds(Limits(), Limits()).memory_bytes
    assert bounds(Limits(), Limits(memory_mb=10**9)).memory_bytes == usual
    assert bounds(Limits(), Limits(memory_mb=64)).memory_bytes == 64 * MB


def test_it_is_said_which_limits_hold() -> None:
    bounds = Bounds(100, 200, 2048 * MB)
    both = Bases((("memory", "/m"), ("pids", "/p")), 2)
    held, whole = describe_limits(bounds, both, is_root=True)
    assert (held, whole) == (
        "2.0 GB of memory together, 100 processes, 200 open files in each process, no core files",
        True,
    )
    told, whole = describe_limits(bounds, Bases(), is_root=True)
    assert "NOT limited" in told
    assert "in each process (no control group" in told
    assert not whole
    assert "NOT" not in describe_limits(bounds, Bases(), is_root=False)[0]
    assert any(word.startswith("--data=") for word in limiter_words(bounds, Bases()))
    assert not any(word.startswith(("--data=", "--as=")) for word in limiter_words(bounds, both))


def second_version(folder: Path, own: str) -> tuple[str, str]:
    """A tree as version 2 shows it; files of the kernel's are plain ones here."""
    here = folder / own.strip("/")
    here.mkdir(parents=True)
    (folder / "cgroup.controllers").write_text("memory pids")
    (folder / "ours").write_text(f"0::{own}\n")
    return str(folder), str(folder / "ours")


def test_a_group_of_version_2_gets_its_limits_and_is_removed_again(tmp_path: Path) -> None:
    mounted, ours = second_version(tmp_path, "/service/gateway")
    assert look_for_bases(mounted, ours) == Bases()  # nothing was given to us
    (tmp_path / "service" / "cgroup.procs").touch()
    bases = look_for_bases(mounted, ours)
    assert bases.limited == {"memory", "pids"}
    assert (tmp_path / "service" / "cgroup.subtree_control").read_text() == "+memory +pids"
    with open_group(bases, 5000, 7) as (folder,):
        assert Path(folder).parent == tmp_path / "service"
        assert (Path(folder) / "memory.max").read_text() == "5000"
        assert (Path(folder) / "pids.max").read_text() == "7"
        assert enter_words((folder,))[-2:] == [folder, "--"]
        for file in Path(folder).iterdir():
            file.unlink()  # the kernel's go with their folder
    assert not Path(folder).exists()


def test_a_gateway_that_is_alone_in_its_group_makes_room_for_jails_beside_it(tmp_path: Path) -> None:
    mounted, ours = second_version(tmp_path, "/service")
    procs, leaf = tmp_path / "service" / "cgroup.procs", tmp_path / "service" / LEAF
    procs.write_text(f"1\n{os.getpid()}\n")
    look_for_bases(mounted, ours)
    assert not leaf.exists()  # another one's process is not moved
    procs.write_text(f"{os.getpid()}\n")
    bases = look_for_bases(mounted, ours)
    assert (leaf / "cgroup.procs").read_text() == str(os.getpid())
    assert bases.folders[0] == ("memory", str(tmp_path / "service"))
    (leaf / "cgroup.procs").write_text(f"{os.getpid()}\n")
    (tmp_path / "ours").write_text(f"0::/service/{LEAF}\n")
    look_for_bases(mounted, ours)
    assert not (leaf / LEAF).exists()


def test_a_machine_without_groups_has_none(tmp_path: Path) -> None:
    assert look_for_bases(str(tmp_path), str(tmp_path / "missing")) == Bases()
    (tmp_path / "odd").write_text("nonsense\n0::/\n")
    assert look_for_bases(str(tmp_path), str(tmp_path / "odd")).folders == ()
    with open_group(Bases(), 1, 1) as folders:
        assert folders == ()
    assert enter_words(()) == []


def test_groups_of_a_killed_gateway_are_removed(tmp_path: Path) -> None:
    for name in ("pilothouse-999999999-aa", f"pilothouse-{os.getpid()}-bb", "other-999999999-aa"):
        (tmp_path / name).mkdir()
    sweep_groups(Bases((("memory", str(tmp_path)),), 2))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "other-999999999-aa",
        f"pilothouse-{os.getpid()}-bb",
    ]
