"""Asks: decisions that only a person may make. An ask is a stored row before it is a button (law 6).

An answer names the ask and the hash of its payload, so an approval always covers exactly what was shown. Any error
with an ask counts as a "no". `AskRow` is the stored form: the turn that asked, the people who may answer, the state,
and whether the engine has received the decision.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, get_args

import msgspec
from msgspec import Struct, field

from pilothouse.core.call import Call
from pilothouse.core.errors import IllegalMove
from pilothouse.core.ids import AskId, ConversationId, SessionId, TurnId, UserId
from pilothouse.core.people import Authority, Vote

MARKS = "*_`~|"
"""Formatting characters around a copied label."""

YES = frozenset({"yes", "y", "allow", "allow once"})
NO = frozenset({"no", "n", "deny"})
"""Words that answer an approval or a plan when nothing else can be meant."""
SAID_NO = "The person said no."

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


class Option(Struct, frozen=True, omit_defaults=True):
    key: str
    label: str
    chosen_label: str = ""
    """Its words in the line that says what was answered; empty for the label."""


class RuleOffer(Struct, frozen=True):
    """The rule that an allow would save, as `pilothouse rules` lists it. Several rules are several lines."""

    remember: Remember
    rule: str


class Ask(Struct, frozen=True):
    """`payload` is exactly what is asked; an answer must name its `payload_hash`. The engine fills in `call` for approvals."""

    id: AskId
    kind: AskKind
    title: str
    payload: dict[str, Any] = field(default_factory=dict)
    payload_hash: str = ""
    options: tuple[Option, ...] = ()
    free_text: bool = False
    expires_at: float | None = None
    many: bool = False
    """Several options may be chosen."""
    why: str = ""
    """The reason why no rule decided it."""
    preview: str = ""
    """A file change as a bounded unified diff; empty where the title says it all."""
    offers: tuple[RuleOffer, ...] = ()
    of_house: bool = False
    """Pilothouse itself asks, not an engine: the title says everything, and a denial needs no reason."""
    whose: str = ""
    """In the ask's own conversation: the people who are asked elsewhere. In other places: where it comes from."""
    call: Call | None = None
    """The call that would run, in vendor-neutral words. None where nothing runs, as for a question."""
    asker: str = ""
    """The engine's name in sentences, as in “Claude wants to run …”."""


class Decision(Struct, frozen=True):
    """The decision of a person or a rule. A deny with a `text` lets the engine continue; a deny without one ends the turn.

    An allow may carry an `input` that replaces the one that was asked for. A deny with `reason_wanted` counts at once,
    but reaches the engine only when its reason has arrived or timed out."""

    verdict: Verdict
    options: tuple[str, ...] = ()
    text: str = ""
    remember: Remember = "once"
    by: UserId | None = None
    input: dict[str, Any] | None = None
    reason_wanted: bool = False


def payload_bytes(payload: dict[str, Any]) -> bytes:
    """Encode the payload for hashing. The order of keys does not matter."""
    try:
        return msgspec.json.encode(payload, order="deterministic")
    except UnicodeEncodeError:  # a lone surrogate: the standard library escapes what msgspec refuses
        return json.dumps(payload, sort_keys=True).encode()


def input_of(ask: Ask) -> dict[str, Any] | None:
    """Return the tool's input, which a person may change; None for an ask of another shape."""
    given = ask.payload.get("input")
    return given if isinstance(given, dict) else None


def is_secret(ask: Ask) -> bool:
    """Tell whether the answer is a secret, such as an API key. It is shown nowhere, and forgotten once the engine has it."""
    return ask.payload.get("secret") is True


def hash_payload(payload: dict[str, Any]) -> str:
    return hashlib.sha256(payload_bytes(payload)).hexdigest()


def move_ask(state: AskState, to: AskState) -> AskState:
    """Return the new state. An illegal move raises `IllegalMove`."""
    if to not in ASK_MOVES[state]:
        raise IllegalMove("an ask", state, to)
    return to


def ends_turn(ask: Ask, decision: Decision) -> bool:
    """True for a plain no. A no with a reason, or to a question, lets the engine continue."""
    return decision.verdict == "deny" and not decision.text and ask.kind != "question"


def answer_problem(ask: Ask, decision: Decision) -> str:
    """Say why the decision does not fit the ask; empty if it does."""
    known = {option.key for option in ask.options}
    if unknown := [key for key in decision.options if key not in known]:
        return f"There is no option {unknown[0]!r} to choose."
    if len(set(decision.options)) > 1 and not ask.many:
        return "Only one option can be chosen."
    if decision.verdict == "allow" and ask.kind == "question":
        return "This is a question: choose an option, or reply with text."
    if decision.verdict == "allow" and decision.remember not in {"once", *(o.remember for o in ask.offers)}:
        return "No rule can be saved for this; it can only be allowed once."
    if decision.verdict == "answer" and not decision.options and not decision.text.strip():
        return "The answer is empty."
    return ""


