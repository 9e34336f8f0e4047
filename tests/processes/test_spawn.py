"""Starting: the right environment, its own group, no stray descriptors, and errors that help."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.processes.programs import Launch, Program

from pilothouse.processes import PROCESS_MARKER, SpawnFailed, SpawnProblem, open_process

pytestmark = pytest.mark.anyio


def environment_of(pid: int) -> dict[str, str]:
    entries = Path(f"/proc/{pid}/environ").read_bytes().rstrip(b"\0").split(b"\0")
    return dict(entry.decode().split("=", 1) for entry in entries)


async def test_the_environment_holds_only_what_was_given(program: Program, tmp_path: Path) -> None:
    argv = program("print('up'); input()")
    async with open_process(argv, cwd=tmp_path, env={"PATH": os.environ["PATH"], "A": "1"}) as process:
        await anext(process.lines())
        seen = environment_of(process.pid)
    assert len(seen.pop(PROCESS_MARKER)) == 32
    assert seen == {"PATH": os.environ["PATH"], "A": "1"}


async def test_it_leads_its_own_session_in_its_folder(
    launch: Launch, program: Program, tmp_path: Path
) -> None:
    async with launch(program("import os; print(os.getpgrp(), os.getsid(0), os.getcwd())")) as process:
        line = await anext(process.lines())
        assert line.text == f"{process.pid} {process.pid} {tmp_path}"


async def test_it_inherits_no_descriptor_of_ours(launch: Launch, program: Program, tmp_path: Path) -> None:
    with open(tmp_path / "secret", "w") as secret:
        os.set_inheritable(secret.fileno(), True)
        async with launch(
            program("import os; print(sorted(map(int, os.listdir('/proc/self/fd'))))")
        ) as process:
            assert (await anext(process.lines())).text == "[0, 1, 2, 3]"  # 3 is the listing itself


def plain_file(folder: Path) -> str:
    path = folder / "plain.txt"
    path.write_text("no program")
    return str(path)


def without_interpreter(folder: Path) -> str:
    path = folder / "script"
    path.write_text("#!/no/such/interpreter\n")
    path.chmod(0o755)
    return str(path)


def not_a_program(folder: Path) -> str:
    path = folder / "noise"
    path.write_bytes(b"\x00\x01\x02")
    path.chmod(0o755)
    return str(path)


async def failure(argv: list[str], cwd: Path) -> SpawnFailed:
    with pytest.raises(SpawnFailed) as caught:
        async with open_process(argv, cwd=cwd, env={"PATH": "/usr/bin:/bin"}):
            pass
    assert caught.value.cwd == str(cwd)
    return caught.value


@pytest.mark.parametrize(
    ("argv0", "reason", "words"),
    [
        ("no-such-program-x", SpawnProblem.MISSING_PROGRAM, "not on the PATH. Install it"),
        ("/no/such/program", SpawnProblem.MISSING_PROGRAM, "no such file"),
        (without_interpreter, SpawnProblem.MISSING_PROGRAM, "interpreter"),
        (plain_file, SpawnProblem.NOT_EXECUTABLE, "chmod +x"),
        (not_a_program, SpawnProblem.NOT_EXECUTABLE, "no program"),
        ("nul\0byte", SpawnProblem.BAD_ARGUMENT, "NUL"),
    ],
)
async def test_what_cannot_start_says_why(
    argv0: str | Callable[[Path], str], reason: SpawnProblem, words: str, tmp_path: Path
) -> None:
    name = argv0 if isinstance(argv0, str) else argv0(tmp_path)
    error = await failure([name], tmp_path)
    assert (error.argv0, error.reason) == (name, reason)
    assert repr(name) in str(error)
    assert words in str(error)


async def test_where_a_program_was_looked_for_is_a_detail(tmp_path: Path) -> None:
    error = await failure(["no-such-program-x"], tmp_path)
    assert error.detail == "PATH=/usr/bin:/bin"
    assert "/usr/bin" not in str(error)


async def test_a_missing_folder_is_not_taken_for_a_missing_program(tmp_path: Path) -> None:
    error = await failure([sys.executable], tmp_path / "gone")
    assert error.reason is SpawnProblem.MISSING_FOLDER
    assert str(tmp_path / "gone") in str(error)


async def test_too_long_arguments_are_named(tmp_path: Path) -> None:
    assert (await failure(["/bin/true", "x" * 10_000_000], tmp_path)).reason is SpawnProblem.TOO_LONG


async def test_an_empty_command_is_refused(tmp_path: Path) -> None:
    assert (await failure([], tmp_path)).reason is SpawnProblem.BAD_ARGUMENT


async def test_an_error_of_the_caller_comes_out_as_it_is(launch: Launch, program: Program) -> None:
    with pytest.raises(KeyError, match="mine"):
        async with launch(program("input()")):
            raise KeyError("mine")


async def test_fifty_processes_leave_no_descriptor(launch: Launch, tmp_path: Path) -> None:
    async with launch(["/bin/true"]) as process:
        await process.wait()
    before = os.listdir("/proc/self/fd")
    for _ in range(50):
        async with launch(["/bin/sh", "-c", "echo hello"]) as process:
            assert (await anext(process.lines())).data == b"hello"
    await failure(["no-such-program-x"], tmp_path)
    assert len(os.listdir("/proc/self/fd")) == len(before)
