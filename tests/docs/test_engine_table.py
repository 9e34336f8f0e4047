"""The table of engines and abilities says what the adapters' own classes implement."""

from __future__ import annotations

from tests.docs.engine_table import PAGE, built_in, page

from pilothouse.bootstrap.abilities import ABILITIES, abilities_of


def test_the_table_is_made_from_the_adapters() -> None:
    assert PAGE.read_text() == page(built_in()), (
        "tools/golden writes it anew; read the diff before you commit it"
    )


def test_every_built_in_engine_names_its_classes_and_only_known_abilities() -> None:
    for spec in built_in():
        assert list(abilities_of(spec)) == list(ABILITIES), f"{spec.id} has no `classes`"
        assert set(spec.varies) <= set(ABILITIES)


def test_every_built_in_engine_has_a_page_that_the_overview_links_to() -> None:
    overview = PAGE.read_text()
    for spec in built_in():
        assert f"]({spec.id}.md)" in overview
        assert (PAGE.parent / f"{spec.id}.md").exists()
