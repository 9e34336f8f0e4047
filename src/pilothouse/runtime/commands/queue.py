"""`/queue` and `/cancel`: the messages that wait, and dropping one.

A message is named by its place in the queue, from 1 on. A button names it by its number in the store, `#138`, which stays
the same while the queue moves. `/cancel` alone drops the caller's last one.
"""

from __future__ import annotations

import msgspec

from pilothouse.core.message import CommandButton, InboundMessage
from pilothouse.core.queue import QueueRow
from pilothouse.core.text import first_line
from pilothouse.runtime.commands.call import CommandCall, NotDone, Reply, queued, refusal

LISTED = 10
NOTHING = "Nothing waits."

_decode = msgspec.json.Decoder(InboundMessage).decode


def show_queue(call: CommandCall) -> Reply:
    rows = queued(call)
    if not rows:
        return Reply(NOTHING)
    lines = [f"{place}. {_words(row)}" for place, row in enumerate(rows, 1)]
    buttons = tuple(
        CommandButton(f"Drop {place}: {_words(row)}", f"/cancel #{row.seq}")
        for place, row in enumerate(rows[:LISTED], 1)
    )
    return Reply("\n".join([*lines, "/cancel N drops one."]), buttons=buttons)


def cancel(call: CommandCall) -> Reply:
    row = _named(call)
    if row is None:
        told = f"No waiting message is called {call.args}. /queue lists them." if call.args else NOTHING
        return NotDone(told)
    message = _decode(row.body)
    if message.author.id != call.by.id and (refused := refusal(call, "command.cancel.foreign")):
        return refused
    call.tx.inbox.withdraw(row.id, call.at, f"cancelled by {call.by.id}")
    return Reply(f"Dropped: {first_line(message.whole_text)}")


def _named(call: CommandCall) -> QueueRow | None:
    rows, word = queued(call), call.args.strip()
    if not word:
        own = [row for row in rows if _decode(row.body).author.id == call.by.id]
        return own[-1] if own else None
    if word.startswith("#"):
        return next((row for row in rows if f"#{row.seq}" == word), None)
    place = int(word) if word.isdecimal() else 0
    return rows[place - 1] if 0 < place <= len(rows) else None


def _words(row: QueueRow) -> str:
    return first_line(_decode(row.body).whole_text)
