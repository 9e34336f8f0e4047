"""An address that hides behind words is written out, whatever stands around it, and no character of the text is lost."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.channels.telegram.judge_tdlib import units

from pilothouse.channels.telegram.hidden_links import with_links
from pilothouse.channels.telegram.wire import Entity

words = st.text(st.sampled_from("ab é漢😀👩‍👩‍👧🇩🇪\n"), min_size=1, max_size=6).filter(
    lambda text: text.strip() == text
)


def link(offset: int, length: int, url: str = "https://e.org/x") -> Entity:
    return Entity("text_link", offset, length, url)


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
    assert with_links(text, entities) == wanted
    assert with_links(text, entities[::-1]) == wanted


@given(
    st.text(st.sampled_from("a😀 ")),
    st.lists(st.builds(link, st.integers(-3, 9), st.integers(-3, 9)), max_size=4),
)
@example("😀", [link(1, 1)])
@example("😀", [link(0, 1)])
def test_an_entity_that_does_not_fit_costs_no_character(text: str, entities: list[Entity]) -> None:
    written = with_links(text, entities)
    left = iter(written)
    assert all(character in left for character in text)
    written.encode()  # no half of a character


@pytest.mark.parametrize(
    ("text", "entity", "written"),
    [
        ("read this page", link(5, 4), "read [this](https://e.org/x) page"),
        ("read this page", link(4, 6), "read [this](https://e.org/x) page"),
        ("see e", link(4, 1, "https://e.org/a_(b)"), "see [e](<https://e.org/a_(b)>)"),
        ("https://e.org", link(0, 13, "https://e.org/"), "https://e.org"),
        (" hi", link(0, 1), " <https://e.org/x>hi"),
        ("bold", Entity("bold", 0, 4), "bold"),
    ],
)
def test_it_is_written_as_people_write_links(text: str, entity: Entity, written: str) -> None:
    assert with_links(text, [entity]) == written
