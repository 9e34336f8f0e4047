"""How long a decision about a command takes, and whether the policy is loaded before the first."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.measuring.statistics import median, quantile
from bench.measuring.table import Row

from pilothouse.core.ask import Ask
from pilothouse.core.call import Call
from pilothouse.core.ids import AskId
from pilothouse.core.policy import Site, parse_rule
from pilothouse.policy.decide import PolicyEnv, decide
from pilothouse.policy.paths import Filesystem

BYTES = 2000
ROUNDS = 150
RULES = (
    "deny path ~/.ssh/**",
    "deny command git push",
    "deny command rm",
    "ask tool WebFetch",
    "allow command pytest",
    "allow command npm run",
)
LOADED = (
    "import sys, pilothouse.bootstrap.app\n"
    "print(*[name for name in sys.modules if name.startswith('pilothouse.policy.')])\n"
)


def texts(round_: int) -> Iterator[tuple[str, str]]:
    """What agents send when they send much, each time a little different: nothing may be remembered."""
    line = f"A line of text, number {round_}, as an agent would write it into a file.\n"
    yield "a file by here-document", f"cat > notes{round_}.md <<'EOF'\n{line * 40}"[: BYTES - 4] + "\nEOF"
    yield "a long commit message", f"git add -A && git commit -m '{line * 40}"[: BYTES - 1] + "'"
    words = " ".join(f"tests/unit/test_{round_}_{number}.py" for number in range(100))
    yield "a test run of many files", f"pytest -q {words}"[:BYTES] + " 2>&1 | tail -20"
    looks = f"cat src/part_{round_}.py && rg -n 'class [A-Z][a-z]+' src tests | head -50 && git log --oneline -5 && "
    yield "a chain of looks", (looks * 40)[:BYTES].rpartition("&&")[0]
    yield (
        "a script for python",
        f'python3 -c "\nimport json\n{f"print({round_}, json.dumps([1, 2, 3]))" + chr(10)}'[:BYTES]
        + line * 26
        + '"',
    )


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        root = str(Path(folder).resolve())
        env = PolicyEnv(Filesystem())
        rules, site = [parse_rule(line) for line in RULES], Site(root)
        times: dict[str, list[float]] = {}
        for round_ in range(ROUNDS):
            for name, command in texts(round_):
                ask = Ask(AskId("a"), "approval", "x", call=Call("command", cwd=root, command=command))
                began = time.perf_counter()
                decide(ask, rules, site, env)
                times.setdefault(name, []).append((time.perf_counter() - began) * 1000)
    each = [sample for samples in times.values() for sample in samples[10:]]
    told = ", ".join(f"{name} {median(samples[10:]):.2f}" for name, samples in times.items())
    return [
        Row(
            "a decision about a command of 2 kB, p50",
            median(each),
            1.0,
            "ms",
            f"p99 {quantile(each, 0.99):.2f}; {told}",
        ),
        _row_of_imports(),
    ]


def _row_of_imports() -> Row:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    return Row(
        "modules of the policy loaded before the first decision",
        float(len(loaded)),
        0,
        "modules",
        " ".join(loaded),
    )
