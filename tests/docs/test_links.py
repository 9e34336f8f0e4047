"""Every link of README.md and docs/ leads to a file, and to a heading of it, that exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.dists import ROOT

PAGES = [ROOT / "README.md", ROOT / "AGENTS.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)|\bsrc=\"([^\"]+)\"")
FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text())


def links(page: Path) -> list[str]:
    """Targets of links and pictures inside the checkout. Code spans are examples, not links."""
    found = LINK.findall(re.sub(r"`[^`\n]*`", lambda code: "`" * len(code[0]), prose(page)))
    targets = [link or source for link, source in found]
    return [target for target in targets if not re.match(r"[a-z]+:", target)]


def anchors(page: Path) -> set[str]:
    """Names of the headings, made as GitHub makes them."""
    titles = (heading.strip().lower() for heading in HEADING.findall(prose(page)))
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


def broken(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    return not target.exists() or bool(anchor and anchor not in anchors(target))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_resolves(page: Path) -> None:
    assert [link for link in links(page) if broken(page, link)] == []


def test_every_page_is_linked_from_another() -> None:
    linked = {(page.parent / link.partition("#")[0]).resolve() for page in PAGES for link in links(page)}
    assert [page for page in PAGES if page not in linked and page.parent != ROOT] == []


@pytest.mark.parametrize("link", ["docs/none.md", "#no-such-heading", "docs/configuration.md#none"])
def test_a_link_to_nothing_is_found(link: str) -> None:
    assert broken(ROOT / "README.md", link)
