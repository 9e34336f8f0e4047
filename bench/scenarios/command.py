"""`bench/engines --full [NAME…]`: every scenario on every real engine; a name limits it to an engine or a scenario.

`long-question` lasts half an hour, and is played only by name.
Progress and whole reasons on stderr, one table on stdout, exit code 1 if a scenario failed.
"""

from __future__ import annotations

import signal
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.measuring.machine import describe
from bench.measuring.table import render_cells
from bench.scenarios.gateway import Gateway, Missed
from bench.scenarios.model import Model
from bench.scenarios.plays import SCENARIOS, UNASKED
from bench.scenarios.stage import Stage
from bench.scenarios.subjects import SUBJECTS, Subject

PASSED, CANNOT, NOT_INSTALLED = "✓", "cannot", "not installed"
REASON_CHARS = 48


def run_scenarios(words: Sequence[str]) -> int:
    unknown = [word for word in words if word not in {*SUBJECTS, *SCENARIOS}]
    if unknown:
        known = ", ".join([*SUBJECTS, *SCENARIOS])
        print(f"no engine and no scenario {', '.join(unknown)}; there are: {known}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the gateway that runs is ended too
    engines = [name for name in SUBJECTS if name in words] or list(SUBJECTS)
    named = [name for name in SCENARIOS if name in words]
    scenarios = named or [name for name in SCENARIOS if name not in UNASKED]
    columns = {name: dict(_play(name, SUBJECTS[name], scenarios)) for name in engines}
    rows = [[scenario, *(columns[name][scenario] for name in engines)] for scenario in scenarios]
    print(f"`{' '.join(['bench/engines --full', *words])}` on {describe()}\n")
    print(render_cells(["scenario", *engines], rows))
    return 1 if any(cell.startswith("✗") for row in rows for cell in row) else 0


def _play(name: str, subject: Subject, scenarios: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each scenario with what came of it. All share a home and, as far as they let it live, a gateway."""
    if not isinstance(subject.program.installed, Path):
        yield from ((scenario, NOT_INSTALLED) for scenario in scenarios)
        return
    model = Model(subject.speak)
    with TemporaryDirectory(prefix=f"pilothouse-{name}-", ignore_cleanup_errors=True) as made:
        folder = Path(made)
        with subject.api(model.reply) as api:
            environment = subject.prepare(folder, api)
            cannot = subject.cannot(folder, environment) if subject.cannot else frozenset[str]()
            gateway = Gateway(folder, name, subject.section(), environment, subject.mode)
            try:
                yield from _play_on(gateway, model, name, scenarios, cannot)
            finally:
                gateway.clear()


def _play_on(
    gateway: Gateway, model: Model, name: str, scenarios: Sequence[str], cannot: frozenset[str]
) -> Iterator[tuple[str, str]]:
    for scenario in scenarios:
        began = time.monotonic()
        cell = CANNOT if scenario in cannot else _try(gateway, model, scenario)
        print(f"{name}: {scenario}: {cell} {time.monotonic() - began:.0f} s", file=sys.stderr)
        yield scenario, cell if len(cell) <= REASON_CHARS else f"{cell[: REASON_CHARS - 1]}…"


def _try(gateway: Gateway, model: Model, scenario: str) -> str:
    try:
        gateway.start()
        SCENARIOS[scenario](Stage(gateway, model, scenario))
    except Missed as error:
        _show(gateway, scenario)
        gateway.clear()
        return f"✗ {error}"
    except Exception as error:  # noqa: BLE001 - the table shows any error
        traceback.print_exc()
        gateway.clear()
        return f"✗ {type(error).__name__}: {error}"
    return PASSED


def _show(gateway: Gateway, scenario: str) -> None:
    """Print what the person saw last, and how the turns ended."""
    for line in gateway.seen(scenario)[-4:]:
        print(f"    {line['effect']} {line['kind']}: {line['text'][:300]!r}", file=sys.stderr)
    print(f"    turns: {gateway.turns(scenario)}", file=sys.stderr)
