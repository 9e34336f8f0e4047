"""An ask: something that only a person may decide. A row before it is a button (law 6).

An answer names the ask and the hash of what was asked, so that nobody ever approves something else than they
read. Whatever goes wrong with an ask is a "no".

Asks as they are kept: whose turn asked, who may answer, how it stands, and whether the engine has heard it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, get_args

import msgspec
from msgspec import Struct, field

from pilothouse.core.errors import IllegalMove
from pilothouse.core.ids import AskId, ConversationId, SessionId, TurnId, UserId
from pilothouse.core.people import Authority, Vote

MARKS = "*_`~|"
"""What stands around words that look like something."""

AskKind = Literal["approval", "question", "plan"]
AskState = Literal["open", "answered", "expired", "withdrawn", "superseded"]
Verdict = Literal["allow", "deny", "answer"]
Remember = Literal["once", "session", "always"]

ASK_STATES: tuple[AskState, ...] = get_args(AskState)
ASK_MOVES: dict[AskState, frozenset[AskState]] = {
    "open": frozenset({"answered", "expired", "withdrawn", "superseded"}),
    "answered": frozenset(),
    "expired": frozenset(),
    "withdrawn": frozenset(),
    "superseded": frozenset(),
}


class Option(Struct, frozen=True):
    key: str
    label: str


class RuleOffer(Struct, frozen=True):
    """What an allow would save besides letting this one pass: the rule, exactly as `pilothouse rules` lists it.

    Where one answer saves several, each is a line of its own.
    """

    remember: Remember
    rule: str


class Ask(Struct, frozen=True):
    """`payload` is exactly what was asked; `payload_hash` is what an answer is bound to."""

    id: AskId
    kind: AskKind
    title: str
    payload: dict[str, Any] = field(default_factory=dict)
    payload_hash: str = ""
    options: tuple[Option, ...] = ()
    free_text: bool = False
    expires_at: float | None = None
    many: bool = False
    """Whether several options may be chosen."""
    why: str = ""
    """Why no rule decided it."""
    preview: str = ""
    """A file change as a bounded unified diff; empty where the title says it all."""
    offers: tuple[RuleOffer, ...] = ()
    of_house: bool = False
    """Whether Pilothouse itself asks: then the title says all of it, and nobody waits for a reason."""
    whose: str = ""
    """Where it is shown besides its own conversation: who wants it, where, and who was asked."""


class Decision(Struct, frozen=True):
    """What a person, or a rule, said. A deny with a `text` lets the engine go on; without, the turn stops.

    An allow may bring an `input`: what shall be done instead of exactly what was asked. A deny may say that its
    reason follows (`reason_wanted`): it counts at once, and the engine hears it once the reason came or did not.
    """

    verdict: Verdict
    options: tuple[str, ...] = ()
    text: str = ""
    remember: Remember = "once"
    by: UserId | None = None
    input: dict[str, Any] | None = None
    reason_wanted: bool = False


def payload_bytes(payload: dict[str, Any]) -> bytes:
    """What is hashed: the same payload gives the same bytes, whatever the order of its keys."""
    try:
        return msgspec.json.encode(payload, order="deterministic")
    except UnicodeEncodeError:  # a lone surrogate: the standard library escapes what msgspec refuses
        return json.dumps(payload, sort_keys=True).encode()


def hash_payload(payload: dict[str, Any]) -> str:
    return hashlib.sha256(payload_bytes(payload)).hexdigest()


def move_ask(state: AskState, to: AskState) -> AskState:
    """The new state; an illegal move raises and changes nothing."""
    if to not in ASK_MOVES[state]:
        raise IllegalMove("an ask", state, to)
    return to


def stops(ask: Ask, decision: Decision) -> bool:
    """Whether its turn ends with this: a plain no. One with a reason, or to a question, lets the engine go on."""
    return decision.verdict == "deny" and not decision.text and ask.kind != "question"


def misfit(ask: Ask, decision: Decision) -> str:
    """Why this is no answer to the ask, whoever gave it; empty if it is one."""
    known = {option.key for option in ask.options}
    if unknown := [key for key in decision.options if key not in known]:
        return f"There is no option {unknown[0]!r} to choose."
    if len(set(decision.options)) > 1 and not ask.many:
        return "Only one option can be chosen."
    if decision.verdict == "allow" and ask.kind == "question":
        return "This is a question: choose an option, or say it in words."
    if decision.verdict == "allow" and decision.remember not in {"once", *(o.remember for o in ask.offers)}:
        return "There is no rule to save for this: it can only be allowed once."
    if decision.verdict == "answer" and not decision.options and not decision.text.strip():
        return "The answer is empty."
    return ""


def parse_reply(ask: Ask, text: str) -> Decision:
    """A plain reply to a question: the options that it names by number, key or label, else its words.

    Of a label such as `Red: warm` the first word is enough. One that was copied may be bold, or code.
    """
    names = {
        name.casefold(): option.key
        for number, option in reversed(list(enumerate(ask.options, 1)))
        for name in (option.label.partition(": ")[0], option.label, option.key, str(number))
    }

    def named(said: str) -> str | None:
        word = said.strip().casefold()
        return names.get(word) or names.get(word.strip(MARKS))

    if (key := named(text)) is not None:
        return Decision("answer", (key,))
    chosen = [named(part) for part in text.split(",")]
    if ask.many and all(chosen):
        return Decision("answer", tuple(dict.fromkeys(key for key in chosen if key)))
    return Decision("answer", text=text)


class AskRow(Struct, frozen=True):
    """`engine_key` is the id under which the engine asked: the ask's own id is ours and outlives the engine.

    Where the house asks by itself, `topic` says about what; `session_id` and `turn_id` are empty if it is about none.
    """

    ask: Ask
    conversation_id: ConversationId
    session_id: SessionId
    turn_id: TurnId
    engine_key: str
    state: AskState
    asked_at: float
    decision: Decision | None = None
    answered_at: float | None = None
    used: bool = False
    """The decision reached an engine. One that did not may still be used, once, for the same payload."""
    authority: Authority = Authority()
    votes: tuple[Vote, ...] = ()
    """Each yes so far, where several people must say it."""
    shown_in: tuple[ConversationId, ...] = ()
    """Where it is shown besides its own conversation."""
    topic: str = ""
    about: AskId | None = None
    """The ask whose reason this one wants to know."""

    @property
    def subject(self) -> str:
        """In one word, for lists: what the house asks about, else what an engine wants."""
        return self.topic or self.ask.kind


def meant(found: Sequence[AskRow], word: str) -> Sequence[AskRow]:
    """Of asks whose id begins with `word`: the one with just that id, else the open ones, else all of them.

    Nobody who types a few letters means one that is settled while another waits.
    """
    exact = [row for row in found if row.ask.id == word]
    return exact or [row for row in found if row.state == "open"] or found


class Asks(Protocol):
    def add(self, row: AskRow) -> None: ...

    def get(self, id: AskId) -> AskRow | None: ...

    def find(self, prefix: str) -> list[AskRow]:
        """Asks whose id starts so, the open ones first, then the newest, at most 20."""
        ...

    def move(self, id: AskId, to: AskState, *, at: float, decision: Decision | None = None) -> AskRow:
        """Checked by the table in `ask.py`. Raises `IllegalMove`, and then nothing changed."""
        ...

    def vote(self, id: AskId, votes: Sequence[Vote]) -> None:
        """Replaces the votes; `StoreError` unless it is open."""
        ...

    def show_in(self, id: AskId, places: Sequence[ConversationId]) -> AskRow:
        """It is shown there too. `StoreError` unless it is open."""
        ...

    def amend(self, id: AskId, decision: Decision) -> AskRow:
        """The reason of a decision came later. `StoreError` unless it is answered."""
        ...

    def mark_used(self, id: AskId, *, turn_id: TurnId | None = None) -> None:
        """`turn_id` is the turn whose engine hears it, where that is not the one that asked: it owns the ask now."""
        ...

    def give_back(self, id: AskId) -> None:
        """The engine that heard the decision is gone and had done nothing: it may be used once more."""
        ...

    def open_in(self, conversation_id: ConversationId) -> list[AskRow]:
        """Oldest first."""
        ...

    def open_question(
        self,
        conversation_id: ConversationId,
        now: float,
        accepts: Callable[[Authority], bool],
        *,
        session_id: SessionId | None = None,
    ) -> AskRow | None:
        """The one that a plain reply answers: the oldest, of the oldest 20 that have time left, that `accepts` it."""
        ...

    def open_of(self, session_id: SessionId) -> list[AskRow]:
        """Oldest first."""
        ...

    def open_about(self, topic: str, *, limit: int = 100) -> list[AskRow]:
        """What the house itself asks, oldest first."""
        ...

    def newest(self, *, states: Sequence[AskState] = (), limit: int = 100) -> list[AskRow]:
        """Newest first; without `states`, those that are open."""
        ...

    def of_turn(self, turn_id: TurnId) -> list[AskRow]: ...

    def unused_of(self, session_id: SessionId) -> list[AskRow]:
        """Every answer that never reached an engine, oldest first."""
        ...

    def unused_answer(self, session_id: SessionId, payload_hash: str) -> AskRow | None:
        """An answered ask of this session whose decision never reached an engine."""
        ...

    def expired(self, now: float, *, limit: int) -> list[AskRow]: ...

    def next_expiry(self) -> float | None: ...

    def shift(self, seconds: float, now: float) -> None: ...
