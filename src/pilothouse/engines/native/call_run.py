"""Runs the calls of one reply: judged, then run, their results in the history before people see them.

Calls that only read run side by side; any other runs alone, in the order of the reply. Every call gets a result, also
after a plain "no", which ends the turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import anyio
import msgspec
from anyio.abc import TaskGroup
from msgspec import Struct
from msgspec.structs import replace

from pilothouse.core.event import PlanChanged, ToolFinished, ToolStarted, has_side_effects
from pilothouse.core.ids import CallId
from pilothouse.core.message import clean_text
from pilothouse.engines.native.approvals import Approvals
from pilothouse.engines.native.files import BadFile, real_path
from pilothouse.engines.native.history import Planned
from pilothouse.engines.native.messages import Result, TextPiece, Use
from pilothouse.engines.native.run_log import bounded_text
from pilothouse.engines.native.toolbox import Toolbox
from pilothouse.engines.native.tools.tool import Output, Tool, ToolError, Workbench
from pilothouse.engines.native.turn import NativeTurn
from pilothouse.engines.titles import short_output

NOT_RUN = "This call was not run: the turn was stopped before it."
BROKEN = (
    "The arguments are not a JSON object, so nothing was run. Make the call again. They began with: {start}"
)
UNKNOWN = "There is no tool {name!r}. The tools are: {names}."


class _Prepared(Struct, frozen=True):
    use: Use
    given: Struct | dict[str, Any]


class CallRunner:
    def __init__(
        self,
        tools: Toolbox,
        bench: Workbench,
        approvals: Approvals,
        turn: NativeTurn,
        log: Callable[..., None],
        now: Callable[[], float],
        *,
        may_search: bool = False,
    ) -> None:
        self.tools = tools
        self.may_search = may_search
        """The model's provider may search the web by itself, without a call of ours."""
        self._bench = bench
        self._approvals = approvals
        self._turn = turn
        self._log = log
        self._now = now
        self._closes = False
        self.stopped = False
        """A person said no, without a reason."""

    async def run(self, uses: Sequence[Use]) -> bool:
        """Run the calls; True if the turn ends with them. Words that came meanwhile keep it going."""
        self._closes = False
        for batch in batches(uses, self.tools):
            async with anyio.create_task_group() as tasks:
                for use in batch:
                    tasks.start_soon(self._run_one, use, tasks)
            if self.stopped:
                for id in self._bench.history.conversation.open_uses:
                    self._bench.history.add(Result(id, NOT_RUN, ok=False))
                return True
        return self._closes and not self._bench.history.conversation.is_steered

    async def run_alone(self, use: Use) -> None:
        """Run a call that no model made. Its output is what the turn says, and the model never sees it."""
        output = await self._show(use, is_in_history=False)
        await self._turn.say("call", TextPiece(0, output.text))

    async def _run_one(self, use: Use, tasks: TaskGroup) -> None:
        output = await self._show(use)
        if output.closes:
            self._closes = True
            await self._turn.say(f"done-{use.id}", TextPiece(0, output.text))
        if self.stopped:
            tasks.cancel_scope.cancel()

    async def _show(self, use: Use, *, is_in_history: bool = True) -> Output:
        """Run a call, and show it to people. Return its output, cut if it is too long."""
        bench, turn = self._bench, self._turn
        await turn.tell(ToolStarted(self.tools.describe(use)))
        output, denied = await self._perform(use)
        tool = self.tools.find(use.name)
        text = clean_text(output.text)
        if tool and tool.is_cached:
            text = bench.outputs.shorten(use.id, text)
        if output.plan is not None:
            bench.history.add(Planned(output.plan))
            await turn.tell(PlanChanged(output.plan))
        if is_in_history:
            bench.history.add(Result(use.id, text, output.ok, output.images))
        turn.log.add(
            "tool",
            self._now(),
            id=use.id,
            name=use.name,
            ok=output.ok,
            input=use.input,
            output=bounded_text(text),
        )
        await turn.tell(ToolFinished(CallId(use.id), output.ok, short_output(text), denied))
        return replace(output, text=text)

    async def _perform(self, use: Use) -> tuple[Output, str]:
        """Judge and run a call; return its output, and the rule that denied it."""
        tool = self.tools.find(use.name)
        if tool is None:
            return Output(
                UNKNOWN.format(name=use.name[:100], names=", ".join(self.tools.names)), ok=False
            ), ""
        if use.broken:
            return Output(BROKEN.format(start=use.broken[:200]), ok=False), ""
        try:
            prepared = self._prepare(tool, use)
            verdict = await self._approvals.consider(prepared.use)
            if verdict.refusal:
                self.stopped = self.stopped or verdict.stops
                return Output(verdict.refusal, ok=False), verdict.denied
            if verdict.use != prepared.use:
                prepared = self._prepare(tool, verdict.use)
            if has_side_effects(tool.kind):  # a kill must find it in the store: else the turn would run again
                await self._turn.settle()
            return await tool.run(prepared.given, self._bench), ""
        except ToolError as error:
            return Output(str(error), ok=False), ""
        except Exception as error:  # noqa: BLE001 - one tool call's fault is data
            self._log("native.tool_failed", tool=use.name, error=repr(error))
            return Output(f"The tool failed: {type(error).__name__}: {error}", ok=False), ""

    def _prepare(self, tool: Tool, use: Use) -> _Prepared:
        """Check the input, and resolve its path. Raises `ToolError`."""
        try:
            if tool.path_key:
                use = replace(use, input=self._with_real_path(tool.path_key, use.input))
            return _Prepared(use, msgspec.convert(use.input, tool.input))
        except (msgspec.ValidationError, BadFile) as error:
            raise ToolError(f"The input of {use.name} is wrong: {error}") from error

    def _with_real_path(self, key: str, given: dict[str, Any]) -> dict[str, Any]:
        """Resolve the path of an input; a folder to search is the workspace if none is named."""
        path = given.get(key, "." if key == "path" else None)
        return {**given, key: real_path(path, self._bench.workspace)} if isinstance(path, str) else given


def batches(uses: Sequence[Use], tools: Toolbox) -> Iterator[list[Use]]:
    """Put neighbours that only read together."""
    batch: list[Use] = []
    for use in uses:
        tool = tools.find(use.name)
        if tool is not None and tool.only_reads:
            batch.append(use)
            continue
        if batch:
            yield batch
        yield [use]
        batch = []
    if batch:
        yield batch
