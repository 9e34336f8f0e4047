"""Cutting styled text: within the limits, nothing lost, styles go on across the cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.channels.telegram.judging import check_text

from pilothouse.channels.telegram.markdown import parse_markdown
from pilothouse.channels.telegram.payload import ENTITIES
from pilothouse.channels.telegram.styled import Style, Styled, cut, head, style_blocks
from pilothouse.channels.text import utf16_units

CHARS = st.text(alphabet="ab \n\t😀é́👩🏽‍🚀🇩🇪中\r", max_size=400)


@st.composite
def styled_texts(draw: st.DrawFn) -> Styled:
    text = draw(CHARS)
    places = st.integers(0, len(text))
    pairs = draw(st.lists(st.tuples(places, places), max_size=12))
    kinds = st.sampled_from(["bold", "italic", "code", "blockquote", "strikethrough"])
    styles = tuple(Style(draw(kinds), min(a, b), max(a, b)) for a, b in pairs)
    return Styled(text, styles, tuple(sorted(draw(st.sets(places)))), tuple(sorted(draw(st.sets(places)))))


@given(styled_texts(), st.integers(16, 120))
def test_every_message_is_within_the_limit_and_nothing_but_space_is_lost(styled: Styled, limit: int) -> None:
    parts = cut(styled, limit)
    for part in parts:
        check_text(part.text, part.entities, limit)
    assert _solid("".join(part.text for part in parts)) == _solid(styled.text)


@given(styled_texts(), st.integers(16, 120))
def test_the_beginning_fits_and_says_if_there_is_more(styled: Styled, limit: int) -> None:
    beginning, parts = head(styled, limit), cut(styled, limit)
    assert utf16_units(beginning.text) <= limit
    assert beginning.text.endswith(" …") == (len(parts) > 1)


def _solid(text: str) -> str:
    """Joiners alone show nothing: a message of nothing else is not sent."""
    return "".join(char for char in text if not char.isspace() and char != "\u200d")


def shown(source: str, limit: int) -> list[str]:
    return [part.text for part in cut(style_blocks(parse_markdown(source)), limit)]


def test_a_cut_falls_between_blocks_and_a_heading_stays_with_what_follows() -> None:
    source = "First of all, some words.\n\n# Heading\n\nAnd what stands below it."
    assert shown(source, 45) == ["First of all, some words.", "Heading\nAnd what stands below it."]


def test_a_cut_falls_between_items() -> None:
    assert shown("- one two three\n- four five six\n- seven", 36) == [
        "• one two three\n• four five six",
        "• seven",
    ]


def test_code_goes_on_in_the_next_message_with_its_language() -> None:
    source = "```python\n" + "\n".join(f"    line{n}" for n in range(20)) + "\n```"
    parts = cut(style_blocks(parse_markdown(source)), 100)
    assert len(parts) > 1
    for part in parts:
        (entity,) = part.entities
        assert (entity.type, entity.language, entity.offset) == ("pre", "python", 0)
        assert part.text.startswith("    line")


def test_of_many_marks_the_plain_ones_go_and_every_link_stays() -> None:
    source = " ".join(f"*i{n}* [l{n}](https://example.com/{n})" for n in range(150))
    parts = cut(style_blocks(parse_markdown(source)), 4096)
    assert all(len(part.entities) <= ENTITIES for part in parts)
    urls = [entity.url for part in parts for entity in part.entities if entity.type == "text_link"]
    assert urls == [f"https://example.com/{n}" for n in range(150)]


def test_what_shows_nothing_is_no_message() -> None:
    assert cut(Styled(" \n\t\u200b\x01"), 100) == []
