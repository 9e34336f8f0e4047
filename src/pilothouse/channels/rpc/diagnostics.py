"""`run.diagnostics`: each request of a run to its model, and the sums of the run at its end.

The requests come from the engine's own log, which an engine in another process writes too. Engines whose program makes the
requests itself have none there; of their runs only the sums are told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import anyio.to_thread

from pilothouse.channels.rpc.notifications import (
    CacheFigures,
    LlmCall,
    ModelFigures,
    RunDiagnosticsParams,
    RunFigures,
    TokenFigures,
)
from pilothouse.channels.stdio_frames import FrameWriter
from pilothouse.core.outcome import ModelCallRecord, Usage
from pilothouse.core.turn import Turn

ReadCalls = Callable[[Turn], Sequence[ModelCallRecord]]


class Diagnostics:
    """The diagnostics of one client. Each request is told once, after its reply."""

    def __init__(self, writer: FrameWriter, read_calls: ReadCalls) -> None:
        self._writer = writer
        self._read = read_calls
        self._told: dict[str, int] = {}

    async def tell_calls(self, run_id: str, turn: Turn) -> Sequence[ModelCallRecord]:
        """Tell the requests that were answered since the last time. Return all of them."""
        calls = await anyio.to_thread.run_sync(self._read, turn, abandon_on_cancel=True)
        answered = [one for one in calls if one.duration_s is not None]
        new = answered[self._told.get(run_id, 0) :]
        self._told[run_id] = len(answered)
        for one in new:
            told = RunDiagnosticsParams(run_id, "llm_call", call=describe_call(run_id, one))
            await self._writer.notify("run.diagnostics", told)
        return answered

    async def tell_sums(self, run_id: str, turn: Turn, usage: Usage | None, at: float, events: int) -> None:
        """Tell the last requests and the sums of a run that ends."""
        calls = await self.tell_calls(run_id, turn)
        del self._told[run_id]
        began_at = turn.started_at or turn.created_at
        figures = sum_up(calls, usage, max(0, round((at - began_at) * 1000)), events)
        told = RunDiagnosticsParams(run_id, "run_summary", summary=figures)
        await self._writer.notify("run.diagnostics", told)


def describe_call(run_id: str, one: ModelCallRecord) -> LlmCall:
    provider, _, model = one.model.partition("/")
    read, written = one.cache_read_tokens or 0, one.cache_write_tokens or 0
    sent = (one.input_tokens or 0) + read + written
    known = one.input_tokens is not None
    took_s = one.duration_s or 0.0
    return LlmCall(
        run_id,
        one.seq,
        model or provider,
        _iso(one.at),
        _iso(one.at + took_s),
        round(took_s * 1000),
        CacheFigures(
            ("hit" if read else "miss") if known else "unknown",
            read,
            written,
            round(read / sent, 4) if sent else None,
        ),
        provider if model else "",
        one.stop,
        TokenFigures(sent, one.output_tokens or 0, sent + (one.output_tokens or 0), read, written)
        if known
        else None,
        one.cost_usd,
        one.problem,
    )


def sum_up(
    calls: Sequence[ModelCallRecord], usage: Usage | None, duration_ms: int, events: int
) -> RunFigures:
    """Add up the figures of a run: those that the engine told of it, and its requests by model."""
    usage = usage or Usage()
    read, written = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
    sent, output = (usage.input_tokens or 0) + read + written, usage.output_tokens or 0
    by_model: dict[str, ModelFigures] = {}
    for one in calls:
        by_model[one.model] = _add(by_model.get(one.model), one)
    return RunFigures(
        len(calls) or usage.steps or 0,
        sent + output,
        sent,
        output,
        read,
        written,
        by_model,
        duration_ms,
        events,
        usage.cost_usd,
    )


def _add(before: ModelFigures | None, one: ModelCallRecord) -> ModelFigures:
    before = before or ModelFigures(0, 0, 0, 0, 0, 0, 0.0)
    read, written = one.cache_read_tokens or 0, one.cache_write_tokens or 0
    sent, output = (one.input_tokens or 0) + read + written, one.output_tokens or 0
    known = before.cost_usd is not None and (one.cost_usd is not None or bool(one.problem))
    return ModelFigures(
        before.calls + 1,
        before.input_tokens + sent,
        before.output_tokens + output,
        before.cached_input_tokens + read,
        before.cache_creation_tokens + written,
        before.total_tokens + sent + output,
        (before.cost_usd or 0.0) + (one.cost_usd or 0.0) if known else None,
    )


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
