"""A stranger who wants in: an owner is asked, and a yes makes a member. Few asks at once, and none after a no.

Lets somebody in, whichever way they came: the grant, and the end of the question whether they may.

Pairing: a code that is shown on the machine lets in whoever sends it, once, and for a short time.

Rules: one code at a time, and only its hash is kept; a wrong try counts against its sender, and against the code; the
first who pairs becomes the owner, if the house has none but the person at its terminal. Whom a code gives nothing
that they have not already leaves it for somebody else.

Strangers at the door: a code lets them in, else they are told once a day whose house this is, and an owner is asked.

Nothing else happens, and nothing of what they said is kept (law 7).
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
from pilothouse.core.queue import CONTROL_LANE
from pilothouse.core.store import Tx
from pilothouse.core.text import first_line
from pilothouse.runtime.asks.settle import lapse
from pilothouse.runtime.asks.show import places_of, raise_ask
from pilothouse.runtime.audit import record
from pilothouse.runtime.conversations.places import ensure_place, message_key
from pilothouse.runtime.outbox import reply_key, say
from pilothouse.runtime.roles import approver_chats, note_author, role_of
from pilothouse.runtime.settings import Settings

JOIN = "join"
JOIN_OPEN_S = 86_400.0
UNWANTED_S = 30 * 86_400.0
MOST_OPEN = 5
"""A crowd of strangers must not bury an owner under questions."""
WELCOME = "You are let in. Send a message to begin; /help lists the commands."

CODE_OPEN_S = 600.0
TRIES = 5
TRIES_WITHIN_S = 3600.0
TRIES_OF_ALL = 50
"""Of forty bits that is nothing; a code that was guessed at so often is withdrawn all the same."""
ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Crockford's: no letter that reads like another."""

_FACT = "pairing"
_SIGN = f"[{ALPHABET}]"
_MARKS = r"[\s`*_]*"
"""Somebody may pass it on as code, or in bold."""
_BARE = re.compile(rf"{_MARKS}({_SIGN}{{4}})-({_SIGN}{{4}}){_MARKS}", re.IGNORECASE)
_COMMAND = re.compile(rf"\s*/pair(?:@\w+)?\s+({_SIGN}{{4}})[- ]?({_SIGN}{{4}})\s*", re.IGNORECASE)

_CALLED: Mapping[Role, str] = {"owner": "the owner", "admin": "an admin", "member": "a member"}

DAY_S = 86_400.0
NOT_LET_IN = "Hello. Only people who were let in can talk to this Pilothouse. {next} Your id here is {user}."
ASKED = "Its owner has been asked; you will hear of it if they agree."
ASK_THEM = "Its owner can let you in."
BY_CODE = "To get in, send the code that pilothouse pair shows on its machine."
ELSEWHERE = "You were let in, but not for the workspace of this conversation. An owner can change that."


def ask_to_join(tx: Tx, ids: IdMaker, people: People, message: InboundMessage, at: float) -> AskRow | None:
    """What the owners are asked, now or already; None if they are not."""
    user = message.author.id
    waiting = tx.asks.open_about(JOIN, limit=MOST_OPEN)
    if already := [row for row in waiting if row.ask.payload["user"] == user]:
        return already[0]
    if len(waiting) >= MOST_OPEN or tx.tallied(_unwanted(user), at, UNWANTED_S):
        return None
    name = first_line(message.author.name)  # theirs to choose: it must not write lines of its own
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
        if by:  # nobody answering is no verdict on anybody
            tx.tally(_unwanted(user), at, UNWANTED_S)
        return
    tx.people.grant(Grant(user, "member", name=payload["name"], by=by, at=at))
    record(tx, at, by, "people.granted", user=user, role="member")
    address = msgspec.convert(payload["address"], Address)
    place = ensure_place(tx, address, at)
    say(tx, ids, place.id, Content(WELCOME, "notice"), key=f"welcome:{row.ask.id}", at=at)


