"""Prompts: from messages to the text that the engine reads.

One message from one person in a private chat is passed as typed. Everything else is framed: each message with its
sender, time and a small number, each kind under its own tag, in order, and escaped so that no message can forge a
frame. Routing fields never get in. A recap of a retired session is bounded, keeps the newest turns, and is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape, unescape

import msgspec

from pilothouse.core.ids import ConversationId, SessionId
from pilothouse.core.message import BY_PEOPLE, Attachment, InboundMessage
from pilothouse.core.store import Tx
from pilothouse.core.turn import Cause, Prompt, Turn

_FRAMED = re.compile(
    r"(?:<messages>\n)?<(message|task|webhook|system|agent|reaction)(?: [^>\n]*)?>\n(.*?)\n</\1>\n?", re.S
)
_QUOTED = re.compile(r"^<quoted>.*?</quoted>\n", re.S)
_CAUSES: dict[str, Cause] = {
    "chat": "message",
    "task": "schedule",
    "webhook": "webhook",
    "system": "system",
    "agent": "agent",
    "reaction": "reaction",
    "wake": "wake",
}

MAX_CHARS = 8000
MAX_TURNS = 20
ASKED_CHARS = 800
ANSWERED_CHARS = 2000

GIVEN_UP = "The previous session could not be resumed and is given up. This continues in a new one{how}."
WITH_RECAP = ", with a recap of what was said"
_HEAD = "The session before this one is lost. What was said in it, oldest first, shortened:"
_OLD_RECAP = re.compile(r"\A<recap>\n.*?\n</recap>\n\n", re.DOTALL)


def frame(messages: Sequence[InboundMessage]) -> Prompt:
    attachments = tuple(a for message in messages for a in message.attachments)
    by = ", ".join(dict.fromkeys(message.author.name for message in messages))
    authors = tuple(dict.fromkeys(m.author.id for m in messages if m.kind in BY_PEOPLE))
    if len(messages) == 1 and passes_as_typed(messages[0]):
        return Prompt(messages[0].whole_text, attachments, by, authors)
    if len(messages) == 1 and messages[0].kind == "wake":
        return Prompt(messages[0].text, by=by, wake=messages[0].native_id)
    body = "\n".join(_element(number, message) for number, message in enumerate(messages, 1))
    text = f"<messages>\n{body}\n</messages>" if len(messages) > 1 else body
    return Prompt(text, attachments, by, authors)


def unframe(text: str) -> str:
    """Remove the frame, for lists. A text without one is returned unchanged."""
    if not _FRAMED.match(text):
        return text
    said = [_QUOTED.sub("", body).strip() for _, body in _FRAMED.findall(text)]
    words = " · ".join(unescape(one) for one in said)
    return words if len(said) == 1 else f"{len(said)} messages: {words}"


def cause_of(messages: Sequence[InboundMessage]) -> Cause:
    """The cause of a turn: a person's message before anything else, a note only if there is nothing else."""
    kinds = [message.kind for message in messages]
    others = [kind for kind in kinds if kind != "system"]
    return _CAUSES["chat" if "chat" in kinds else (others or kinds)[0]]


def passes_as_typed(message: InboundMessage) -> bool:
    return message.private and message.kind == "chat" and message.quoted is None


def _element(number: int, message: InboundMessage) -> str:
    name = "message" if message.kind == "chat" else message.kind
    attributes = {
        "id": str(number),
        "from": "" if message.kind in ("task", "system") else message.author.name,
        "source": message.source,
        "time": _clock_time(message.sent_at),
    }
    shown = "".join(f' {key}="{escape(value)}"' for key, value in attributes.items() if value)
    quoted = "" if message.quoted is None else f"<quoted>{escape(message.quoted, quote=False)}</quoted>\n"
    files = "".join(f"\n{_file(attachment)}" for attachment in message.attachments)
    return f"<{name}{shown}>\n{quoted}{escape(message.whole_text, quote=False)}{files}\n</{name}>"


def _file(attachment: Attachment) -> str:
    return f'<file name="{escape(attachment.name)}" type="{escape(attachment.media_type)}"/>'


def _clock_time(at: float) -> str:
    if not at:
        return ""
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (OverflowError, ValueError, OSError):  # beyond the calendar: a channel sent milliseconds, say
        return ""


def write_recap(tx: Tx, conversation_id: ConversationId, session_id: SessionId) -> str:
    """Write the recap of a session; empty if nothing was said."""
    turns = tx.turns.of(conversation_id, statuses=("done", "failed", "cancelled"), limit=MAX_TURNS * 5)
    return recap_of([turn for turn in turns if turn.session_id == session_id and turn.answer])


def recap_of(turns: Sequence[Turn]) -> str:
    """`turns` are newest first, as many as there is room for."""
    told: list[str] = []
    room = MAX_CHARS
    for text in map(_turn, turns[:MAX_TURNS]):
        room -= len(text)
        if room < 0:
            break
        told.append(text)
    return "\n".join(["<recap>", _HEAD, *reversed(told), "</recap>"]) if told else ""


def with_recap(prompt: Prompt, recap: str) -> Prompt:
    return msgspec.structs.replace(prompt, text=f"{recap}\n\n{prompt.text}") if recap else prompt


def retired_notice(recap: str) -> str:
    """The notice to people that a session is given up."""
    return GIVEN_UP.format(how=WITH_RECAP if recap else "")


def _turn(turn: Turn) -> str:
    asked = _OLD_RECAP.sub("", turn.prompt.text)
    return (
        f"<asked>{_short(asked, ASKED_CHARS)}</asked>\n"
        f"<answered>{_short(turn.answer, ANSWERED_CHARS)}</answered>"
    )


def _short(text: str, limit: int) -> str:
    text = text.strip()
    return escape(text if len(text) <= limit else text[: limit - 1] + "…", quote=False)
