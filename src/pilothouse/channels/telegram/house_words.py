"""The house's own words as blocks: in them only code is markup. Pure."""

from __future__ import annotations

from pilothouse.channels.literal import literals, phrases
from pilothouse.channels.telegram.blocks import Block, Code, Paragraph, words


def house_blocks(text: str) -> tuple[Block, ...]:
    return tuple(
        _paragraph(found.text) if found.language is None else Code(found.text, found.language)
        for found in literals(text)
    )


def _paragraph(text: str) -> Paragraph:
    spans = (words(one.text, "code") if one.is_code else words(one.text) for one in phrases(text))
    return Paragraph(tuple(span for found in spans for span in found))
