"""An ask: something that only a person may decide. A row before it is a button (law 6).

An answer names the ask and the hash of what was asked, so that nobody ever approves something else than they
read. Whatever goes wrong with an ask is a "no".
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Literal, get_args

import msgspec
from msgspec import Struct, field

from pilothouse.core.errors import IllegalMove
from pilothouse.core.ids import AskId, UserId

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
