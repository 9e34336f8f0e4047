"""The limits of a rich message: up to each of them it is one, past it the answer goes as plain messages, whole."""

from __future__ import annotations

from collections.abc import Sequence
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.channels.telegram.payload import (
    RICH_BLOCKS,
    RICH_CHARS,
    RICH_COLUMNS,
    RICH_DEPTH,
    File,
    Look,
    Payload,
    Rich,
)
from pilothouse.channels.telegram.render import render_text
from pilothouse.channels.telegram.rich import write_rich
from pilothouse.channels.telegram.styled import Block, Paragraph, Quote, Span, text_spans

RICH = Look(rich=True)
FLAT = ("td", "th", "br", "hr", "input")


def rendered(source: str) -> Sequence[Payload]:
    return render_text(source, RICH)


def words_of(payloads: Sequence[Payload]) -> str:
    return " ".join(payload.text for payload in payloads)


def nested(levels: int) -> tuple[Block, ...]:
    """A paragraph, and quotes around it: as many levels in all."""
    inner: tuple[Block, ...] = (Paragraph(text_spans("deep")),)
    for _ in range(levels - 1):
        inner = (Quote(inner),)
    return inner


class Depth(HTMLParser):
    """How deep an HTML text goes. Cells belong to their row."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self._level = 0
        self.most = 0
        self.feed(html)

    # pyrefly: ignore [missing-override-decorator]
    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in FLAT:
            self._level += 1
            self.most = max(self.most, self._level)

    # pyrefly: ignore [missing-override-decorator]
    def handle_endtag(self, tag: str) -> None:
        self._level -= tag not in FLAT


def table(columns: int) -> str:
    head = "|" + "".join(f" c{n} |" for n in range(columns))
    row = "|" + "".join(f" v{n} |" for n in range(columns))
    return f"{head}\n|{'---|' * columns}\n{row}\n"


def test_five_hundred_blocks_are_one_rich_message_and_one_more_is_not() -> None:
    paragraphs = "\n\n".join(f"p{n}" for n in range(RICH_BLOCKS - 1))
    (payload,) = rendered(f"# title\n\n{paragraphs}")
    assert isinstance(payload, Rich)
    assert payload.html.count("<p>") == RICH_BLOCKS - 1
    more = rendered(f"# title\n\n{paragraphs}\n\nlast")
    assert not any(isinstance(payload, Rich) for payload in more)
    assert "last" in words_of(more)


def test_rows_and_items_count_as_blocks() -> None:
    rows = "".join(f"| {n} |\n" for n in range(RICH_BLOCKS))
    assert not any(isinstance(payload, Rich) for payload in rendered(f"| n |\n|---|\n{rows}"))
    items = "\n".join(f"- i{n}" for n in range(RICH_BLOCKS))
    assert not any(isinstance(payload, Rich) for payload in rendered(items))


def test_sixteen_levels_are_one_rich_message_and_one_more_is_not() -> None:
    found = write_rich(nested(RICH_DEPTH))
    assert found is not None and Depth(found.html).most == RICH_DEPTH
    assert write_rich(nested(RICH_DEPTH + 1)) is None


def test_marks_and_links_count_as_levels() -> None:
    marked = (Paragraph((Span("deep", frozenset({"bold", "italic"}), "https://example.com"),)),)
    for _ in range(RICH_DEPTH - 4):
        marked = (Quote(marked),)
    found = write_rich(marked)
    assert found is not None and Depth(found.html).most == RICH_DEPTH
    assert write_rich((Quote(marked),)) is None


@pytest.mark.parametrize("columns", [1, RICH_COLUMNS, RICH_COLUMNS + 1, 40])
def test_a_table_of_more_than_twenty_columns_is_told_row_by_row(columns: int) -> None:
    (payload,) = rendered(f"# t\n\n{table(columns)}")
    assert isinstance(payload, Rich)
    assert ("<table" in payload.html) is (columns <= RICH_COLUMNS)
    assert all(f"v{n}" in payload.html for n in range(columns))


def test_a_text_past_the_limit_is_no_rich_message() -> None:
    line = "word " * (RICH_CHARS // 5 - 10)
    (payload,) = rendered(f"# t\n\n{line}")
    assert isinstance(payload, Rich)
    (payload,) = rendered(f"# t\n\n{line}{line}")
    assert isinstance(payload, File)


@given(
    st.integers(1, 30), st.integers(1, 30), st.integers(0, 700), st.sampled_from(["> ", "- ", "1. ", "> - "])
)
def test_whatever_is_nested_counted_and_wide_stays_within_every_limit(
    levels: int, columns: int, blocks: int, mark: str
) -> None:
    paragraphs = "\n\n".join(f"p{n}" for n in range(blocks))
    deep = mark * levels + "[***~~deep~~***](https://example.com)"
    for payload in rendered(f"# t\n\n{deep}\n\n{table(columns)}\n{paragraphs}"):
        if isinstance(payload, Rich):
            assert Depth(payload.html).most <= RICH_DEPTH
            assert payload.html.count("<p>") + payload.html.count("<tr>") <= RICH_BLOCKS
            assert max(row.count("<td") for row in payload.html.split("<tr>")) <= RICH_COLUMNS
