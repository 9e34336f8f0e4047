"""Run the checks one after another, show what failed, and close with a table.

`check.py` runs every step, also after one that failed; `check.py STEP [ARGS]` runs one, its output unbuffered.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
COLOUR = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

STEPS: Mapping[str, Sequence[Sequence[str]]] = {
    "format": [["ruff", "format", "--check"]],
    "lint": [["ruff", "check"]],
    "types": [["pyrefly", "check", "--python-interpreter-path", sys.executable]],
    "imports": [
        ["lint-imports", "--no-logo", "--cache-dir", ".cache/import-linter"],
        ["python", "tools/imports.py"],
    ],
    "tests": [["pytest", "-n", "4", "--dist", "worksteal", "-rs"]],
}
REPAIRS: Sequence[Sequence[str]] = [["ruff", "check", "--fix-only"], ["ruff", "format"]]


def paint(code: int, text: str) -> str:
    return f"\033[{code}m{text}\033[0m" if COLOUR else text


def environ() -> dict[str, str]:
    """Return our environment, in which the tools come first, and Python keeps what it compiles."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "VIRTUAL_ENV": str(BIN.parent), "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}


def run(commands: Sequence[Sequence[str]], output: IO[bytes] | None = None) -> bool:
    """Run each command, also after one that failed. The tools come from the environment that runs this file."""
    results = [
        subprocess.run(
            [BIN / name, *words], cwd=ROOT, env=environ(), stdout=output, stderr=output, check=False
        )
        for name, *words in commands
    ]
    return all(result.returncode == 0 for result in results)


def run_quietly(step: str) -> bool:
    """Run a step and show its output only if it failed; of the tests, always what was skipped and the closing line."""
    if COLOUR:
        print(f"{step} …", end="", flush=True)
    with tempfile.TemporaryFile() as output:
        passed = False
        try:
            passed = run(STEPS[step], output)
        finally:
            output.seek(0)
            text = output.read().decode(errors="replace").rstrip()
            if COLOUR:
                print("\r\033[K", end="")
            if not passed:
                print(paint(1, f"── {step} ──"), text, "", sep="\n", flush=True)
            elif step == "tests":
                skipped = [line for line in text.splitlines() if line.startswith("SKIPPED")]
                print(*skipped, text.rpartition("\n")[2], sep="\n", end="\n\n", flush=True)
    return passed


def run_all() -> bool:
    """Run every step. During the first ones pytest compiles the tests, or each of its workers would."""
    rows: list[tuple[str, bool, float]] = []
    quiet = subprocess.DEVNULL
    with subprocess.Popen(
        [BIN / "pytest", "--collect-only", "-qq"], cwd=ROOT, env=environ(), stdout=quiet, stderr=quiet
    ) as compiling:
        for step in STEPS:
            started = time.monotonic()
            if step == "tests":
                compiling.wait()
            rows.append((step, run_quietly(step), time.monotonic() - started))
    for step, passed, took_s in rows:
        print(f"{paint(32, '✓') if passed else paint(31, '✗')} {step:<8}{took_s:7.1f} s")
    return all(passed for _, passed, _ in rows)


def main(words: Sequence[str]) -> int:
    if not words:
        return 0 if run_all() else 1
    step, *extra = words
    if step == "fix" and not extra:
        return 0 if run(REPAIRS) else 1
    if step not in STEPS:
        print(f"usage: ./check [fix | {' | '.join(STEPS)}] [ARGS]", file=sys.stderr)
        return 2
    *first, last = STEPS[step]
    return 0 if run([*first, [*last, *extra]]) else 1


if __name__ == "__main__":
    # Also where the locale is plain ASCII, the table has its marks.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
