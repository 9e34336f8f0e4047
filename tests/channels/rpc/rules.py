"""The table of requirements of `pilothouse rpc`. Each has a test, which names it with `rule`; one without a test fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

RULES = {
    "R01": "initialize comes first, and another version is refused",
    "R02": "bad frames are answered, and the next frame works",
    "R03": "a run is answered, running, its events in order, then ended",
    "R04": "a terminal answer is only a final",
    "R05": "preview and ready come before the confirm, and awaiting_ui between them",
    "R06": "a denial without a reason ends the run, one with a reason lets it go on",
    "R07": "a question with options is a pick, one without is a prompt",
    "R08": "a second run in a busy session is refused with -32001",
    "R09": "cancel works while a tool runs, while each dialog is open, and while the budget holds the run; the next run works",
    "R10": "history replays the same numbers, and keeps the tail",
    "R11": "two clients on one session see the same events, and the first answer closes the other's dialog",
    "R12": "a client that reconnects after kill -9 sees each event once",
    "R13": "what an engine cannot do is a typed unsupported",
    "R14": "a shell command stays in the workspace, and long output is kept",
    "R15": "sessions are listed last used first, also those of the terminal",
    "R16": "images are stored; other URLs and types are refused",
    "R17": "a client that stops reading loses nothing",
    "R18": "a client that leaves ends its process; --on-disconnect cancel stops its runs, and finish ends them, also the last",
    "R19": "the theme is kept, and the approval mode is picked before the first run",
    "R20": "skills and AGENTS.md of the folder are found",
    "R21": "a tool of the engine is called by the same rules as for its model",
    "R22": "a logout removes kept keys after a confirm",
    "R23": "each model call of a run is told once, then the sums",
    "R24": "a clipboard is read only if the client can, and the person agrees",
    "R25": "ids and parameters of every JSON kind, half frames, deep ones and those of the full 64 MB are answered",
    "R26": "a request with a value that cannot be used is refused, and ends nothing beside it",
    "R27": "a client that follows a session neither denies what its runs ask nor stops them",
    "R28": "a replay ends the runs and shows the asks that it moves past",
    "R29": "a bad answer shows the dialog again, and an ask that is settled elsewhere closes it",
    "R30": "a secret is asked for as one",
}
TESTED: set[str] = set()
"""Filled by the tests themselves, when their modules are imported."""
Test = TypeVar("Test", bound=Callable[..., object])


def rule(*ids: str) -> Callable[[Test], Test]:
    TESTED.update(ids)

    def same(test: Test) -> Test:
        return test

    return same
