"""Everything about strangers: the refusal, the join ask, the pairing code, the grant.

A stranger is told once a day how to get in, and an owner is asked whether to let them in: few asks at once, and none
for a month after a no. Nothing of what strangers say is kept (law 7).

A pairing code is shown on the machine and lets in its first sender, for a short time. One code is valid at a time and
only its hash is kept; a wrong try counts against its sender and against the code. The first to pair becomes the owner
if there is none but the person at the terminal. A code is not used up by someone who already has its role.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from pilothouse.core.ask import Ask, AskRow, Decision
from pilothouse.core.channel import Channel, Receipt, serves
from pilothouse.core.ids import AskId, ChannelId, IdMaker, MessageId, UserId
from pilothouse.core.message import Address, Author, Content, InboundMessage, conversation_id
from pilothouse.core.people import OWNERS, Authority, Grant, People, Role, at_least
from pilothouse.core.queue import CONTROL_WAITLIST
from pilothouse.core.store import Tx
from pilothouse.core.text import first_line
from pilothouse.runtime.asks.settle import lapse
from pilothouse.runtime.asks.show import places_of, raise_ask
from pilothouse.runtime.audit import record
from pilothouse.runtime.conversations.places import ensure_place, message_key
from pilothouse.runtime.facts import DECLINED, PAIR_TRIES, PAIRING, REFUSED_STRANGERS, load_fact, save_fact
from pilothouse.runtime.outbox import reply_key, say
from pilothouse.runtime.roles import approver_chats, note_author, role_of
from pilothouse.runtime.settings import Settings

JOIN = "join"
JOIN_OPEN_S = 86_400.0
DECLINED_S = 30 * 86_400.0
MAX_JOIN_ASKS = 5
"""Limits the open join asks, so that strangers cannot flood an owner."""
WELCOME = "You are let in. Send a message to begin; /help lists the commands."

CODE_OPEN_S = 600.0
MAX_TRIES = 5
TRIES_WITHIN_S = 3600.0
MAX_TRIES_BY_ANYONE = 50
"""Wrong tries by anyone after which a code is withdrawn. Against forty bits they are no danger."""
ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Crockford's base 32: no two characters look alike."""

_SIGN = f"[{ALPHABET}]"
_MARKS = r"[\s`*_]*"
"""Markup around a code that somebody passed on as code or in bold."""
_BARE = re.compile(rf"{_MARKS}({_SIGN}{{4}})-({_SIGN}{{4}}){_MARKS}", re.IGNORECASE)
_COMMAND = re.compile(rf"\s*/pair(?:@\w+)?\s+({_SIGN}{{4}})[- ]?({_SIGN}{{4}})\s*", re.IGNORECASE)

_CALLED: Mapping[Role, str] = {"owner": "the owner", "admin": "an admin", "member": "a member"}

DAY_S = 86_400.0
NOT_LET_IN = "Hello. Only people who were let in can use this Pilothouse. {next} Your id here is {user}."
ASKED = "Its owner has been asked; you get a message here if they agree."
ASK_THEM = "Its owner can let you in."
BY_CODE = "To get in, run pilothouse pair on its machine and send the code here."
ELSEWHERE = "You have no access to the workspace of this conversation. An owner can grant it."


def ask_to_join(tx: Tx, ids: IdMaker, people: People, message: InboundMessage, at: float) -> AskRow | None:
    """Ask the owners, and return the new or already open ask; None if they are not asked."""
    user = message.author.id
    waiting = tx.asks.open_about(JOIN, limit=MAX_JOIN_ASKS)
    if already := [row for row in waiting if row.ask.payload["user"] == user]:
        return already[0]
    if len(waiting) >= MAX_JOIN_ASKS or tx.tallied(DECLINED.of(user), at, DECLINED_S):
        return None
    name = first_line(message.author.name)  # chosen by the stranger: must not add lines
    asked = Ask(
        AskId(""),
        "approval",
        f"Let {name} ({user}) in as a member?",
        {"user": user, "name": name, "role": "member", "address": msgspec.to_builtins(message.address)},
        expires_at=at + JOIN_OPEN_S,
    )
    authority = Authority(OWNERS)
    places = approver_chats(tx, people, authority)
    return raise_ask(tx, ids, asked, topic=JOIN, authority=authority, places=places, at=at)


def settle_join(tx: Tx, ids: IdMaker, row: AskRow, decision: Decision, at: float) -> None:
    payload, by = row.ask.payload, decision.by or ""
    user = UserId(payload["user"])
    if decision.verdict != "allow":
        if by:  # an expired ask is not a refusal
            tx.tally(DECLINED.of(user), at, DECLINED_S)
        return
    tx.people.grant(Grant(user, "member", name=payload["name"], by=by, at=at))
    record(tx, at, by, "people.granted", user=user, role="member")
    address = msgspec.convert(payload["address"], Address)
    place = ensure_place(tx, address, at)
    say(tx, ids, place.id, Content(WELCOME, "notice"), key=f"welcome:{row.ask.id}", at=at)


def grant_access(tx: Tx, ids: IdMaker, grant: Grant, at: float) -> None:
    tx.people.grant(grant)
    for row in tx.asks.open_about(JOIN, limit=MAX_JOIN_ASKS):
        if row.ask.payload["user"] == grant.user:
            lapse(tx, ids, row, at, because=f"let in as {grant.role}")


