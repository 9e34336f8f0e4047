"""Text that people typed is read letter by letter, also addresses behind words."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.channels.telegram.judge_tdlib import type_in, units

from pilothouse.channels.telegram.wire import Entity
from pilothouse.channels.telegram.written import as_typed

words = st.text(st.sampled_from("ab é漢😀👩‍👩‍👧🇩🇪\n"), min_size=1, max_size=6).filter(
    lambda text: text.strip() == text
)
MARKS = ("**", "__", "~~", "||")
FORMATTED = ("bold", "italic", "strikethrough", "spoiler", "code", "pre", "blockquote", "text_link")
PASSED_OVER = ("mention", "url", "bot_command", "hashtag", "underline", "custom_emoji", "from_the_future")


def link(offset: int, length: int, url: str = "https://e.org/x") -> Entity:
    return Entity("text_link", offset, length, url)


def read(typed: str) -> str:
    """What we make of what an app, by Telegram's own code, makes of it."""
    sent = type_in(typed)
    return as_typed(sent.text, msgspec.convert(sent.entities, list[Entity]))


def marked(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Something in marks, which begins and ends with a word of its own."""
    around = st.tuples(st.sampled_from(MARKS), words, inner, words)
    return around.map(lambda one: f"{one[0]}{one[1]} {one[2]} {one[3]}{one[0]}")


code = words.filter(lambda text: "\n" not in text).map(lambda text: f"`{text}`")
typing = st.recursive(words | code, marked, max_leaves=4)


@given(st.lists(typing, max_size=5).map(" ".join))
def test_what_we_read_is_for_telegram_what_was_typed(typed: str) -> None:
    assert type_in(read(typed)) == type_in(typed)


@pytest.mark.parametrize(
    "typed",
    [
        "fix __init__ in `src/__main__.py`, **not** ~~here~~ ||there||",
        "2 ** 3 ** 4",
        "look:\n```python\nprint(1)\n```\nand ```this``` too",
        "```\n**kwargs\n```",
        "**bold __and italic__ here**",
        "see [the page](https://e.org/) and @somebody",
    ],
)
def test_what_was_typed_is_read_as_it_was_typed(typed: str) -> None:
    assert read(typed) == typed


@given(st.lists(st.tuples(words, st.booleans()), max_size=8))
def test_each_address_stands_behind_its_own_words(segments: list[tuple[str, bool]]) -> None:
    text, wanted = "", ""
    entities: list[Entity] = []
    for number, (segment, linked) in enumerate(segments):
        url = f"https://e.org/{number}"
        if linked:
            entities.append(link(units(text), units(segment), url))
        text += segment
        wanted += f"[{segment}]({url})" if linked else segment
    assert as_typed(text, entities) == wanted
    assert as_typed(text, entities[::-1]) == wanted


def stretches(kinds: Sequence[str]) -> st.SearchStrategy[list[Entity]]:
    one = st.builds(
        Entity,
        st.sampled_from(kinds),
        st.integers(-3, 12),
        st.integers(-3, 12),
        st.sampled_from([None, "https://e.org/x", "https://e.org/y"]),
        st.sampled_from([None, "python", "`\n"]),
    )
    return st.lists(one, max_size=8)


@given(st.text(st.sampled_from("a😀 `\n>*")), stretches(FORMATTED))
@example("😀", [link(1, 1)])
@example("😀", [link(0, 1)])
def test_whatever_stands_where_it_costs_no_character(text: str, entities: list[Entity]) -> None:
    written = as_typed(text, entities)
    left = iter(written)
    assert all(character in left for character in text)
    written.encode()  # no half of a character


@given(st.text(), stretches(PASSED_OVER))
def test_what_is_not_formatted_is_left_alone(text: str, entities: list[Entity]) -> None:
    assert as_typed(text, entities) == text


@given(st.text(st.sampled_from("ab c\n")), stretches(("bold", "italic", "strikethrough", "spoiler", "code")))
def test_without_its_marks_it_is_the_text(text: str, entities: list[Entity]) -> None:
    written = as_typed(text, entities)
    assert written.translate(dict.fromkeys(map(ord, "*_~|`"))) == text


scraps = st.text(st.sampled_from("ab\n`"), max_size=8)


@given(scraps, scraps.map(lambda text: f"a{text}\nb"), scraps)
def test_a_fence_stands_on_a_line_of_its_own_and_nothing_within_ends_it(
    before: str, block: str, after: str
) -> None:
    written = as_typed(before + block + after, [Entity("pre", len(before), len(block))])
    fence = "```"
    while fence in block:
        fence += "`"
    assert f"\n{fence}\n{block}\n{fence}\n" in f"\n{written}\n"


@pytest.mark.parametrize(
    ("text", "entities", "written"),
    [
        ("read this page", [link(5, 4)], "read [this](https://e.org/x) page"),
        ("read this page", [link(4, 6)], "read [this](https://e.org/x) page"),
        ("see e", [link(4, 1, "https://e.org/a_(b)")], "see [e](<https://e.org/a_(b)>)"),
        ("https://e.org", [link(0, 13, "https://e.org/")], "https://e.org"),
        (" hi", [link(0, 1)], " <https://e.org/x>hi"),
        ("bold", [link(0, 4), Entity("bold", 0, 4)], "[**bold**](https://e.org/x)"),
        ("a`b", [Entity("code", 0, 3)], "``a`b``"),
        ("`b", [Entity("code", 0, 2)], "`` `b ``"),
        ("x=1", [Entity("pre", 0, 3, language="python")], "```python\nx=1\n```"),
        ("x=1", [Entity("pre", 0, 3, language="a b")], "```\nx=1\n```"),
        ("so x=1 is", [Entity("pre", 3, 3)], "so ```x=1``` is"),
        ("so x\ny is", [Entity("pre", 3, 3)], "so \n```\nx\ny\n```\n is"),
        ("a\n```\nb", [Entity("pre", 0, 7)], "````\na\n```\nb\n````"),
        ("said\nthis\nso", [Entity("blockquote", 0, 9)], "> said\n> this\nso"),
        ("oh: said", [Entity("expandable_blockquote", 4, 4), Entity("bold", 4, 4)], "oh: \n> **said**"),
        ("abc", [Entity("bold", 0, 2), Entity("italic", 1, 2)], "**a__b__**__c__"),
        ("b i b", [Entity("bold", 0, 2), Entity("bold", 2, 3), Entity("italic", 2, 1)], "**b __i__ b**"),
        ("kwargs", [Entity("code", 0, 6), Entity("bold", 2, 2)], "`kwargs`"),
        ("a b", [Entity("bold", 1, 1)], "a** **b"),
    ],
)
def test_it_is_written_as_people_write_it(text: str, entities: list[Any], written: str) -> None:
    assert as_typed(text, entities) == written
