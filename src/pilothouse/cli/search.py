"""`pilothouse search`: finds words in all conversations, of every engine and channel."""

from __future__ import annotations

import sys
import time

import click
import msgspec

from pilothouse.bootstrap.terminal_text import say
from pilothouse.cli.options import json_option, limit_option
from pilothouse.cli.store import read_store
from pilothouse.cli.table import ago, print_json
from pilothouse.runtime.commands.search import FOUND_LINES, by_session, found_line

NOTHING = "Nothing was found. Try fewer words; `pilothouse sessions` lists all sessions."
MOST = 1000


@click.command("search")
@click.argument("words", nargs=-1, required=True)
@limit_option
@json_option
def command(words: tuple[str, ...], limit: int, as_json: bool) -> None:
    """Find WORDS, or words that begin so, in what was said and done in all sessions, newest first."""
    asked = " ".join(words)
    found = read_store(lambda tx: tx.transcripts.search(asked, limit=limit if as_json else MOST)) or []
    if as_json:
        print_json([msgspec.to_builtins(entry) for entry in found])
        return
    now, sessions = time.time(), by_session(found)
    for id, entries in list(sessions.items())[:limit]:
        say(f"{id}  {ago(now - entries[0].at)}  {entries[0].conversation_id}", sys.stdout)
        for entry in entries[:FOUND_LINES]:
            say(f"  {found_line(entry)}", sys.stdout)
    how = "`pilothouse sessions export ID` prints one whole; /resume ID in a chat goes on with it."
    say(how if sessions else NOTHING, sys.stdout)
