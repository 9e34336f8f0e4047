"""Golden files of turns, asks and answers as people see them."""

from __future__ import annotations

import pytest
from tests.channels.telegram.golden import FOLDER, scenes
from tests.channels.telegram.judging import check
from tests.channels.telegram.scenes import ASKS, VIEWS, all_contents, asked

from pilothouse.channels.telegram.payload import Look, unpack
from pilothouse.channels.telegram.progress import render_view
from pilothouse.channels.telegram.render import render

SCENES = dict(scenes())
LOOKS = (Look(), Look(rich=True), Look(parts=1))


@pytest.mark.parametrize("name", SCENES)
def test_a_scene_looks_as_it_did(name: str) -> None:
    assert SCENES[name] == (FOLDER / f"{name.replace(' ', '-')}.txt").read_text()


def test_every_golden_file_is_of_a_scene() -> None:
    assert {file.stem for file in FOLDER.glob("*.txt")} == {name.replace(" ", "-") for name in SCENES}


@pytest.mark.parametrize("look", LOOKS)
def test_telegram_takes_every_scene(look: Look) -> None:
    for view, now in VIEWS.values():
        check(render_view(view, now, look))
    contents = [asked(ask) for ask in ASKS.values()]
    for content in (*contents, *(content for _, content in all_contents())):
        for part in render(content, look):
            check(unpack(part))
