"""Showing asks to people: the row first, then a message in every place where it is shown.

Asks of engines have a turn; our own asks have a `topic`, whose answer is handled by `TOPICS` of `runtime/gateway.py`.
In a private chat we know who reads; if they cannot approve the ask, it also goes to people who can. In a group we do
not know, so the route of the approvers decides.

A shortened payload always says where the full one is. A file change is shown as a diff against the file as it is now;
files outside the workspace are not previewed, because readers of the conversation may not be allowed to read them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

import anyio
import msgspec

from pilothouse.core.ask import Ask, AskRow, Option, hash_payload, input_of, payload_bytes
from pilothouse.core.ask_view import (
    CUT,
    MOST,
    beside_headline,
    beside_input,
    headline,
    hidden_chars,
    is_cut,
    join_values,
    offer_lines,
    payload_text,
    reason,
    shorten,
)
from pilothouse.core.call import Call, ReadCall
from pilothouse.core.event import Asked, clean_values
from pilothouse.core.ids import AskId, ChannelId, ConversationId, EngineId, IdMaker, SessionId, TurnId, UserId
from pilothouse.core.message import Attachment, Content, clean_text
from pilothouse.core.people import Authority, People, describe_approvers, may_say_yes
from pilothouse.core.queue import QueueRow
from pilothouse.core.schedule import split_task_place
from pilothouse.core.store import Tx
from pilothouse.core.text import code_block, first_line
from pilothouse.core.turn import LIVE, Turn
from pilothouse.runtime.audit import record_ask
from pilothouse.runtime.outbox import ask_key, parse_ask_key, say
from pilothouse.runtime.preview import Found, LookAtFile, render_change
from pilothouse.runtime.roles import MAX_CHATS, approvers_with_chat, is_attended, name_of, role_of
from pilothouse.runtime.settings import Settings


def complete_call(ask: Ask) -> Call | None:
    """Return the call with cleaned texts. Where the payload names a tool and the engine says no more, it is unreadable."""
    if ask.call is not None:
        return msgspec.convert(clean_values(msgspec.to_builtins(ask.call)), Call)
    return _unreadable(ask.payload) if ask.kind == "approval" else None


def with_input(ask: Ask, given: dict[str, Any], read: ReadCall) -> Ask:
    """Return the ask as it would be with another input. The engine that asked reads its payload again.

    A stored ask from before calls were stored is read in the same way.
    """
    payload = {**ask.payload, "input": given}
    call = read(payload) or _unreadable(payload)
    if call is None and ask.call is not None:
        call = Call("unreadable", ask.call.tool)
    return msgspec.structs.replace(ask, payload=payload, call=call)


def _unreadable(payload: Mapping[str, Any]) -> Call | None:
    tool = payload.get("tool")
    return Call("unreadable", tool) if isinstance(tool, str) else None


INLINE = MOST
"""A longer payload is attached as a file."""
HEAD = CUT

LOOK_S = 2.0
SLOW = Found(problem="the file could not be read in time")


def ask_text(ask: Ask, authority: Authority, before: str = "", *, names_approvers: bool = True) -> str:
    """Say who wants what, and everything people should know before they answer; each thing once."""
    parts = [before + headline(ask), code_block(ask.preview, "diff") if ask.preview else "", _body(ask)]
    parts += [_folder(ask, authority.workspace), reason(ask)]
    parts += [describe_approvers(authority.approvers)] if names_approvers else []
    return "\n".join(part for part in (*parts, ask.whose, *offer_lines(ask)) if part)


def _folder(ask: Ask, workspace: str) -> str:
    """Name the folder that the call would run in, unless that is the workspace."""
    cwd = ask.call.cwd if ask.call is not None and not ask.of_house else ""
    return f"In {cwd}" if cwd and cwd != workspace else ""


def is_long(ask: Ask) -> bool:
    """True if the payload does not fit beside the question."""
    return len(payload_text(ask)) > INLINE or bool(ask.preview and is_cut(ask.preview))


def _beside(ask: Ask) -> str:
    """Format the values that the headline and the preview do not show."""
    if input_of(ask) is None:
        return payload_text(ask)
    if ask.call is None:
        return join_values([*beside_input(ask), *beside_headline(ask).items()])
    around = [(key, value) for key, value in beside_input(ask) if key not in ("tool", "cwd")]
    return join_values([*around, *beside_headline(ask).items()])


def _body(ask: Ask) -> str:
    """Return the payload beside the headline and the preview, shortened if it is long."""
    if ask.kind == "question" or ask.of_house:
        return ""
    given = (input_of(ask) or ask.payload) if ask.kind == "plan" else ask.payload
    names_title = ask.kind == "plan" or ask.call is None  # else the headline is made from the call
    text = "" if names_title and _said(given, ask.title) else _beside(ask)
    shown = code_block(text if len(text) <= INLINE else text[:HEAD]) if text else ""
    if not is_long(ask):
        return shown
    whole = f"{file_name(ask)}, SHA-256 {ask.payload_hash}"
    missing = hidden_chars(ask) + max(0, len(text) - HEAD if len(text) > INLINE else 0)
    if missing:
        return f"{shown}\n… and {missing:,} more characters: all of it is in {whole}".lstrip("\n")
    return f"{shown}\nThe full request is in {whole}".lstrip("\n")


def file_name(ask: Ask) -> str:
    return f"{ask.id}.json"


def _said(value: Any, title: str) -> bool:
    """True if the title contains all values."""
    match value:
        case dict():
            return all(_said(item, title) for item in value.values())
        case str():
            return value in title
        case _:
            return False


async def with_preview(ask: Ask, workspace: str, look: LookAtFile, within_s: float = LOOK_S) -> Ask:
    """Add the full diff; `brief_ask` shortens it for display."""
    if ask.kind != "approval" or ask.preview:
        return ask
    change = ask.call.change if ask.call is not None else None
    if ask.call is None or change is None:
        return ask
    cwd = ask.call.cwd or workspace
    found = SLOW
    with anyio.move_on_after(within_s):
        found = await look(str(PurePosixPath(cwd, change.path)), workspace)
    return msgspec.structs.replace(ask, preview=render_change(change, found, cwd))


def brief_ask(ask: Ask) -> Ask:
    """Shorten a long preview for display; `/show` gives the full one."""
    return msgspec.structs.replace(ask, preview=shorten(ask.preview)) if ask.preview else ask


REMINDER = "reminder"
NO_PLACE = ConversationId("")
"""The place of an ask whose approvers have no known private chat: only `pilothouse asks` lists it."""

MOST_NAMES = 3
TASK_CHARS = 80
NOBODY = (
    "Nobody else who may allow it has a private chat with me yet. On the machine, `pilothouse asks` lists it."
)


def make_ask(asked: Ask, settings: Settings, engine: EngineId, ids: IdMaker, now: float) -> Ask:
    """Give an engine's ask our id, the payload hash and an expiry time. Set the fields that only Pilothouse may set."""
    wait_s = settings.question_timeout_s if asked.kind == "question" else settings.ask_timeout_s
    return _ready(
        msgspec.structs.replace(
            asked,
            expires_at=asked.expires_at or now + wait_s,
            of_house=False,
            whose="",
            asker=settings.engine_titles.get(engine) or engine.capitalize(),
        ),
        ids,
    )


