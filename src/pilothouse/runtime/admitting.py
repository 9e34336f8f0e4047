"""Strangers at the door: a code lets them in, else they are told once a day whose house this is, and an owner is asked.

Nothing else happens, and nothing of what they said is kept (law 7).
"""

from __future__ import annotations

from collections.abc import Mapping

from pilothouse.core.ask import AskRow
from pilothouse.core.channel import Channel, Receipt, serves
from pilothouse.core.ids import ChannelId, IdMaker, MessageId, UserId
from pilothouse.core.message import Content, InboundMessage, conversation_id
from pilothouse.core.people import People
from pilothouse.core.queue import CONTROL_LANE
from pilothouse.core.store import Tx
from pilothouse.runtime.auditing import record
from pilothouse.runtime.awaiting import reply_key
from pilothouse.runtime.joining import ask_to_join
from pilothouse.runtime.outgoing import say
from pilothouse.runtime.pairing import TRIES, TRIES_WITHIN_S, pair, parse_code
from pilothouse.runtime.placing import ensure_place, message_key
from pilothouse.runtime.raising import places_of
from pilothouse.runtime.settings import Settings
from pilothouse.runtime.standing import note_heard

DAY_S = 86_400.0
NOT_LET_IN = "Hello. Only people who were let in can talk to this Pilothouse. {next} Your id here is {user}."
ASKED = "Its owner has been asked; you will hear of it if they agree."
ASK_THEM = "Its owner can let you in."
BY_CODE = "To get in, send the code that pilothouse pair shows on its machine."
ELSEWHERE = "You were let in, but not for the workspace of this conversation. An owner can change that."


def is_worth_a_word(tx: Tx, message: InboundMessage, at: float) -> bool:
    """Whether a stranger's message could change anything: most of them only cost a look."""
    user = message.author.id
    if parse_code(message.text):
        return tx.tallied(f"pair:{user}", at, TRIES_WITHIN_S) <= TRIES
    return not tx.tallied(_told(user), at, DAY_S)


def meet(
    tx: Tx,
    ids: IdMaker,
    settings: Settings,
    message: InboundMessage,
    at: float,
    *,
    channels: Mapping[ChannelId, Channel],
) -> Receipt:
    """`channels` are those that are served here: in a terminal that is closed, nobody is asked anything."""
    if code := parse_code(message.text):
        return _pair(tx, ids, settings.people, code, message, at)
    user = message.author.id
    if tx.tally(_told(user), at, DAY_S) > 1:
        return Receipt("refused")
    record(tx, at, user, "sender.refused", conversation=conversation_id(message.address))
    if _is_known(tx, settings.people, user):
        return Receipt("refused", text=ELSEWHERE)
    may_ask = settings.join_asks and not message.author.is_bot
    asked = ask_to_join(tx, ids, settings.people, message, at) if may_ask else None
    how = ASK_THEM if asked is None else ASKED if _is_shown(tx, asked, channels) else BY_CODE
    return Receipt("refused", text=NOT_LET_IN.format(next=how, user=user))


def _is_shown(tx: Tx, asked: AskRow, channels: Mapping[ChannelId, Channel]) -> bool:
    places = filter(None, map(tx.conversations.get, places_of(asked)))
    shown = ((channels.get(place.address.channel), place.id) for place in places)
    return any(channel is not None and serves(channel, place) for channel, place in shown)


def _pair(tx: Tx, ids: IdMaker, people: People, code: str, message: InboundMessage, at: float) -> Receipt:
    """The message is put down as done, so that the platform may bring it twice."""
    key = message_key(message.address, message.native_id)
    known = tx.inbox.by_key(key)
    if known is not None:
        return Receipt("duplicate", known.id)
    grant, text = pair(tx, ids, people, code, message.author, at)
    if grant is None:
        return Receipt("refused", text=text)
    place = ensure_place(tx, message.address, at, private=message.private)
    note_heard(tx, message.author, place)
    put = tx.inbox.put(
        id=MessageId(ids("msg")),
        key=key,
        lane=CONTROL_LANE,
        conversation_id=place.id,
        kind="command",
        body=b'{"command":"pair"}',
        at=at,
    )
    tx.inbox.claim([put.row.id])
    tx.inbox.done(put.row.id, at, "paired")
    reply = Content(text, "reply", reply_to=message.native_id)
    say(tx, ids, place.id, reply, key=reply_key(put.row.id), at=at)
    return Receipt("queued", put.row.id)


def _is_known(tx: Tx, people: People, user: UserId) -> bool:
    """Let in somewhere, if not here."""
    return bool(tx.people.of(user)) or any(user in roles for roles in people.workspaces.values())


def _told(user: UserId) -> str:
    return f"told:{user}"
