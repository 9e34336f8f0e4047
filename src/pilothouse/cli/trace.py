"""`pilothouse trace`: shows what happened to a message, step by step."""

from __future__ import annotations

from datetime import UTC, datetime

import click
import msgspec

from pilothouse.cli.options import json_option
from pilothouse.cli.store import NOTHING_YET, read_store
from pilothouse.cli.story import Sending, Story, render_story, tell
from pilothouse.cli.table import plain, print_json, print_table
from pilothouse.core.errors import PilothouseError
from pilothouse.core.ids import MessageId, TurnId
from pilothouse.core.queue import QueueRow
from pilothouse.core.store import Tx
from pilothouse.core.turn import Turn

MOST_WORDS = 20


class UnknownTurn(PilothouseError):
    pass


@click.command("trace")
@click.argument("turn")
@json_option
def command(turn: str, as_json: bool) -> None:
    """Show what happened to a message, step by step. TURN is a turn's id, its beginning, or a message's id."""
    story = read_store(lambda tx: find_story(tx, turn))
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
