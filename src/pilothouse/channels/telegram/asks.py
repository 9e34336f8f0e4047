"""An ask as a message with buttons: exactly what is asked, why, what an allow would save, and, once settled, by whom.

What a person approves is shown as it is, never as markup. What is too long for a message is a file above the
question, and the question names the hash of what was asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from pilothouse.channels.telegram.blocks import Block, Code, Item, Items, Paragraph, Span, Spans, words
from pilothouse.channels.telegram.choices import ALLOW, is_numbered, keyboard, takes_words
from pilothouse.channels.telegram.cut import Formatted, cut, head
from pilothouse.channels.telegram.limits import AGAIN_ROOM, TEXT
from pilothouse.channels.telegram.look import Look
from pilothouse.channels.telegram.markdown import parse_markdown
from pilothouse.channels.telegram.payload import File, Message
from pilothouse.channels.telegram.styled import style_blocks
from pilothouse.channels.text import utf16_units
from pilothouse.core.ask import Ask, AskState, Decision, RuleOffer
from pilothouse.core.message import clean_text

SETTLED_ROOM = 500
"""Kept free below a question for the line that says who answered what."""
BODY_UNITS = TEXT - AGAIN_ROOM - SETTLED_ROOM
TITLE_UNITS = 700
SHORT_UNITS = 1500
TAIL_UNITS = 400
MAX_LINES = 60
SHORT_LINES = 15
HASH_SHOWN = 12
REPLY = "Reply to this message to answer in your own words."
REASON = "Reply to this message and say why; it is denied with your words."
_HIDDEN = re.compile("[\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]")
_OVER: dict[AskState, str] = {
    "expired": "Nobody answered, so it is a no.",
    "withdrawn": "No longer asked.",
    "superseded": "No longer open.",
}
_ALLOWED = {"once": "Allowed once", "session": "Allowed for this session", "always": "Always allowed"}


def render_ask(ask: Ask, look: Look, *, said: str = "") -> Sequence[File | Message]:
    """The question with its buttons, last; before it a file with all of it where it is too long to be read here.

    `said` is the question as the house says it: the title, perhaps with a word before it.
    """
    whole = _body(ask, look, said)
    if whole is not None:
        return [_question(ask, whole)]
    name, text = f"{ask.id}.txt", "\n".join(_lines(ask))
    file = File(text=text, name=name, caption=f"What is asked, whole. Hash {_hash(ask)}.", silent=True)
    return [file, _question(ask, _short(ask, look, said))]


def render_pressed(ask: Ask, look: Look, *, chosen: int = 0, why: bool = False) -> Message:
    """The same question after a press that decided nothing yet: other marks, or a request for a reason."""
    return _question(ask, _shown(ask, look), chosen=chosen, why=why)


def render_settled(ask: Ask, line: str, look: Look) -> Message:
    """The question without its buttons, and what became of it."""
    body = _shown(ask, look)
    tail = head(style_blocks([Paragraph(words(_plainly(line), "bold"))], look.table_width), SETTLED_ROOM - 2)
    found = _joined(body, tail)
    return Message(text=found.text, entities=found.entities)


def settled_line(ask: Ask, decision: Decision, by: str) -> str:
    """Who answered what."""
    labels = {option.key: option.label for option in ask.options}
    match decision.verdict:
        case "allow":
            word = "✓ Go ahead" if ask.kind == "plan" else f"✓ {_ALLOWED[decision.remember]}"
        case "deny":
            word = "✗ Denied"
        case "answer":
            word = "→ " + (", ".join(labels.get(key, key) for key in decision.options) or "Answered")
    reason = f": {decision.text}" if decision.text else ""
    return f"{word} · {by}{reason}"


def over_line(state: AskState) -> str:
    return _OVER.get(state, "Already answered.")


def _question(ask: Ask, body: Formatted, *, chosen: int = 0, why: bool = False) -> Message:
    hint = REASON if why else REPLY if takes_words(ask) else ""
    found = _joined(body, Formatted(hint))
    return Message(text=found.text, entities=found.entities, reply_markup=keyboard(ask, chosen, why=why))


def _joined(body: Formatted, tail: Formatted) -> Formatted:
    if not tail.text or not body.text:
        return body if body.text else tail
    start = utf16_units(body.text) + 2
    moved = (msgspec.structs.replace(entity, offset=entity.offset + start) for entity in tail.entities)
    return Formatted(f"{body.text}\n\n{tail.text}", (*body.entities, *moved))


def _shown(ask: Ask, look: Look) -> Formatted:
    return _body(ask, look, "") or _short(ask, look, "")


def _body(ask: Ask, look: Look, said: str) -> Formatted | None:
    """The whole question; None if it does not fit, or is too long to be read between buttons."""
    blocks = [*_head(ask, said), *_details(ask), *_tail(ask)]
    parts = cut(style_blocks(blocks, look.table_width), BODY_UNITS)
    return parts[0] if len(parts) == 1 and parts[0].text.count("\n") < MAX_LINES else None


def _short(ask: Ask, look: Look, said: str) -> Formatted:
    """The beginning of the question, and of what it is about; the file has the rest."""
    note = Paragraph(words(f"This is not all of it: read the file. Hash {_hash(ask)}.", "bold"))
    details = [_few_lines(block) for block in _details(ask)]
    found = Formatted("")
    for blocks, units in (
        ([*_head(ask, said)], TITLE_UNITS),
        (details, SHORT_UNITS),
        ([*_tail(ask)], TAIL_UNITS),
        ([note], TAIL_UNITS),
    ):
        found = _joined(found, head(style_blocks(blocks, look.table_width), units))
    return found


def _few_lines(block: Block) -> Block:
    if not isinstance(block, Code) or block.text.count("\n") < SHORT_LINES:
        return block
    lines = block.text.split("\n")
    more = f"… {len(lines) - SHORT_LINES} more lines"
    return Code("\n".join([*lines[:SHORT_LINES], more]), block.language)


def _head(ask: Ask, said: str) -> Iterator[Block]:
    before = _plainly(said).removesuffix(_plainly(ask.title)).strip()
    if before:
        yield Paragraph(words(before, "italic"))
    title = _plainly(ask.title).strip() or "A question"
    if ask.kind == "approval":
        first, _, rest = title.partition("\n")
        yield Paragraph((*words(first, "bold"), *words(f"\n{rest}" if rest else "")))
    else:
        yield from parse_markdown(title)


def _details(ask: Ask) -> Iterator[Block]:
    if ask.preview:
        yield Code(_plainly(ask.preview).rstrip("\n"), "diff")
    elif not _title_says_all(ask):
        yield from _values(ask)
    if ask.options and is_numbered(ask):
        yield Items(tuple(Item((Paragraph(words(_plainly(o.label))),)) for o in ask.options), 1)


def _values(ask: Ask) -> Iterator[Block]:
    """Long values as blocks, short ones line by line; a command that the title has whole is not said twice."""
    short: list[Span] = []
    for name, value in _fields(ask):
        if value == ask.title.split("\n", 1)[0]:
            continue
        if name == "command" or "\n" in value:
            yield Code(value, "bash" if name == "command" else "")
        else:
            short += [Span("\n" if short else ""), *words(f"{name}: ", "italic"), *words(value, "code")]
    if short:
        yield Paragraph(tuple(short))


def _tail(ask: Ask) -> Iterator[Block]:
    if ask.why:
        yield Paragraph(words(_plainly(ask.why), "italic"))
    offers = [offer for offer in ask.offers if offer.remember != "once"]
    if offers:
        yield Paragraph(tuple(span for offer in offers for span in _offer(offer)))


def _offer(offer: RuleOffer) -> Spans:
    button = ALLOW[offer.remember]
    return (Span(f"“{button}” saves "), *words(_plainly(offer.rule), "code"), Span("\n"))


def _lines(ask: Ask) -> Iterator[str]:
    """All of it as plain text."""
    yield _plainly(ask.title)
    yield f"hash: {ask.payload_hash}"
    if ask.why:
        yield f"why: {_plainly(ask.why)}"
    for name, value in _fields(ask):
        yield f"\n{name}:\n{value}"
    if ask.preview:
        yield f"\npreview:\n{_plainly(ask.preview)}"
    for number, option in enumerate(ask.options, 1):
        yield f"\n{number}. {_plainly(option.label)}"


def _title_says_all(ask: Ask) -> bool:
    return ask.kind != "approval" or ask.payload.items() <= {"kind": ask.kind, "title": ask.title}.items()


def _fields(ask: Ask) -> Iterator[tuple[str, str]]:
    """What was asked, value by value; the values of an engine's `input` stand beside the others."""
    given = ask.payload.get("input")
    flat = (
        {**{k: v for k, v in ask.payload.items() if k != "input"}, **given}
        if isinstance(given, dict)
        else ask.payload
    )
    for name, value in flat.items():
        if value not in (None, "", {}, []):
            yield _plainly(str(name)), _plainly(value if isinstance(value, str) else _json(value))


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _plainly(text: str) -> str:
    """With what could hide or turn around a word made visible: nobody approves what they cannot read."""
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", clean_text(text))


def _hash(ask: Ask) -> str:
    return ask.payload_hash[:HASH_SHOWN]
