"""`pilothouse trace`: shows what happened to a message, step by step."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime

import click
import msgspec

from pilothouse.cli.options import json_option
from pilothouse.cli.store import NOTHING_YET, read_store
from pilothouse.cli.story import Sending, Story, render_story, tell
from pilothouse.cli.table import plain, print_json, print_table
from pilothouse.config import find_paths
from pilothouse.core.errors import PilothouseError
from pilothouse.core.ids import MessageId, TurnId
from pilothouse.core.outcome import ModelCallRecord
from pilothouse.core.queue import QueueRow
from pilothouse.core.store import Tx
from pilothouse.core.turn import Turn
from pilothouse.plugins import Plugins

MOST_WORDS = 20
NO_CALLS = "No request of this turn is logged. Logs are kept for `gateway.retention_days`."


class UnknownTurn(PilothouseError):
    pass


@click.command("trace")
@click.argument("turn")
@click.option("--calls", is_flag=True, help="Show the requests to the model instead (native engine).")
@json_option
def command(turn: str, calls: bool, as_json: bool) -> None:
    """Show what happened to a message, step by step. TURN is a turn's id, its beginning, or a message's id."""
    story = read_store(lambda tx: find_story(tx, turn))
    if calls:
        print_calls(story.turn if story else None, as_json)
        return
    steps = tell(story) if story else []
    if as_json:
        print_json({"turn": msgspec.to_builtins(story and story.turn), "steps": msgspec.to_builtins(steps)})
        return
    if story is None:
        print(NOTHING_YET)
        return
    head = story.turn.id if story.turn else turn
    when = (
        datetime.fromtimestamp(steps[0].at, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S") if steps else ""
    )
    print(f"{head}  {when}".rstrip())
    print_table(("AFTER", "STEP", "WHAT"), render_story(steps), wrap=True)
    if words := last_words(story):
        print("\n".join(["", "LAST OUTPUT OF THE ENGINE", *words]))


def last_words(story: Story) -> list[str]:
    """Returns the last lines that a failed turn left: an exit code, the end of stderr."""
    failure = story.turn.failure if story.turn else None
    lines = [plain(line) for line in failure.detail.splitlines()] if failure else []
    return [f"  {line}" for line in lines if line][-MOST_WORDS:]


def find_story(tx: Tx, word: str) -> Story:
    """Raises `UnknownTurn`, with what to try, if the word matches nothing or several turns."""
    if found := _find_turns(tx, word):
        if len(found) > 1:
            raise UnknownTurn(f'"{word}" may be any of {", ".join(turn.id for turn in found)}')
        return _of_turn(tx, found[0])
    id = MessageId(word)
    row = tx.inbox.get(id) or tx.outbox.get(id) or tx.inbox.by_key(word)
    if row is None:
        raise UnknownTurn(f'there is no turn or message "{word}"; `pilothouse turns` lists the turns')
    turn = tx.turns.get(row.turn_id) if row.turn_id else None
    return _of_turn(tx, turn) if turn else _of_message(tx, row)


def _find_turns(tx: Tx, word: str) -> list[Turn]:
    exact = tx.turns.get(TurnId(word))
    return [exact] if exact else tx.turns.find(word) or tx.turns.find(f"turn-{word}")


def _of_turn(tx: Tx, turn: Turn) -> Story:
    return Story(
        turn=turn,
        inbox=tx.inbox.of_turn(turn.id),
        events=tx.events.of_turn(turn.id),
        asks=tx.asks.of_turn(turn.id),
        outbox=[Sending(row, tx.outbox.parts(row.id)) for row in tx.outbox.of_turn(turn.id)],
    )


def _of_message(tx: Tx, row: QueueRow) -> Story:
    """Tells of a message that never became a turn: withdrawn, refused, a command, or still waiting."""
    if tx.inbox.get(row.id) is not None:
        return Story(None, [row], [], [], [])
    return Story(None, [], [], [], [Sending(row, tx.outbox.parts(row.id))])


def print_calls(turn: Turn | None, as_json: bool) -> None:
    """Prints the requests of a turn to its model, as the engine's own log has them."""
    found = find_calls(turn) if turn else []
    if as_json:
        print_json(msgspec.to_builtins(found))
        return
    rows = [
        (
            str(one.seq),
            one.model,
            f"{one.bytes:,}",
            "-" if one.shared_prefix is None else f"{one.shared_prefix:.1%}",
            "-" if one.duration_s is None else f"{one.duration_s:.2f} s",
            _tokens(one),
            "-" if one.cost_usd is None else f"{one.cost_usd:.4f}",
            plain(one.problem) or "ok",
        )
        for one in found
    ]
    print_table(
        ("CALL", "MODEL", "BYTES", "SHARED", "TOOK", "TOKENS", "USD", "END"), rows, NO_CALLS, wrap=True
    )


def find_calls(turn: Turn) -> Sequence[ModelCallRecord]:
    """Returns nothing for an engine whose program makes the requests itself."""
    spec = Plugins().engine(turn.engine)
    if spec.read_calls is None:
        raise UnknownTurn(f"{spec.title} makes its requests itself, and keeps no log of them here.")
    state = find_paths(os.environ).state_dir / "engines" / spec.id
    return spec.read_calls(str(state), turn.id, turn.started_at or turn.created_at)


def _tokens(one: ModelCallRecord) -> str:
    if one.input_tokens is None:
        return "-"
    return f"{one.input_tokens:,} in, {one.cache_read_tokens or 0:,} cached, {one.output_tokens or 0:,} out"
