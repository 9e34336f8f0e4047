"""Renders a message, its attachments, or an ask as parts. Pure.

An answer is a rich message where the server supports it and that shows it better, else text with entities, else, if
that would be too many messages, a file. Only the first message of an answer makes a sound.

The text of an approval is shown literally: only the fences around it are markup, and characters that could hide or
reorder text are made visible. Questions and plans are an engine's prose, and read as Markdown. In Pilothouse's own
texts only code is markup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from pilothouse.channels.parts import pack
from pilothouse.channels.presses import choices
from pilothouse.channels.progress import done_lines
from pilothouse.channels.telegram.markdown import parse_markdown
from pilothouse.channels.telegram.payload import (
    AGAIN_ROOM,
    CAPTION,
    PHOTO_BYTES,
    RICH_CHARS,
    TEXT,
    UPLOAD_BYTES,
    File,
    Look,
    Message,
    Payload,
    Rich,
    Upload,
    UploadKind,
    command_keyboard,
    is_numbered,
    keyboard,
)
from pilothouse.channels.telegram.rich import is_better_rich, write_rich
from pilothouse.channels.telegram.styled import (
    Block,
    Code,
    Formatted,
    Item,
    Items,
    Paragraph,
    Quote,
    Span,
    Styled,
    cut,
    head,
    style_blocks,
    text_spans,
)
from pilothouse.channels.text import is_visible, literals, phrases, utf16_units
from pilothouse.core.ask import Ask
from pilothouse.core.ask_view import headline
from pilothouse.core.message import Attachment, Content, DoneStep, Part, clean_text
from pilothouse.core.outcome import Usage
from pilothouse.core.text import format_cost, reveal_hidden

TAIL_ROOM = 500
"""Units reserved below a question for how to answer it."""
BODY_UNITS = TEXT - AGAIN_ROOM - TAIL_ROOM
SHORT_UNITS = 1500
ALSO_WORDS = "Or answer in your own words."
ONLY_WORDS = "Answer in your own words."
IN_REPLY = "Say it in a reply to this message."
"""For groups: with privacy mode, a bot sees only replies, commands and mentions."""
NOTHING = "(no text)"
FILE_NAME = "answer.md"
WHOLE = "The whole answer is in the file."
PREVIEW_CHARS = 4000
STEPS = 20
"""Lines in the folded list of steps below an answer."""
RICH_STEPS = 5
"""A rich message cannot fold its list."""
_ROOM = TEXT - AGAIN_ROOM
_PHOTOS = frozenset({"image/jpeg", "image/png", "image/webp"})
Reader = Callable[[str], Sequence[Block]]


def render(content: Content, look: Look) -> tuple[Part, ...]:
    about: dict[str, Any] = {"kind": content.kind, "turn_id": content.turn_id or ""}
    uploads = [(upload, (file,)) for upload, file in render_uploads(content.attachments)]
    if content.ask is not None:
        about["ask_id"] = content.ask.id
        above = [pack(replace(payload, silent=True), files, about) for payload, files in uploads]
        return (*above, *(pack(said, (), about) for said in render_ask(content.ask, look, said=content.text)))
    text = clean_text(content.text)
    if not is_visible(text) and not uploads:
        text = NOTHING
    payloads = (
        [(payload, ()) for payload in render_text(text, look, content.usage, _reader(content), content.steps)]
        if is_visible(text)
        else []
    )
    first, *rest = [*payloads, *uploads]
    quiet = _is_quiet(content)
    said = [(replace(first[0], silent=quiet, reply_to=content.reply_to or ""), first[1])]
    said += [(replace(payload, silent=True), files) for payload, files in rest]
    said[-1] = (replace(said[-1][0], reply_markup=command_keyboard(content.buttons)), said[-1][1])
    return tuple(pack(payload, files, about) for payload, files in said)


def render_text(
    text: str,
    look: Look,
    usage: Usage | None = None,
    read: Reader = parse_markdown,
    steps: Sequence[DoneStep] = (),
) -> Sequence[Payload]:
    """Render as one message, as several, or as a file."""
    if len(text) > look.parts * TEXT and len(text) > RICH_CHARS * 2:
        return [_file(text, look, usage, read)]
    cost = _cost_line(usage)
    above, below = read(text), [Paragraph(text_spans(cost, "italic"))] if cost else []
    steps = steps if look.steps else ()
    styled = style_blocks((*above, *_folded(steps, STEPS), *below))
    if look.rich and (rich := _rich((*above, *_folded(steps, RICH_STEPS), *below), styled)):
        return [rich]
    parts = cut(styled, _ROOM)
    if len(parts) > look.parts:
        return [_file(text, look, usage, read)]
    return [Message(text=part.text, entities=part.entities) for part in parts] or [Message(text=NOTHING)]


def render_ask(ask: Ask, look: Look, *, said: str = "") -> Sequence[File | Message]:
    """Return the question with its buttons, after a file with the whole text if that is too long for a message.

    `said` is the full text about the ask, which includes its title.
    """
    blocks = [*_blocks(ask, said or headline(ask)), *_options(ask)]
    styled = style_blocks(blocks)
    parts = cut(styled, BODY_UNITS)
    if len(parts) == 1:
        return [_question(ask, parts[0])]
    name = f"{ask.id}.txt"
    note = Formatted(f"This is not all of it: read {name}. SHA-256 {ask.payload_hash[:12]}…")
    file = File(text=styled.text, name=name, caption="The full request.", silent=True)
    return [file, _question(ask, _joined(head(styled, SHORT_UNITS), note))]


def render_uploads(attachments: tuple[Attachment, ...]) -> Iterator[tuple[Upload | Message, Attachment]]:
    for file in attachments:
        if file.size > UPLOAD_BYTES:
            size, most = file.size / 1_000_000, UPLOAD_BYTES // 1_000_000
            text = (
                f"{clean_text(file.name)} ({size:.0f} MB) is too large to send here: {most} MB is the most."
            )
            yield Message(text=text), file
        else:
            yield Upload(text="", kind=upload_kind(file)), file


def upload_kind(file: Attachment) -> UploadKind:
    """Return `photo` for a picture, which Telegram may shrink, else `document`."""
    media_type = file.media_type.partition(";")[0].strip().lower()
    return "photo" if media_type in _PHOTOS and file.size <= PHOTO_BYTES else "document"


def app_blocks(text: str) -> tuple[Block, ...]:
    """Read a text of Pilothouse's own, in which only code is markup."""
    return tuple(
        _paragraph(found.text) if found.language is None else Code(found.text, found.language)
        for found in literals(text)
    )


