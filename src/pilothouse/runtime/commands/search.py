"""`/search`: find words in the transcripts of earlier sessions, of every engine.

A group finds only what was said in it, also by its schedules. A private chat finds its own words, and those of
conversations in the same workspace that are not private. Nobody finds another person's private chat from a chat; `pilothouse search` on the machine
finds everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pilothouse.core.conversation import Session
from pilothouse.core.ids import ConversationId, SessionId
from pilothouse.core.message import CommandButton
from pilothouse.core.schedule import split_task_place
from pilothouse.core.text import ago, first_line, reveal_hidden
from pilothouse.core.transcript import Entry
from pilothouse.runtime.commands.call import CommandCall, NotDone, Reply
from pilothouse.runtime.commands.sessions import short_id
from pilothouse.runtime.conversations.binding import may_continue, workspace_of

FOUND_SESSIONS = 5
FOUND_LINES = 2
LINE_CHARS = 140
USAGE = "/search WORDS finds what was said in earlier sessions, such as: /search login timeout"
HOW = "/resume ID goes on with one of them."


def search(call: CommandCall) -> Reply:
    """Find words, newest first, and offer to continue the sessions that have them."""
    words = call.args.strip()
    if not words:
        return NotDone(USAGE)
    here = call.conversation
    shared = workspace_of(call.tx, here.id, call.settings.default_workspace) if here.private else ""
    found = by_session(call.tx.transcripts.search(words, here.id, shared_in=shared))
    if not found:
        return Reply(f"Nothing was found for “{first_line(words)}”. Try fewer words.")
    open_to = _continuable(call, list(found)[:FOUND_SESSIONS])
    lines = [_session_lines(call, id, found[id], open_to.get(id)) for id in list(found)[:FOUND_SESSIONS]]
    more = [f"… and {len(found) - FOUND_SESSIONS} more sessions"] if len(found) > FOUND_SESSIONS else []
    buttons = [
        CommandButton(f"{short_id(one)} · {ago(call.at - one.used_at)}", f"/resume {one.id}")
        for one in open_to.values()
    ]
    return Reply("\n\n".join([*lines, *more, *([HOW] if open_to else [])]), buttons=tuple(buttons))


def by_session(found: Iterable[Entry]) -> dict[SessionId, list[Entry]]:
    """Group entries by their session, in the order in which they were found."""
    grouped: dict[SessionId, list[Entry]] = {}
    for entry in found:
        grouped.setdefault(entry.session_id, []).append(entry)
    return grouped


def found_line(entry: Entry) -> str:
    """Show an excerpt in one line. It repeats what people and agents wrote, so hidden characters are shown."""
    return (
        f"{first_line(entry.who, 24)}: {first_line(reveal_hidden(' '.join(entry.text.split())), LINE_CHARS)}"
    )


def _continuable(call: CommandCall, ids: Sequence[SessionId]) -> dict[SessionId, Session]:
    known = (call.tx.sessions.get(id) for id in ids)
    return {
        one.id: one
        for one in known
        if one is not None
        and isinstance(may_continue(call.tx, call.settings, call.conversation, call.by, one), Session)
    }


def _session_lines(
    call: CommandCall, id: SessionId, entries: Sequence[Entry], session: Session | None
) -> str:
    name = f"`{short_id(session)}` " if session is not None else ""
    place = entries[0].conversation_id
    where = "" if place == call.conversation.id else f" · {_where(call, place)}"
    head = f"{name}{ago(call.at - entries[0].at)}{where}"
    return "\n".join([head, *(found_line(entry) for entry in entries[:FOUND_LINES])])


def _where(call: CommandCall, place: ConversationId) -> str:
    origin, schedule = split_task_place(place)
    return "task" if schedule and origin == call.conversation.id else place.partition(":")[0]
