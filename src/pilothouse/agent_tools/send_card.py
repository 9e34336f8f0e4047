"""`send_card`: send a structured message: a title, text, fields, and actions that people can tap.

Every channel shows a card as text; where it has buttons, the actions are buttons too. A tapped action comes back as a
message of the person who tapped it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta

from pilothouse.agent_tools.messages import ToDestination
from pilothouse.agent_tools.tool import Tool, ToolCall
from pilothouse.core.message import LINE_BYTES, CommandButton, Content
from pilothouse.runtime.agent_calls.caller import CallRefused
from pilothouse.runtime.agent_calls.messages import send
from pilothouse.runtime.outbox import SAY

MOST_ITEMS = 50
MOST_ACTIONS = 10
DEEPEST = 4

Card = Annotated[
    dict[str, Any],
    Meta(
        description=(
            "title, description, fields [{name, value}], children [text or {type, text}], "
            "actions [{label, value} or {label, url}]"
        )
    ),
]
Fallback = Annotated[
    str, Meta(description="Text to send if the card itself has none. Every channel shows the text of a card.")
]


class SendCard(ToDestination, frozen=True, kw_only=True):
    card: Card
    fallback_text: Fallback = ""


async def run(call: ToolCall, given: SendCard) -> str:
    text = card_text(given.card) or given.fallback_text
    if not text.strip():
        raise CallRefused("The card has no text. Give it a title, a description, or a fallbackText.")
    content = Content(text, "notice", formatted=True, buttons=buttons_of(given.card))
    return await send(call.ports, await call.caller(), content, given.target)


def card_text(card: Mapping[str, Any]) -> str:
    """Return the card in Markdown."""
    title, description = _words(card.get("title")), _words(card.get("description"))
    blocks = [f"**{title}**" if title else "", description]
    blocks.append("\n".join(_fields(card.get("fields"))))
    blocks += _children(card.get("children"), DEEPEST)
    blocks.append("\n".join(_actions(card)))
    return "\n\n".join(block for block in blocks if block)


def buttons_of(card: Mapping[str, Any]) -> tuple[CommandButton, ...]:
    """Return a button for each action that sends words. Raises `CallRefused` for words that fit into no button."""
    actions = [action for action in _rows(card.get("actions"))[:MOST_ACTIONS] if not action.get("url")]
    found = [
        (_words(one.get("label")), _words(one.get("value")) or _words(one.get("label"))) for one in actions
    ]
    buttons = tuple(CommandButton(label, f"{SAY}{value}") for label, value in found if label)
    for button in buttons:
        if len(button.line.encode()) > LINE_BYTES:
            most = LINE_BYTES - len(SAY)
            raise CallRefused(
                f"The value of the action {button.label[:50]!r} is too long for a button: {most} bytes are the most. "
                "Give it a shorter value."
            )
    return buttons


def _actions(card: Mapping[str, Any]) -> Iterator[str]:
    for action in _rows(card.get("actions"))[:MOST_ACTIONS]:
        label, url = _words(action.get("label")), _words(action.get("url"))
        if label:
            yield f"- [{label}]({url})" if url.startswith(("https://", "http://")) else f"- {label}"


def _fields(fields: Any) -> Iterator[str]:
    for field in _rows(fields)[:MOST_ITEMS]:
        name = _words(field.get("name") or field.get("title") or field.get("label"))
        if name or field.get("value"):
            yield f"**{name}:** {_words(field.get('value'))}"


def _children(children: Any, depth: int) -> list[str]:
    if not isinstance(children, Sequence) or isinstance(children, str) or not depth:
        return [children] if isinstance(children, str) else []
    found: list[str] = []
    for child in children[:MOST_ITEMS]:
        if isinstance(child, str):
            found.append(child)
        elif isinstance(child, dict):
            found.append(_words(child.get("text") or child.get("content") or child.get("title")))
            found.append("\n".join(_fields(child.get("fields"))))
            found += _children(child.get("children"), depth - 1)
    return found


def _rows(value: Any) -> list[Mapping[str, Any]]:
    """Return the entries of a list; a plain text counts as its own label."""
    listed: list[Any] = value if isinstance(value, list) else []
    found = [{"label": one} if isinstance(one, str) else one for one in listed]
    return [one for one in found if isinstance(one, dict)]


def _words(value: Any) -> str:
    return " ".join(value.split()) if isinstance(value, str) else "" if value is None else str(value)


TOOL = Tool(
    "send_card",
    "Send a card with a title, fields and buttons; a pressed button is answered as a message.",
    SendCard,
    run,
)