def _paragraph(text: str) -> Paragraph:
    spans = (text_spans(one.text, "code") if one.is_code else text_spans(one.text) for one in phrases(text))
    return Paragraph(tuple(span for found in spans for span in found))


def _reader(content: Content) -> Reader:
    return parse_markdown if content.is_markdown else app_blocks


def _is_quiet(content: Content) -> bool:
    """Receipts make no sound; notices about a turn do."""
    return content.kind == "reply" or (content.kind == "notice" and content.turn_id is None)


def _rich(blocks: Sequence[Block], styled: Styled) -> Rich | None:
    if not is_better_rich(blocks) and len(styled.text) <= _ROOM // 2:
        return None
    found = write_rich(blocks)
    if found is None or not is_visible(styled.text):
        return None
    return Rich(text=styled.text, html=found.html, is_rtl=found.is_rtl)


def _file(text: str, look: Look, usage: Usage | None, read: Reader) -> File:
    """Make a file whose caption is the beginning of the text."""
    below = "\n\n".join(filter(None, (WHOLE, _cost_line(usage))))
    room = CAPTION - AGAIN_ROOM - len(below) - 2
    beginning = head(style_blocks(read(text[:PREVIEW_CHARS])), room)
    caption = f"{beginning.text}\n\n{below}" if beginning.text else below
    return File(text=text, name=FILE_NAME, caption=caption, caption_entities=beginning.entities)


def _folded(steps: Sequence[DoneStep], most: int) -> tuple[Block, ...]:
    """List the steps in a quote that shows all of them when it is tapped."""
    lines, more = done_lines(steps, most)
    spans: list[Span] = []
    for step in lines:
        label = text_spans(step.label, "code") if step.is_code else text_spans(step.label)
        spans += [*text_spans(f"{chr(10) if spans else ''}{step.mark} "), *label]
    if more:
        spans += text_spans(f"\n… and {more} more")
    return (Quote((Paragraph(tuple(spans)),), folded=True),) if spans else ()


def _cost_line(usage: Usage | None) -> str:
    if usage is None:
        return ""
    told = (
        format_cost(usage),
        f"{_short(usage.input_tokens)} in" if usage.input_tokens else "",
        f"{_short(usage.output_tokens)} out" if usage.output_tokens else "",
    )
    return " · ".join(filter(None, told))


def _short(tokens: int) -> str:
    return str(tokens) if tokens < 1000 else f"{tokens / 1000:.1f}k"


def _question(ask: Ask, body: Formatted) -> Message:
    words_too = ALSO_WORDS if ask.free_text else ""
    how = words_too if choices(ask) else ONLY_WORDS
    found = _joined(body, Formatted(how))
    in_group = IN_REPLY if how else ""
    return Message(text=found.text, entities=found.entities, reply_markup=keyboard(ask), in_group=in_group)


def _joined(body: Formatted, below: Formatted) -> Formatted:
    if not below.text or not body.text:
        return body if body.text else below
    start = utf16_units(body.text) + 2
    moved = (replace(entity, offset=entity.offset + start) for entity in below.entities)
    return Formatted(f"{body.text}\n\n{below.text}", (*body.entities, *moved))


def _blocks(ask: Ask, said: str) -> Iterator[Block]:
    said, head = reveal_hidden(said), reveal_hidden(headline(ask)).strip()
    if not head or head not in said:  # a message of an older version
        yield from app_blocks(said)
        return
    before, _, after = said.partition(head)
    if before.strip():
        yield Paragraph(text_spans(before.strip(), "italic"))
    if ask.kind == "approval":
        yield from _heading(head)
    else:
        yield from parse_markdown(head)
    yield from app_blocks(after)


def _heading(text: str) -> Iterator[Block]:
    """The first line is bold where it is not code."""
    first, *others = literals(text)
    line, _, rest = first.text.partition("\n")
    spans = [
        span for one in phrases(line) for span in text_spans(one.text, "code" if one.is_code else "bold")
    ]
    yield Paragraph((*spans, *text_spans(f"\n{rest}" if rest else "")))
    for found in others:
        yield _paragraph(found.text) if found.language is None else Code(found.text, found.language)


def _options(ask: Ask) -> Iterator[Block]:
    if ask.options and is_numbered(ask):
        yield Items(tuple(Item((Paragraph(text_spans(reveal_hidden(o.label))),)) for o in ask.options), 1)
