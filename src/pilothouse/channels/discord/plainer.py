"""The same in another form, for where Discord does not take the first one: pure.

Where no file may be sent, what was in one stands in messages: of an answer as many as people read, of what is to be
approved all. Where the words are refused, a file has them; where that is refused, too, it is said without any of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from pilothouse.channels.discord.limits import FILES_ROOM, PARTS, TARGET
from pilothouse.channels.discord.look import Look
from pilothouse.channels.discord.markdown import cut, fenced, to_discord
from pilothouse.channels.discord.payload import Document, Message, Progress, below, listed
from pilothouse.core.message import Attachment

ASK_PARTS = 40
"""Of what is asked; it takes Discord as many seconds to let them through."""
MARKDOWN = ".md"
WORDS_NAME = f"message{MARKDOWN}"
AS_FILE = f"This is in {WORDS_NAME}: {{why}}."
WORDLESS = "A message of mine cannot stand here, nor as a file: {why}. Pilothouse's log says which it is."
WORKING = "Working. What it does cannot be shown here: {why}."


def without_files(
    payload: Message, documents: Sequence[Document], unsent: Sequence[tuple[str, Attachment]], why: str
) -> list[Message]:
    """The words of `documents` as messages, with a line that names what is `unsent` and says why. What has buttons stands
    below all that it is about."""
    pieces = [piece for document in documents for piece in _pieces(document)]
    shown = pieces[: ASK_PARTS if payload.rows else PARTS]
    bare = replace(payload, documents=(), names=())
    line = _line(documents, len(pieces) - len(shown), unsent, why, asked=bool(payload.rows))
    around = [bare.text, *shown] if not payload.rows else [*shown, bare.text]
    texts = [*around[:-1], below(around[-1], line)]
    messages = [Message(text=text, silent=True) for text in texts]
    messages[-1] = replace(bare, text=texts[-1], silent=True, reply_to="")
    messages[0] = replace(messages[0], silent=payload.silent, reply_to=payload.reply_to)
    return messages


def as_file(payload: Message, why: str) -> Message:
    return replace(
        payload,
        text=AS_FILE.format(why=why),
        documents=(Document(WORDS_NAME, payload.text), *payload.documents),
    )


def wordless(payload: Message, why: str) -> Message:
    return Message(text=WORDLESS.format(why=why), silent=payload.silent, reply_to=payload.reply_to)


def wordless_progress(payload: Progress, why: str) -> Progress:
    """What stops it stays."""
    return replace(payload, text=WORKING.format(why=why))


def _pieces(document: Document) -> list[str]:
    """Only what is Markdown is read as Markdown."""
    is_prose = document.name.endswith(MARKDOWN)
    text = to_discord(document.text, Look().table_width) if is_prose else fenced(document.text)
    return cut(text, TARGET - FILES_ROOM)


def _line(
    documents: Sequence[Document],
    left_out: int,
    unsent: Sequence[tuple[str, Attachment]],
    why: str,
    *,
    asked: bool,
) -> str:
    told = []
    if documents:
        names = ", ".join(document.name for document in documents)
        stands = "stands" if len(documents) == 1 else "stand"
        told.append(f"{names} {stands} {'above' if asked else 'here'} as messages")
    if left_out:
        told.append(f"**but for its last {left_out}, which would be too many**")
    if unsent:
        told.append(f"not sent: {listed(unsent)}")
    return f"({'; '.join(told)}. {why})"
