"""One `claude` process in text mode: a prompt in argv, no input, one turn, and its log read beside it if wanted.

Rules: it is read to its end, or stopped with its whole tree; a log that never appears, or cannot be read, takes nothing
from the turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import anyio

from pilothouse.core.outcome import Failure
from pilothouse.engines.claude.failures import explain_spawn
from pilothouse.engines.claude.launch import Launch
from pilothouse.engines.claude.log_lines import LogTranslator
from pilothouse.engines.claude.mailbox import Mailbox
from pilothouse.engines.claude.session_log import LogTail, find_log, projects_folder
from pilothouse.engines.claude.text_mode import TextTranslator
from pilothouse.engines.claude.turns import Step
from pilothouse.processes import Process, SpawnFailed, StopDeadlines, open_process

LOOK_EVERY_S = 0.2
SHUT_DOWN = Failure("crash", "Claude Code was shut down.")


class TextProcess:
    """`mailbox` has its turn, and is closed after the end; `gone` is set when nothing of it is left."""

    def __init__(
        self,
        launch: Launch,
        translator: TextTranslator,
        log: Callable[..., None],
        *,
        scans: bool,
        grace_s: float = 3.0,
    ) -> None:
        self.mailbox = Mailbox()
        self.gone = anyio.Event()
        self._launch = launch
        self._translator = translator
        self._log = log
        self._grace_s = grace_s
        self._projects = projects_folder(launch.environment)
        self._tail = LogTail(self._find_log, skip=lambda size: size) if scans else None
        self._log_lines = LogTranslator()
        self._reading = anyio.CancelScope()

    async def run(self) -> None:
        """Its whole life; in the engine's task group."""
        try:
            await self._serve()
        except SpawnFailed as error:
            self._last(self._translator.fail(explain_spawn(error)))
        finally:
            self._last(self._translator.fail(SHUT_DOWN))
            self.mailbox.close()
            self.gone.set()

    def interrupt(self) -> None:
        self._translator.interrupted = True
        self._reading.cancel()

    def stop(self) -> None:
        self._reading.cancel()

    async def _serve(self) -> None:
        launch = self._launch
        async with open_process(launch.argv, cwd=launch.cwd, env=launch.environment) as process:
            process.close_input()  # it would wait three seconds for one that stays silent
            self._log("process.started", engine="claude", pid=process.pid, session=launch.session)
            async with anyio.create_task_group() as tasks:
                if self._tail is not None:
                    tasks.start_soon(self._watch, self._tail)
                with self._reading:
                    await self._read(process)
                tasks.cancel_scope.cancel()
            exit_code = await self._stop(process)
            self._log("process.ended", engine="claude", pid=process.pid, exit_code=process.exit_code)
            if self._tail is not None:
                self._look(self._tail)
            self._translator.begun = self._translator.begun or self._find_log() is not None
            self._last(self._translator.end(exit_code, process.stderr_tail()))

    async def _read(self, process: Process) -> None:
        async for line in process.lines():
            self._translator.feed(line.data)

    async def _stop(self, process: Process) -> int | None:
        """It has said all that it will say: what lingers then, it does so for nobody."""
        if self._reading.cancelled_caught:
            await process.stop(StopDeadlines(input_s=0.0, terminate_s=self._grace_s))
            return process.exit_code
        with anyio.move_on_after(self._grace_s):
            return await process.wait()
        await process.stop(StopDeadlines(input_s=0.0, terminate_s=self._grace_s))
        return 0

    async def _watch(self, tail: LogTail) -> None:
        while True:
            self._look(tail)
            await anyio.sleep(LOOK_EVERY_S)

    def _look(self, tail: LogTail) -> None:
        while lines := tail.read():
            steps = [step for line in lines for step in self._log_lines.feed(line)]
            self._last(self._translator.watch(steps))

    def _last(self, steps: Sequence[Step]) -> None:
        if steps:
            self.mailbox.put_last(steps)

    def _find_log(self) -> Path | None:
        return find_log(self._projects, self._launch.session, self._launch.cwd)
