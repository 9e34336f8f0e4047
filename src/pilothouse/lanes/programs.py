"""The programs of a lane: git makes its worktree, and tmux holds its chat.

The worktree has a branch of its own, and a repository's hooks do not run. The chat is the only program of its tmux session:
when the chat ends, so does the session.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from subprocess import DEVNULL, PIPE

import anyio
from anyio.abc import ByteReceiveStream

from pilothouse.lanes.lane import LaneError
from pilothouse.processes.git import git_problem, safe_git

WITHIN_S = 30.0
FILES_WITHIN_S = 3600.0
"""For what reads, writes or removes every file of a repository."""
WORDS = 500


async def find_repository(folder: str) -> str:
    """Return the top folder of the repository around `folder`. Raises `LaneError` if a worktree cannot be made of it."""
    try:
        top = (await _git(folder, "rev-parse", "--show-toplevel")).strip()
    except LaneError as error:
        raise LaneError(f"{folder} is in no git repository. A lane needs one. ({error})") from None
    if problem := git_problem(top):
        raise LaneError(f"The git settings of {top} could run a program: {problem}. No lane was created.")
    return top


async def add_worktree(repository: str, path: str, branch: str, base: str) -> None:
    try:
        await _git(repository, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{base}^{{commit}}")
    except LaneError:
        known = await _git(repository, "rev-list", "--all", "--max-count=1")
        why = f"has no commit {base!r}" if known else "has no commits yet; make the first one"
        raise LaneError(f"The repository {repository} {why}.") from None
    await _git(repository, "worktree", "add", "-b", branch, "--", path, base, within_s=FILES_WITHIN_S)


async def is_dirty(path: str) -> bool:
    """Tell whether files were changed or added and not committed. A folder that is gone has none.

    Raises `LaneError` where git might run a program that an agent named in its worktree, such as a filter of a submodule."""
    if not await anyio.Path(path).is_dir():
        return False
    if problem := git_problem(path):
        raise LaneError(
            f"Cannot look for uncommitted changes in {path}: git could run a program there, because the repository {problem}. "
            "Look yourself, then close the lane with --force; this loses such changes."
        )
    return bool(await _git(path, "status", "--porcelain", within_s=FILES_WITHIN_S))


async def remove_worktree(repository: str, path: str, *, force: bool) -> None:
    """Remove the folder; its branch stays. A folder that is gone is forgotten.

    `-f` twice also removes a locked one: git locks a worktree until its checkout has ended."""
    exists = await anyio.Path(path).is_dir()
    if not await anyio.Path(repository).is_dir():
        if exists:
            raise LaneError(f"The repository {repository} is gone. Remove the folder {path} yourself.")
        return
    if exists:
        forced = ["-f", "-f"] if force else []
        await _git(repository, "worktree", "remove", *forced, "--", path, within_s=FILES_WITHIN_S)
    await _git(repository, "worktree", "prune")


async def remove_branch(repository: str, branch: str) -> None:
    await _git(repository, "branch", "-D", "--", branch)


async def _git(folder: str, *words: str, within_s: float = WITHIN_S) -> str:
    environment = safe_git(os.environ, trusted=False)
    return await run(["git", *words], cwd=folder, env=environment, within_s=within_s)


PASSED = (
    "HOME",
    "PATH",
    "LANG",
    "LC_ALL",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_CACHE_HOME",
    "PILOTHOUSE_HOME",
    "PILOTHOUSE_CONFIG",
)
"""The variables that say where things are. They are words of a command line, which every user can read, so no setting is
among them. Every other variable is that of the tmux server: the environment of the process that started it."""


MOST_TRIES, TRY_AGAIN_S = 10, 0.02
SERVER_ENDED = ("server exited unexpectedly", "lost server")


async def check_tmux() -> None:
    await run(["tmux", "-V"])


async def start_session(name: str, folder: str, argv: Sequence[str]) -> None:
    variables = [word for key in PASSED if key in os.environ for word in ("-e", f"{key}={os.environ[key]}")]
    command = ["tmux", "new-session", "-d", "-s", name, "-c", folder, *variables, "--", *argv]
    for tries_left in reversed(range(MOST_TRIES)):
        try:
            await run(command)
            return
        except LaneError as error:  # the server ended with its last session, and has not seen the command
            if not tries_left or not str(error).endswith(SERVER_ENDED):
                raise
        await anyio.sleep(TRY_AGAIN_S)


async def is_running(name: str) -> bool:
    try:
        await run(["tmux", "has-session", "-t", f"={name}"])
    except LaneError:
        return False
    return True


async def end_session(name: str) -> None:
    try:
        await run(["tmux", "kill-session", "-t", f"={name}"])
    except LaneError:
        if await is_running(name):
            raise


async def run(
    argv: Sequence[str],
    *,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    within_s: float = WITHIN_S,
) -> str:
    """Return what the command printed. Raises `LaneError` with its own words if it fails."""
    name = " ".join(argv[:2])
    try:
        with anyio.fail_after(within_s):
            code, printed, complaint = await _output(argv, cwd, env or os.environ)
    except FileNotFoundError:
        raise LaneError(f"{argv[0]} was not found. Install it: a lane needs git and tmux.") from None
    except TimeoutError:  # an `OSError` too
        raise LaneError(f"`{name}` did not end within {within_s:g} s.") from None
    except OSError as error:
        raise LaneError(f"`{name}` could not be started: {error}") from error
    if code:
        words = complaint.decode(errors="replace").strip()[-WORDS:] or f"exit code {code}"
        raise LaneError(f"`{name}` failed: {words}")
    return printed.decode(errors="replace")


async def _output(argv: Sequence[str], cwd: str | None, env: Mapping[str, str]) -> tuple[int, bytes, bytes]:
    """Return the exit code, and what was printed. `anyio.run_process` loses the pipes of a start that is cancelled."""
    with anyio.CancelScope(shield=True):
        process = await anyio.open_process(argv, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, cwd=cwd, env=env)
    printed, complaint = bytearray(), bytearray()
    async with process, anyio.create_task_group() as tasks:
        assert process.stdout and process.stderr
        tasks.start_soon(_read, process.stdout, printed)
        tasks.start_soon(_read, process.stderr, complaint)
    return await process.wait(), bytes(printed), bytes(complaint)


async def _read(stream: ByteReceiveStream, into: bytearray) -> None:
    async for portion in stream:
        into += portion
