"""Markdown to text and entities: one example for each thing that agents write, and for what others lose."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.channels.telegram.documents import BAD_LINKS, GOOD_LINKS
from tests.channels.telegram.judge_tdlib import judge

from pilothouse.channels.telegram import styled
from pilothouse.channels.telegram.markdown import parse_markdown
from pilothouse.channels.telegram.styled import Styled, style_blocks


def style(source: str) -> Styled:
    return style_blocks(parse_markdown(source))


def marks(source: str) -> list[tuple[str, str]]:
    styled = style(source)
    return [(one.type, styled.text[one.start : one.end]) for one in styled.styles]


@pytest.mark.parametrize(
    "text",
    [
        "__init__.py and __main__.py",
        "src/*.py, tests/*.py",
        "**/*.py and **/*.js",
        "2*3*4 and x**2 + y**2",
        "snake_case_name",
        "List<int> and Map<String, List<T>>",
        "<div class='x'>",
        "[error]: failed\n[error]: failed again",
        "[note]: see below",
        "[^1]: a footnote",
        "a || b || c",
        "$5 and $10",
        "==x==",
    ],
)
def test_what_is_no_markup_stays_as_it_is(text: str) -> None:
    assert style(text).text == text
    assert not style(text).styles


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("**a** *b* ~~c~~ `d`", [("bold", "a"), ("italic", "b"), ("strikethrough", "c"), ("code", "d")]),
        ("中文**重要**的", [("bold", "重要")]),
        ("**`x`**", [("code", "x")]),
        ("**src/** and **/etc/hosts**", [("bold", "src/"), ("bold", "/etc/hosts")]),
        ("**a *b* c**", [("bold", "a b c"), ("italic", "b")]),
        ("# A **b**", [("bold", "A b")]),
        ("[`x`](https://a.b)", [("text_link", "x")]),
        ("[a](https://a.b) [b][1]\n\n[1]: https://c.d", [("text_link", "a"), ("text_link", "b")]),
        ("> a\n> > b", [("blockquote", "a\n\n» b")]),
        ("```py\nx", [("pre", "x")]),
        ("half **bo", []),
    ],
)
def test_a_mark_becomes_a_style(source: str, expected: list[tuple[str, str]]) -> None:
    assert sorted(marks(source)) == sorted(expected)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("[app](./src/app.py#L10)", "app (./src/app.py#L10)"),
        ("[x](http://localhost:8000)", "x (http://localhost:8000)"),
        ("<http://localhost:8000>", "http://localhost:8000"),
        ("![a picture](pic.png)", "a picture (pic.png)"),
        ("![](https://a.b/c.png)", "https://a.b/c.png"),
        ("[![build](https://a.b/c.svg)](https://d.e)", "build"),
        ("<me@example.com>", "me@example.com"),
        ("a<br>b", "a\nb"),
        ("1. a\n   ```\n   b\n   ```\n2. c", "1. a\nb\n2. c"),
        ("3) a\n4) b", "3. a\n4. b"),
        ("- a\n  - b\n    - c", "• a\n  ◦ b\n    ▪ c"),
        ("- [ ] a\n- [x] b", "☐ a\n☑ b"),
        ("a\n\n---\n\nb", "a\n\n———\n\nb"),
        ("```python title=x\ny\n```", "python title=x\n\ny"),
    ],
)
def test_a_document_reads_well_without_its_markup(source: str, text: str) -> None:
    assert style(source).text == text


def test_a_narrow_table_is_set_in_columns_and_wide_letters_count_twice() -> None:
    table = "| a | b |\n|---|--:|\n| 日本 | 1 |\n| x | 22 |"
    assert style(table).text == "a      b\n────  ──\n日本   1\nx     22"


def test_a_table_too_wide_for_a_phone_is_told_row_by_row() -> None:
    table = "| Name | What it does |\n|---|---|\n| a | this and that, and at some length |\n| b | |"
    assert style(table).text == ("• Name: a\n  What it does: this and that, and at some length\n• Name: b")


def test_cells_beyond_the_head_are_kept() -> None:
    assert "c | d" in style("| a | b |\n|---|---|\n| 1 | 2 | c | d |").text


def test_a_link_in_a_table_stays_a_link() -> None:
    assert ("text_link", "x") in marks("| a |\n|---|\n| [x](https://a.b) |")


def test_a_column_without_values_keeps_its_name() -> None:
    assert "Name: –" in style("| Name | A column that is by far too wide |\n|---|---|\n| | y |").text


@pytest.mark.parametrize("url", GOOD_LINKS)
def test_a_good_link_is_taken_by_us_and_by_telegram(url: str) -> None:
    assert styled.is_valid_link(url)
    assert _telegram_takes(url)


@pytest.mark.parametrize("url", BAD_LINKS)
def test_a_bad_link_is_not_taken(url: str) -> None:
    assert not styled.is_valid_link(url)


@given(
    st.one_of(
        st.text(max_size=60),
        st.from_regex(r"(https?|tg|mailto|ftp):(//)?[\w.:@/?#%\[\]|&=~-]{0,40}", fullmatch=True),
        st.text(alphabet="htps:/.a-@[]1%\\|é", max_size=30).map(lambda tail: f"http://{tail}"),
    )
)
def test_telegram_takes_every_link_that_we_take(url: str) -> None:
    if styled.is_valid_link(url):
        assert _telegram_takes(url)


def _telegram_takes(url: str) -> bool:
    return judge("x", entities=[{"type": "text_link", "offset": 0, "length": 1, "url": url}]).accepted


@pytest.mark.parametrize(
    "source",
    [">" * 30_000 + "x", "- " * 5_000 + "x", "[" * 30_000, "*a **" * 8_000, "|" * 20_000, "`a" * 15_000,
     "[a]: b\n" * 4_000, "![[](" * 6_000, "&" * 30_000, "".join("  " * n + "- x\n" for n in range(200))],
    ids=range(10),
)  # fmt: skip
def test_hostile_nesting_ends_soon_and_is_shallow(source: str) -> None:
    assert style(source).text