def _unwanted(user: UserId) -> str:
    return f"unwanted:{user}"


def let_in(tx: Tx, ids: IdMaker, grant: Grant, at: float) -> None:
    tx.people.grant(grant)
    for row in tx.asks.open_about(JOIN, limit=MOST_OPEN):
        if row.ask.payload["user"] == grant.user:
            lapse(tx, ids, row, at, because=f"let in as {grant.role}")


class Pairing(Struct, frozen=True):
    hash: str
    role: Role
    workspace: str
    expires_at: float


def parse_code(text: str) -> str | None:
    """The code that a message consists of, alone or behind `/pair`."""
    found = _COMMAND.fullmatch(text) or _BARE.fullmatch(text)
    return "".join(found.groups()).upper() if found else None


def offered_code(tx: Tx, text: str) -> str | None:
    """The code that a message consists of, if it is the one that was shown last and that let nobody in yet. Its time may
    be over."""
    code, kept = parse_code(text), _kept(tx)
    return code if code and kept and hmac.compare_digest(kept.hash, _digest(code)) else None


def offer_pairing(
    tx: Tx, code: str, *, role: Role, workspace: str, at: float, open_s: float = CODE_OPEN_S
) -> Pairing:
    """Replaces the code of before. Whoever calls this has drawn `code` at random from the alphabet."""
    pairing = Pairing(_digest(code), role, workspace, at + open_s)
    tx.set_fact(_FACT, msgspec.json.encode(pairing).decode())
    record(tx, at, "shell", "pairing.offered", role=role, workspace=workspace)
    return pairing


def has_owner(tx: Tx, people: People, machine: UserId) -> bool:
    """Whether the house belongs to anybody but the person at the machine's own terminal."""
    owners = {user for user, role in people.roles.items() if role == "owner"}
    owners |= {grant.user for grant in tx.people.everybody() if grant.role == "owner" and not grant.workspace}
    return bool(owners - {machine})


def pair(
    tx: Tx, ids: IdMaker, people: People, code: str, author: Author, at: float
) -> tuple[Grant | None, str]:
    """What the code gave its sender, if anything, and what they should be told."""
    if tx.tally(f"pair:{author.id}", at, TRIES_WITHIN_S) > TRIES:
        return None, "That were too many tries. Wait an hour, and ask for a new code."
    pairing = _offered(tx, at)
    if pairing is None or not hmac.compare_digest(pairing.hash, _digest(code)):
        if tx.tally("pair", at, CODE_OPEN_S) >= TRIES_OF_ALL:
            tx.set_fact(_FACT, "")
        record(tx, at, author.id, "pairing.refused")
        return (
            None,
            "That code is not right, or its time is over. On the machine, pilothouse pair shows a new one.",
        )
    held = role_of(tx, people, author.id, pairing.workspace)
    if at_least(held, pairing.role):
        return None, f"You are {_CALLED[held]} here already. The code is still good, for somebody else."
    tx.set_fact(_FACT, "")
    grant = Grant(author.id, pairing.role, pairing.workspace, author.name, "pairing", at)
    let_in(tx, ids, grant, at)
    record(tx, at, author.id, "people.paired", role=grant.role, workspace=grant.workspace)
    where = f" of {grant.workspace}" if grant.workspace else ""
    return grant, f"You are let in as {grant.role}{where}. Send a message to begin; /help lists the commands."


def _offered(tx: Tx, at: float) -> Pairing | None:
    pairing = _kept(tx)
    return pairing if pairing is not None and pairing.expires_at > at else None


def _kept(tx: Tx) -> Pairing | None:
    kept = tx.get_fact(_FACT)
    return msgspec.json.decode(kept, type=Pairing) if kept else None


def _digest(code: str) -> str:
    return hashlib.sha256(f"pilothouse pairing {code}".encode()).hexdigest()


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
    note_author(tx, message.author, place)
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
