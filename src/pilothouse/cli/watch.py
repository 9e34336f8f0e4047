"""`pilothouse watch`: follows a session that runs in a terminal, read-only.

A session is found by our id, by the engine's, by the beginning of either, or by a path. Nothing is stored or sent.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial

import anyio
import click

from pilothouse.bootstrap.configuration import load_checked
from pilothouse.channels.progress import activity_label
from pilothouse.cli.replay import printable, produced
from pilothouse.cli.store import read_store
from pilothouse.cli.table import cut, plain
from pilothouse.core.conversation import Session
from pilothouse.core.engine import EngineSpec, SessionLog
from pilothouse.core.errors import PilothouseError
from pilothouse.core.event import (
    EngineEvent,
    MediaProduced,
    Notice,
    PlanChanged,
    PromptAdded,
    TextSet,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    encode_event,
)
from pilothouse.core.ids import SessionId
from pilothouse.core.store import Tx
from pilothouse.plugins import Loaded, Plugins

BOLD, DIM, RED = "1", "2", "31"
SHORT = 160
ENOUGH = 10
MARKS = {"done": "✓", "active": "→", "pending": " "}


class UnknownSession(PilothouseError):
    pass


@click.command("watch")
@click.argument("session")
@click.option("--json", "as_json", is_flag=True, help="Print the events, one JSON object per line.")
def command(session: str, as_json: bool) -> None:
    """Watch a session that runs in a terminal (Claude Code, Codex, OpenCode), read-only. SESSION is its id, the beginning
    of it, or a path: a log of Claude, or a folder, which means the session that was used last there. Ctrl-C leaves."""
    log = find_log(session)
    _say(f"watching {log.where}; Ctrl-C leaves" if log.used_at else f"waiting for {log.where}; Ctrl-C leaves")
    with suppress(KeyboardInterrupt):  # the way to leave
        anyio.run(partial(_follow, log, as_json))


def find_log(word: str) -> SessionLog:
    """Raises `UnknownSession` if the word matches nothing or several logs."""
    plugins = Plugins()
    config = load_checked(plugins).config
    known = None if os.sep in word else read_store(partial(_find_sessions, word))
    known = known or list[Session]()
    if len(known) > 1:
        raise UnknownSession(f'"{word}" may be any of {_list([session.id for session in known])}')
    engine, value = _token_of(known[0]) if known else ("", word)
    logs: list[SessionLog] = []
    for row in plugins.engines():
        adapter = config.engines.get(row.name)
        if isinstance(row, Loaded) and adapter is not None and engine in ("", row.spec.id):
            logs += _logs(row.spec, adapter.settings, value)
    logs = likeliest(logs, is_path=os.sep in value or value in (".", "..", "~"))
    if len(logs) > 1:
        raise UnknownSession(f'"{word}" may be any of {_list([log.where for log in logs])}')
    if known and not logs:
        raise UnknownSession(
            f"{known[0].id} belongs to {engine}, which keeps no log to watch; "
            "`pilothouse turns` and `pilothouse trace TURN` show what it did"
        )
    if not logs:
        raise UnknownSession(
            f'there is no session "{word}" to watch; `pilothouse sessions` lists ours, and a path to a log or a folder '
            "works too"
        )
    return logs[0]


def likeliest(logs: list[SessionLog], *, is_path: bool) -> list[SessionLog]:
    """Prefer logs that exist to those that may come; for a path, keep the one that was used last."""
    known = sorted((log for log in logs if log.used_at), key=lambda log: log.used_at)
    return (known[-1:] if is_path else known) or logs


def _find_sessions(word: str, tx: Tx) -> list[Session]:
    exact = tx.sessions.get(SessionId(word))
    if exact is not None:
        return [exact]
    return [one for one in tx.sessions.of(limit=1000) if one.id.startswith((word, f"session-{word}"))]


def _token_of(session: Session) -> tuple[str, str]:
    if session.resume is None:
        raise UnknownSession(f"{session.id} has no output yet; send it a message first")
    return session.engine, session.resume.value


def _logs(spec: EngineSpec, settings: object, word: str) -> Sequence[SessionLog]:
    return spec.find_logs(settings, word) if spec.find_logs else ()


async def _follow(log: SessionLog, as_json: bool) -> None:
    found = log.used_at > 0
    async with log.open() as added:
        async for steps in added:
            if not found and steps:
                found = True
                _say(f"watching {log.where}")
            for event in map(produced, steps):
                for line in [encode_event(event).decode()] if as_json else show(event):
                    print(line, flush=True)


def show(event: EngineEvent) -> Iterator[str]:
    """Yields the lines that people read of an event; none for most."""
    match event:
        case PromptAdded(text=text):
            yield ""
            yield _ink(BOLD, f"› {printable(text)}")
        case TextSet(text=text, parent_id=None) if text.strip():
            yield ""
            yield printable(text)
        case ToolStarted(call=call):
            yield _ink(
                DIM,
                f"{'  ' if call.parent_id else ''}· {activity_label(call)}  {cut(plain(call.title), SHORT)}",
            )
        case ToolFinished(ok=False, output=output):
            yield _ink(RED, f"  ✗ {cut(plain(output) or 'it failed', SHORT)}")
        case PlanChanged(items=items):
            yield from (_ink(DIM, f"{MARKS[item.status]} {plain(item.text)}") for item in items)
        case MediaProduced(attachment=attachment):
            yield _ink(DIM, f"[{plain(attachment.name)}]")
        case Notice(level=level, text=text):
            yield _ink(DIM, f"{'·' if level == 'info' else '!'} {plain(text)}")
        case TurnEnded(outcome="failed", failure=failure):
            yield _ink(RED, f"✗ {plain(failure.text) if failure else 'failed'}")
        case TurnEnded(outcome=outcome):
            yield _ink(DIM, "✓ done" if outcome == "completed" else "✗ stopped")
        case _:
            pass


def _ink(code: str, text: str) -> str:
    coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    return f"\x1b[{code}m{text}\x1b[0m" if coloured else text


def _say(text: str) -> None:
    """Prints to stderr, so that the watched output can be piped."""
    print(text, file=sys.stderr, flush=True)


def _list(names: Sequence[str]) -> str:
    rest = len(names) - ENOUGH
    return ", ".join(names[:ENOUGH]) + (f" and {rest} more" if rest > 0 else "")
