"""Processes of an agent: their environment, the jails around it, and the scripts of schedules.

A jail hides what is ours. A script is bash in the workspace, through the launcher of everything that agents run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial

import anyio

from pilothouse.bootstrap.policy import own_files
from pilothouse.config import ConfigHolder, Loaded, isolation_in
from pilothouse.core.engine import NODE_MARKER, Jail, ProcessStart
from pilothouse.core.isolation import Isolation
from pilothouse.isolation.jail import Jails, Places
from pilothouse.lanes.operations import worktrees_in
from pilothouse.runtime.ports import ScriptEnd

INSTRUCTIONS = "CLAUDE.md"


def make_jails(holder: ConfigHolder, log: Callable[..., None]) -> Jails:
    loaded = holder.loaded
    hidden = own_files(loaded.paths, loaded.config)
    home = os.path.realpath(os.path.expanduser("~"))
    uploads = str(loaded.paths.data_dir / "uploads")
    places = Places(str(loaded.paths.state_dir / "jails"), hidden, home, uploads)
    lanes = str(worktrees_in(loaded.paths.data_dir))
    return Jails(partial(_settings, holder), places, log, lanes=lanes)


def container_instructions(holder: ConfigHolder, workspace: str, trusted: bool) -> tuple[str, ...]:
    """Return the two CLAUDE.md files that are the system prompt in a container. A folder's own counts if it is trusted."""
    isolation = isolation_in(holder.loaded, workspace)
    if isolation.kind != "container":
        return ()
    folders = (isolation.container.global_folder, *((workspace,) if trusted else ()))
    return tuple(os.path.join(folder, INSTRUCTIONS) for folder in folders)


def _settings(holder: ConfigHolder, workspace: str) -> Isolation:
    return isolation_in(holder.loaded, workspace)


def engine_environment(environ: Mapping[str, str], loaded: Loaded) -> dict[str, str]:
    """Returns the environment without our own variables, which may hold secrets, and without channels' tokens.

    An engine's `environment` setting cannot bring them back."""
    leaves = [leaf for key, leaf in loaded.leaves.items() if key[0] == "channels"]
    ours = {"DISCORD_TOKEN"} | {leaf.source for leaf in leaves}
    ours |= {name for leaf in leaves for name in leaf.names if leaf.value in loaded.secrets}
    return {
        name: value
        for name, value in environ.items()
        if not name.startswith("PILOTHOUSE") and name not in ours
    }


async def run_script(
    environment: Mapping[str, str],
    marker: str,
    script: str,
    folder: str,
    within_s: float,
    most_bytes: int,
    *,
    jail: Jail = nullcontext,
) -> ScriptEnd:
    """Run a script to its end, or stop it with all that it started when it takes too long or writes too much."""
    from pilothouse.processes import Launcher, ProcessLimits, SpawnFailed, allowed_environment

    own = allowed_environment(environment, extra={NODE_MARKER: marker})
    start = ProcessStart("task script", ("bash", "-c", script), folder, own, workspace=folder)
    last, problem, size, exit_code = b"", "", 0, None
    try:
        async with Launcher(jail).open(start, ProcessLimits(max_line_bytes=most_bytes + 1)) as process:
            process.close_input()
            with anyio.move_on_after(within_s) as limit:
                async for line in process.lines():
                    size += len(line.data) + line.cut + 1
                    last = line.data or last
                    if size > most_bytes + 1:
                        problem = f"it wrote more than {most_bytes // 1_000_000} MB"
                        break
                else:
                    exit_code = await process.wait()
            if limit.cancelled_caught:
                problem = f"it took longer than {within_s:.0f} seconds"
            return ScriptEnd(last, process.stderr_tail(), exit_code, problem)
    except SpawnFailed as error:
        return ScriptEnd(problem=f"it did not start: {error}")