def raise_ask(
    tx: Tx,
    ids: IdMaker,
    asked: Ask,
    *,
    topic: str,
    authority: Authority,
    places: Sequence[ConversationId],
    at: float,
    turn: Turn | None = None,
    about: AskId | None = None,
) -> AskRow:
    """Ask on behalf of Pilothouse. `asked` needs a kind, a title and an `expires_at`; its id and hash are made here.

    `places` show it: usually `approver_chats`. `turn` is the turn that it is about, if any.
    """
    here, *others = places or (NO_PLACE,)
    row = AskRow(
        _ready(msgspec.structs.replace(asked, of_house=True), ids),
        here,
        turn.session_id if turn else SessionId(""),
        turn.id if turn else TurnId(""),
        "",
        "open",
        at,
        authority=authority,
        shown_in=tuple(others),
        topic=topic,
        about=about,
    )
    tx.asks.add(row)
    record_ask(tx, row, topic, at, title=row.ask.title)
    if turn is not None and turn.status in LIVE:
        tx.events.append(turn.conversation_id, turn.id, [Asked(row.ask)], at)
    show_ask(tx, ids, row, at)
    return row


def show_ask(tx: Tx, ids: IdMaker, row: AskRow, at: float) -> None:
    """Show the ask in all its places."""
    for place in places_of(row):
        show_ask_in(tx, ids, row, place, at, occasion="asked")


