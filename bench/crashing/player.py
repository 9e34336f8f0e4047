"""The script engine's player, with one difference: a tool with side effects leaves a line in a file when it is done.

That file is the world. What stands in it twice was done twice, whatever anybody's records say.
"""

from __future__ import annotations

import sys
from pathlib import Path

from bench.crashing.journal import Journal

from pilothouse.engines.script import play, player
from pilothouse.engines.script.steps import Table

HARMLESS = ("read", "search", "web", "note")


def main(script: str, world: str) -> None:
    journal, play_tool = Journal(Path(world)), play.Play.tool

    def tool(play: play.Play, step: Table) -> None:
        play_tool(play, step)
        if step["tool"] not in HARMLESS:
            journal.add({"done": step["title"]})

    play._ACTIONS["tool"] = tool
    player.main(script)


if __name__ == "__main__":
    main(*sys.argv[1:])
