"""Links of a prompt: a file on this machine is named by its path, as a person would write it."""

from __future__ import annotations

from typing import cast

import pytest

from pilothouse.channels.acp.prompt import read_prompt
from pilothouse.channels.acp.wire import Resource, ResourceBlock, ResourceLink
from pilothouse.core.engine import Blobs

NO_BLOBS = cast("Blobs", None)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("uri", "place"),
    [
        ("file:///srv/a.py", "/srv/a.py"),
        ("file:///srv/my%20file%20%C3%A4.py#L10", "/srv/my file ä.py, line 10"),
        ("file:///srv/a.py#L10:20", "/srv/a.py, lines 10 to 20"),
        ("file:///srv/a.py#L10-L20", "/srv/a.py, lines 10 to 20"),
        ("file://localhost/srv/100%25.md", "/srv/100%.md"),
        ("file:///srv/a.md#usage", "/srv/a.md#usage"),
        ("file:///srv/what%3F%23.md", "/srv/what?#.md"),
        ("https://example.com/a%20b#L1", "https://example.com/a%20b#L1"),
        ("file://[broken", "file://[broken"),
        ("/srv/a b.py", "/srv/a b.py"),
    ],
)
async def test_a_link_is_named_by_its_path_and_its_lines(uri: str, place: str) -> None:
    said = await read_prompt(NO_BLOBS, (ResourceLink(uri, "a"), ResourceBlock(Resource(uri, "text"))))
    assert said.text == f'[a]({place})\n<context ref="{place}">\ntext\n</context>'
