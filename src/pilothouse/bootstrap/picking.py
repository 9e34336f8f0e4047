"""The pick of an approval mode, when a chat is first opened in a folder and nobody has said which holds there."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from pilothouse.bootstrap.house import DEMO, House
from pilothouse.bootstrap.people import terminal_user
from pilothouse.config import mode_in
from pilothouse.core.ids import EngineId
from pilothouse.core.policy import MODES, ApprovalMode
from pilothouse.runtime.modes import pick_mode, picked_mode

QUESTION = """\
How much may {engine} do in {folder} without asking?
  1  minimal      read in this folder
  2  trusted      also change files in this folder
  3  full-access  everything that no rule denies
"""
ASK = "Pick 1, 2 or 3 (1): "
TRIES = 3


async def pick_where_unsaid(house: House, folder: Path, engine: EngineId) -> None:
    """Asks once per folder; the demo does nothing that would need it. Without an answer nothing is kept."""
    if engine == DEMO or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    if mode_in(house.holder.loaded, folder) or await house.store.read(
        lambda tx: picked_mode(tx, os.path.realpath(folder))
    ):
        return
    sys.stderr.write(QUESTION.format(engine=engine, folder=folder))
    mode = read_pick(_read_line)
    if mode is not None:
        at, by = house.clock.now(), terminal_user()
        await house.store.write(lambda tx: pick_mode(tx, str(folder), mode, at, by))


def read_pick(read_line: Callable[[], str]) -> ApprovalMode | None:
    """A number, or the mode's name; Enter is the narrowest. None when the input ends, or makes no sense three times."""
    for _ in range(TRIES):
        line = read_line()
        if not line:
            return None
        said = line.strip()
        for number, mode in enumerate(MODES, 1):
            if said in (str(number), mode) or (not said and number == 1):
                return mode
    return None


def _read_line() -> str:
    sys.stderr.write(ASK)
    sys.stderr.flush()
    return sys.stdin.readline()