def is_being_delivered(tx: Tx, row: AskRow, place: ConversationId) -> bool:
    """True while the ask's first message in this place is not delivered yet."""
    asked = tx.outbox.by_key(ask_key(row, "asked", place))
    return asked is not None and asked.ended_at is None


def show_ask_in(
    tx: Tx, ids: IdMaker, row: AskRow, place: ConversationId, at: float, *, occasion: str, before: str = ""
) -> None:
    """Show the ask again in one place."""
    say(tx, ids, place, _content(tx, row, place, at, before), key=ask_key(row, occasion, place), at=at)


def ask_of(tx: Tx, row: QueueRow) -> AskRow | None:
    """Return the ask that an outbox row is about."""
    key = parse_ask_key(row)
    return None if key is None else tx.asks.get(key.ask)


def tell_places(
    tx: Tx,
    ids: IdMaker,
    row: AskRow,
    text: str,
    *,
    occasion: str,
    at: float,
    but: Collection[ConversationId] = (),
) -> None:
    """Send a notice about an ask to its places, except those of `but`."""
    for place in places_of(row):
        if place not in but:
            say(tx, ids, place, Content(text, "notice"), key=ask_key(row, occasion, place), at=at)


def places_of(row: AskRow) -> tuple[ConversationId, ...]:
    return tuple(place for place in (row.conversation_id, *row.shown_in) if place != NO_PLACE)


def _ready(asked: Ask, ids: IdMaker) -> Ask:
    title = clean_text(asked.title)
    payload = clean_values(asked.payload) or {"title": title}
    return msgspec.structs.replace(
        asked,
        id=AskId(ids("ask")),
        title=title,
        options=tuple(
            Option(clean_text(one.key), clean_text(one.label), clean_text(one.chosen_label))
            for one in asked.options
        ),
        payload=payload,
        call=complete_call(asked),
        payload_hash=hash_payload(payload),
    )


def _content(tx: Tx, row: AskRow, place: ConversationId, at: float, before: str) -> Content:
    """Build the message for one place; a long payload is attached as a file."""
    files, ask = _files(tx, row.ask, at), brief_ask(row.ask)
    if place != row.conversation_id and not ask.of_house:
        ask = msgspec.structs.replace(ask, whose=origin(tx, row.authority.requesters, row.conversation_id))
    task = split_task_place(row.conversation_id)[1]
    if task is not None and (schedule := tx.schedules.get(task)) is not None:
        told = f"⏰ Task: {first_line(schedule.prompt, TASK_CHARS)}"
        ask = msgspec.structs.replace(ask, whose="\n".join(filter(None, (told, ask.whose))))
    text = ask_text(ask, row.authority, before, names_approvers=_names_approvers(tx, row, place))
    return Content(text, "ask", files, turn_id=row.turn_id or None, ask=ask)


def _names_approvers(tx: Tx, row: AskRow, place: ConversationId) -> bool:
    """False where the reader can answer alone: in the private chat of an approver, or of a requester who needs no other."""
    here, approvers = tx.conversations.get(place), row.authority.approvers
    if row.authority.only is not None:
        return False
    if here is None or not here.private or approvers.quorum > 1 or approvers.exclude_requester:
        return True
    return place == row.conversation_id and bool(row.shown_in or row.ask.whose)