def parse_reply(ask: Ask, text: str) -> Decision:
    """Read a reply to a question: the options that it names by number, key or label, else its text.

    Of a label such as `Red: warm`, `Red` is enough. Formatting around a copied label is ignored."""
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


def parse_word(ask: Ask, text: str) -> Decision | None:
    """Read a typed answer to an approval or a plan: yes or no, or one of its options. None for any other text."""
    if ask.kind == "question":
        return None
    if ask.options:
        named = parse_reply(ask, text)
        return named if named.options else None
    word = text.strip().strip(MARKS).rstrip(".!").casefold()
    if word in YES:
        return Decision("allow")
    return Decision("deny", text=SAID_NO if ask.kind == "plan" else "") if word in NO else None


class AskRow(Struct, frozen=True):
    """A stored ask. `engine_key` is the engine's id for it; `ask.id` is ours and outlives the engine.

    `topic` is set where Pilothouse itself asks; `session_id` and `turn_id` are then empty unless it is about a turn.
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
    """The decision reached an engine. An unused decision may still be used, once, for the same payload."""
    authority: Authority = Authority()
    votes: tuple[Vote, ...] = ()
    """Each yes so far, where several people must agree."""
    shown_in: tuple[ConversationId, ...] = ()
    """Other conversations that show it."""
    topic: str = ""
    about: AskId | None = None
    """The denied ask whose reason this one asks for."""

    @property
    def caller(self) -> TurnId:
        """The turn that asked, also by a tool call whose question may outlive it; empty if none did."""
        return self.turn_id or TurnId(str(self.ask.payload.get("turn", "")) if self.topic else "")

    @property
    def subject(self) -> str:
        """One word for lists: the topic of our own ask, else the kind."""
        return self.topic or self.ask.kind


def matching_asks(found: Sequence[AskRow], word: str) -> Sequence[AskRow]:
    """Narrow the asks whose id begins with `word`: the exact id, else the open ones, else all."""
    exact = [row for row in found if row.ask.id == word]
    return exact or [row for row in found if row.state == "open"] or found


class Asks(Protocol):
    def add(self, row: AskRow) -> None: ...

    def get(self, id: AskId) -> AskRow | None: ...

    def find(self, prefix: str) -> list[AskRow]:
        """Return asks whose id starts with `prefix`: open ones first, then the newest, at most 20."""
        ...

    def move(self, id: AskId, to: AskState, *, at: float, decision: Decision | None = None) -> AskRow:
        """Move along `ASK_MOVES`. Raises `IllegalMove`, and then nothing changed."""
        ...

    def vote(self, id: AskId, votes: Sequence[Vote]) -> None:
        """Replace the votes. Raises `StoreError` unless the ask is open."""
        ...

    def show_in(self, id: AskId, places: Sequence[ConversationId]) -> AskRow:
        """Add places that show the ask. Raises `StoreError` unless it is open."""
        ...

    def amend(self, id: AskId, decision: Decision) -> AskRow:
        """Replace the decision, to add its reason. Raises `StoreError` unless the ask is answered."""
        ...

    def mark_used(self, id: AskId, *, turn_id: TurnId | None = None) -> None:
        """`turn_id` names the turn that received the decision, if not the one that asked; it owns the ask from now on."""
        ...

    def mark_unused(self, id: AskId) -> None:
        """Allow the decision to be used again: its engine died before doing anything."""
        ...

    def open_in(self, conversation_id: ConversationId) -> list[AskRow]:
        """Oldest first."""
        ...

    def open_at(
        self, place: ConversationId, now: float, accepts: Callable[[Authority], bool]
    ) -> list[AskRow]:
        """Return the oldest two accepted asks that the conversation shows, its own and others, among the 20 oldest
        not expired."""
        ...

    def open_question(
        self,
        conversation_id: ConversationId,
        now: float,
        accepts: Callable[[Authority], bool],
        *,
        session_id: SessionId | None = None,
    ) -> AskRow | None:
        """Return the question that a plain reply answers: the oldest accepted one among the 20 oldest not expired."""
        ...

    def open_of(self, session_id: SessionId) -> list[AskRow]:
        """Oldest first."""
        ...

    def open_about(self, topic: str, *, limit: int = 100) -> list[AskRow]:
        """Open asks of Pilothouse itself, oldest first."""
        ...

    def newest(self, *, states: Sequence[AskState] = (), limit: int = 100) -> list[AskRow]:
        """Newest first; without `states`, only open ones."""
        ...

    def of_turn(self, turn_id: TurnId) -> list[AskRow]: ...

    def unused_of(self, session_id: SessionId) -> list[AskRow]:
        """Answered asks whose decision never reached an engine, oldest first."""
        ...

    def unused_answer(self, session_id: SessionId, payload_hash: str) -> AskRow | None:
        """An answered ask with this payload whose decision never reached an engine."""
        ...

    def expired(self, now: float, *, limit: int) -> list[AskRow]: ...

    def next_expiry(self) -> float | None: ...

    def shift(self, seconds: float, now: float) -> None: ...
