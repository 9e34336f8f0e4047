"""`bash`: one command, in a process tree of its own that ends with the call."""

from __future__ import annotations

from typing import Annotated

import anyio
from msgspec import Meta, Struct

from pilothouse.core.engine import ProcessStart
from pilothouse.engines.native.tools.tool import Output, Tool, ToolError, Workbench
from pilothouse.processes import Process, SpawnFailed, StopDeadlines

DEFAULT_S = 120.0
MAX_S = 300.0
MAX_BYTES = 10 * 1024 * 1024
SHELL = 'exec 2>&1 </dev/null; exec bash -c "$1"'
"""Both outputs are read as one, and nothing waits for input."""
DEADLINES = StopDeadlines(input_s=0.0, terminate_s=1.0, orphans_s=0.5)


class Input(Struct, frozen=True, forbid_unknown_fields=True):
    command: Annotated[str, Meta(description="The command for bash.")]
    timeout: Annotated[float | None, Meta(description="Seconds. Default 120, max 300.")] = None


class _Printed:
    """The output of a command, up to a bound. What was dropped is told first: the end of a long text is not shown."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._size = 0

    async def read(self, process: Process) -> None:
        while portion := await process.read_output():
            self._size += len(portion)
            self._kept += portion[: MAX_BYTES - len(self._kept)]

    def text(self) -> str:
        cut = f"[{self._size:,} bytes were printed; those after the first {MAX_BYTES:,} were dropped]\n"
        kept = self._kept.decode("utf-8", "replace").replace("\r\n", "\n").removesuffix("\n")
        return cut * (self._size > MAX_BYTES) + kept


async def run(given: Input, bench: Workbench) -> Output:
    wait_s = min(max(given.timeout or DEFAULT_S, 0.1), MAX_S)
    start = ProcessStart(
        "native command",
        ["bash", "-c", SHELL, "bash", given.command],
        bench.workspace,
        bench.environment,
        bench.workspace,
        bench.trusted,
    )
    printed = _Printed()
    try:
        async with bench.launcher.open(start) as process:
            code = await _wait(process, printed, wait_s)
    except SpawnFailed as error:
        raise ToolError(f"The command did not start: {error}") from error
    text = printed.text()
    if code is None:
        return Output(f"{text}\n[stopped after {wait_s:g} seconds]", ok=False)
    return Output(f"{text}\n[exit code {code}]" if code else text, ok=code == 0)


async def _wait(process: Process, printed: _Printed, wait_s: float) -> int | None:
    """Return the exit code, or None after the deadline. What the command left running is stopped with it."""
    process.close_input()
    code: int | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(printed.read, process)
        with anyio.move_on_after(wait_s):
            code = await process.wait()
        await process.stop(DEADLINES)
    return code


TOOL = Tool(
    "bash",
    "Run a bash command in the workspace and return its output and exit code.",
    "command",
    Input,
    run,
    title=("", "command"),
)
