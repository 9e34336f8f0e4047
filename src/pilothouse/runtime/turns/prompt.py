"""Prompts: from messages to the text that the engine reads.

One message from one person in a private chat is passed as typed. Everything else is framed: each message with its
sender, time and a small number, each kind under its own tag, in order, and escaped so that no message can forge a
frame. Routing fields never get in.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape, unescape

from pilothouse.core.message import BY_PEOPLE, Attachment, Chain, InboundMessage
from pilothouse.core.text import with_ui_context, without_ui_context
from pilothouse.core.turn import Cause, Prompt

_RECAP = re.compile(r"\A<recap>\n.*?\n</recap>\n\n", re.DOTALL)
_FRAMED = re.compile(
    r"(?:<messages>\n)?<(message|task|webhook|system|agent|reaction)((?: [^>\n]*)?)>\n(.*?)\n</\1>\n?", re.S
)
_TASK_HEAD = re.compile(r"\A\[SCHEDULED TASK\]\n(?:.*\n)*?Instructions:\n")
_AGENT_HEAD = re.compile(r"\A\[AGENT MESSAGE\]\n.*\n\n")
_FROM = re.compile(r' from="([^"]*)"')
_QUOTED = re.compile(r"^<quoted>.*?</quoted>\n", re.S)
AGENT_HEAD = "[AGENT MESSAGE]\nThe agent named above asks this. The answer of this turn is sent back to it."
_CAUSES: dict[str, Cause] = {
    "chat": "message",
    "task": "schedule",
    "webhook": "webhook",
    "system": "system",
    "agent": "agent",
    "reaction": "reaction",
    "wake": "wake",
}


def without_recap(text: str) -> str:
    """Return a prompt's own text, without what its session was told of earlier turns."""
    return _RECAP.sub("", text)


def frame(messages: Sequence[InboundMessage]) -> Prompt:
    attachments = tuple(a for message in messages for a in message.attachments)
    by = ", ".join(dict.fromkeys(message.author.name for message in messages))
    authors = tuple(dict.fromkeys(m.author.id for m in messages if m.kind in BY_PEOPLE))
    chain = None if authors else _longest_chain(messages)
    if len(messages) == 1 and passes_as_typed(messages[0]):
        only = messages[0]
        text = with_ui_context(only.whole_text, only.ui_context)
        return Prompt(text, attachments, by, authors, engine_line=only.engine_line)
    if len(messages) == 1 and messages[0].kind == "wake":
        return Prompt(messages[0].text, by=by, wake=messages[0].native_id)
    body = "\n".join(_element(number, message) for number, message in enumerate(messages, 1))
    text = f"<messages>\n{body}\n</messages>" if len(messages) > 1 else body
    return Prompt(text, attachments, by, authors or (chain.authors if chain else ()), chain=chain)


def _longest_chain(messages: Sequence[InboundMessage]) -> Chain | None:
    """Return the chain that is nearest to its limits; None if one of the messages comes from outside."""
    if any(message.kind not in ("system", "agent") for message in messages):
        return None
    chains = [message.chain for message in messages if message.chain is not None]
    return max(chains, key=lambda chain: (chain.depth, chain.hops), default=None)


def unframe(text: str) -> str:
    """Remove the recap, the frame and the UI context, for lists. A text without them is returned unchanged."""
    said = [words for _, words in spoken(text)]
    return said[0] if len(said) == 1 else f"{len(said)} messages: {' · '.join(said)}"


def spoken(text: str) -> list[tuple[str, str]]:
    """Split a prompt into its messages, without recap, frame and UI context: the sender, if the frame names one, and
    the words."""
    text = without_ui_context(without_recap(text))
    if not _FRAMED.match(text):
        return [("", text)]
    return [
        (
            unescape(found[1]) if (found := _FROM.search(attributes)) else "",
            unescape(_without_head(_QUOTED.sub("", body)).strip()),
        )
        for _, attributes, body in _FRAMED.findall(text)
    ]


def _without_head(body: str) -> str:
    return _AGENT_HEAD.sub("", _TASK_HEAD.sub("", body))


def cause_of(messages: Sequence[InboundMessage]) -> Cause:
    """The cause of a turn: a person's message before anything else, a note only if there is nothing else."""
    kinds = [message.kind for message in messages]
    others = [kind for kind in kinds if kind != "system"]
    return _CAUSES["chat" if "chat" in kinds else (others or kinds)[0]]


def passes_as_typed(message: InboundMessage) -> bool:
    plain = message.private and message.quoted is None
    return message.kind == "chat" and (plain or message.engine_line)


def _element(number: int, message: InboundMessage) -> str:
    name = "message" if message.kind == "chat" else message.kind
    attributes = {
        "id": str(number),
        "from": "" if message.kind in ("task", "system") else message.author.name,
        "source": message.source,
        "time": _clock_time(message.sent_at),
    }
    shown = "".join(f' {key}="{_attribute(value)}"' for key, value in attributes.items() if value)
    quoted = "" if message.quoted is None else f"<quoted>{escape(message.quoted, quote=False)}</quoted>\n"
    files = "".join(f"\n{_file(attachment)}" for attachment in message.attachments)
    words = _words(message)
    return f"<{name}{shown}>\n{quoted}{escape(words, quote=False)}{files}\n</{name}>"


def _words(message: InboundMessage) -> str:
    if message.kind == "task":
        return _task_text(message)
    if message.kind == "agent" and message.chain is not None and not message.chain.is_follow_up:
        return f"{AGENT_HEAD}\n\n{message.whole_text}"
    return message.whole_text


def _task_text(message: InboundMessage) -> str:
    """Frame a schedule's task. The output of its script is one line of JSON, so it cannot forge a heading."""
    output = f"Script output:\n{message.file_text}\n\n" if message.file_text else ""
    return f"[SCHEDULED TASK]\n\n{output}Instructions:\n{message.text}"


def _file(attachment: Attachment) -> str:
    return f'<file name="{_attribute(attachment.name)}" type="{_attribute(attachment.media_type)}"/>'


def _attribute(value: str) -> str:
    """Escape a value that somebody else chose. It stays on one line, so a tag of the frame is always one line."""
    return escape(" ".join(value.split()))


def _clock_time(at: float) -> str:
    if not at:
        return ""
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (OverflowError, ValueError, OSError):  # beyond the calendar: a channel sent milliseconds, say
        return ""
