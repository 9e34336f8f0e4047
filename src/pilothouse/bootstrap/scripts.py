"""Runs the scripts of schedules: bash in the workspace, through the launcher of everything that agents run."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext

import anyio

from pilothouse.core.engine import NODE_MARKER, Jail, ProcessStart
from pilothouse.runtime.ports import ScriptEnd


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