class Pairing(Struct, frozen=True):
    hash: str
    role: Role
    workspace: str
    expires_at: float


def parse_code(text: str) -> str | None:
    """Return the code if the text is nothing but a code, alone or after `/pair`."""
    found = _COMMAND.fullmatch(text) or _BARE.fullmatch(text)
    return "".join(found.groups()).upper() if found else None


def offered_code(tx: Tx, text: str) -> str | None:
    """Return the code if the text is the code that was shown last and not used yet. It may have expired."""
    code = parse_code(text)
    kept = load_fact(tx, PAIRING, Pairing) if code else None
    return code if code and kept and hmac.compare_digest(kept.hash, _digest(code)) else None


def offer_pairing(
    tx: Tx, code: str, *, role: Role, workspace: str, at: float, open_s: float = CODE_OPEN_S
) -> Pairing:
    """Store a new code, replacing the previous one. The caller draws `code` at random from `ALPHABET`."""
    pairing = Pairing(_digest(code), role, workspace, at + open_s)
    save_fact(tx, PAIRING, pairing)
    record(tx, at, "shell", "pairing.offered", role=role, workspace=workspace)
    return pairing


def has_owner(tx: Tx, people: People, machine: UserId) -> bool:
    """Tell whether there is an owner besides the person at the machine's own terminal."""
    owners = {user for user, role in people.roles.items() if role == "owner"}
    owners |= {grant.user for grant in tx.people.everybody() if grant.role == "owner" and not grant.workspace}
    return bool(owners - {machine})


def pair(
    tx: Tx, ids: IdMaker, people: People, code: str, author: Author, at: float
) -> tuple[Grant | None, str]:
    """Try a code. Returns the grant, if any, and the reply to its sender."""
    if tx.tally(PAIR_TRIES.of(author.id), at, TRIES_WITHIN_S) > MAX_TRIES:
        return None, "Too many attempts. Wait an hour, then ask for a new code."
    pairing = _offered(tx, at)
    if pairing is None or not hmac.compare_digest(pairing.hash, _digest(code)):
        if pairing and tx.tally(PAIR_TRIES.of(pairing.hash), at, CODE_OPEN_S) >= MAX_TRIES_BY_ANYONE:
            save_fact(tx, PAIRING, None)
        record(tx, at, author.id, "pairing.refused")
        return (
            None,
            "That code is wrong or has expired. Run pilothouse pair on the machine for a new one.",
        )
    held = role_of(tx, people, author.id, pairing.workspace)
    if at_least(held, pairing.role):
        return None, f"You are already {_CALLED[held]} here. The code is still valid for somebody else."
    save_fact(tx, PAIRING, None)
    grant = Grant(author.id, pairing.role, pairing.workspace, author.name, "pairing", at)
    grant_access(tx, ids, grant, at)
    record(tx, at, author.id, "people.paired", role=grant.role, workspace=grant.workspace)
    where = f" of {grant.workspace}" if grant.workspace else ""
    return grant, f"You are let in as {grant.role}{where}. Send a message to begin; /help lists the commands."


def _offered(tx: Tx, at: float) -> Pairing | None:
    pairing = load_fact(tx, PAIRING, Pairing)
    return pairing if pairing is not None and pairing.expires_at > at else None


def _digest(code: str) -> str:
    return hashlib.sha256(f"pilothouse pairing {code}".encode()).hexdigest()


def should_reply_to_stranger(tx: Tx, message: InboundMessage, at: float) -> bool:
    """Tell whether a stranger's message needs a write: most are only read and ignored."""
    user = message.author.id
    if parse_code(message.text):
        return tx.tallied(PAIR_TRIES.of(user), at, TRIES_WITHIN_S) <= MAX_TRIES
    return not tx.tallied(REFUSED_STRANGERS.of(user), at, DAY_S)


def handle_stranger(
    tx: Tx,
    ids: IdMaker,
    settings: Settings,
    message: InboundMessage,
    at: float,
    *,
    channels: Mapping[ChannelId, Channel],
) -> Receipt:
    """Try a pairing code, or refuse. `channels` are those served here: a closed terminal shows no ask."""
    if code := parse_code(message.text):
        return _pair(tx, ids, settings.people, code, message, at)
    user = message.author.id
    if tx.tally(REFUSED_STRANGERS.of(user), at, DAY_S) > 1:
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
    """Store the message as done, so that a repeat from the platform is a duplicate."""
    key = message_key(message.address, message.native_id)
    known = tx.inbox.by_key(key)
    if known is not None:
        return Receipt("duplicate", known.id)
    grant, text = pair(tx, ids, people, code, message.author, at)
    if grant is None:
        return Receipt("refused", text=text)
    place = ensure_place(tx, message.address, at, private=message.private)
    note_author(tx, message.author, place, at)
    put = tx.inbox.put(
        id=MessageId(ids("msg")),
        key=key,
        waitlist=CONTROL_WAITLIST,
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
    """Tell whether the user has a role in some workspace."""
    return bool(tx.people.of(user)) or any(user in roles for roles in people.workspaces.values())