def _files(tx: Tx, ask: Ask, at: float) -> tuple[Attachment, ...]:
    """Attach the hashed bytes themselves, so that people can verify the hash."""
    if not is_long(ask):
        return ()
    return (tx.blobs.attach(payload_bytes(ask.payload), file_name(ask), "application/json", at),)


def route_ask(
    tx: Tx,
    people: People,
    authority: Authority,
    here: ConversationId,
    served: Collection[ChannelId],
    at: float,
) -> tuple[tuple[ConversationId, ...], str]:
    """Return the other places that show an ask, and a text for its own conversation that names the people there; empty
    if its own is enough. `served` are the channels of this process: an ask of a place that was left goes to no other."""
    place, route, quorum = tx.conversations.get(here), authority.approvers.route, authority.approvers.quorum
    is_private = place is not None and place.private
    was_left = route == "auto" and not is_attended(tx, here, at)
    stays = route != "private" and not was_left
    present = _able_requesters(tx, people, authority) if is_private else set()
    if stays and (not is_private or len(present) >= quorum):
        return (), ""  # before the expensive search through all people
    able = approvers_with_chat(tx, people, authority)
    shown = split_task_place(here)[0]  # what a task asks is shown in its chat
    present |= {user for user, home in able.items() if home == shown}
    is_stuck = is_private and len(present) < quorum
    elsewhere = {user: home for user, home in able.items() if home != shown}
    if was_left:
        elsewhere = _reachable(tx, people, authority, elsewhere, served, at)
    if not is_stuck and (stays or not elsewhere):
        return (), ""
    places = tuple(dict.fromkeys(elsewhere.values()))[:MAX_CHATS]
    asked = [user for user, home in elsewhere.items() if home in places]
    return places, _asked(tx, asked)


def _reachable(
    tx: Tx,
    people: People,
    authority: Authority,
    homes: Mapping[UserId, ConversationId],
    served: Collection[ChannelId],
    at: float,
) -> dict[UserId, ConversationId]:
    """Return the owners whose private chat we reach now, or, if there is none, all such people."""
    places = tx.conversations.some(set(homes.values()))
    known = {home for home, place in places.items() if place.address.channel in served}
    read = {user: home for user, home in homes.items() if home in known and is_attended(tx, home, at)}
    owners = {user for user in read if role_of(tx, people, user, authority.workspace) == "owner"}
    return {user: home for user, home in read.items() if not owners or user in owners}


def bring_here(tx: Tx, ids: IdMaker, row: AskRow, place: ConversationId, at: float) -> None:
    """Show an open ask of another conversation in this place too, with its buttons."""
    row = tx.asks.show_in(row.ask.id, [place])
    show_ask_in(tx, ids, row, place, at, occasion="asked")


def origin(tx: Tx, authors: Iterable[UserId], here: ConversationId) -> str:
    """Say where an ask or an answer comes from: a person's private chat, or a named place."""
    place, channel = tx.conversations.get(here), here.partition(":")[0]
    who = ", ".join(name_of(tx, user) for user in authors)
    if place is not None and place.private:
        whose = f"{who}'s" if who else "a"
        return f"From {whose} {channel} chat."
    return f"From {f'{who} in ' if who else ''}{here}."


def _able_requesters(tx: Tx, people: People, authority: Authority) -> set[UserId]:
    return {
        user
        for user in authority.requesters
        if may_say_yes(authority, user, role_of(tx, people, user, authority.workspace))
    }


def _asked(tx: Tx, users: list[UserId]) -> str:
    if not users:
        return NOBODY
    named = ", ".join(name_of(tx, user) for user in users[:MOST_NAMES])
    more = len(users) - MOST_NAMES
    return f"Also sent to: {named}{f' and {more} more' if more > 0 else ''}."
