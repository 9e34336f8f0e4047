"""Golden files of turns, asks and answers as people see them."""

from __future__ import annotations

import pytest
from tests.channels.discord.golden import FOLDER, all_parts, scenes
from tests.channels.discord.judging import check

from pilothouse.channels.discord.payload import unpack

SCENES = dict(scenes())


@pytest.mark.parametrize("name", SCENES)
def test_a_scene_looks_as_it_did(name: str) -> None:
    assert SCENES[name] == (FOLDER / f"{name}.txt").read_text()


def test_every_golden_file_is_of_a_scene() -> None:
    assert {file.stem for file in FOLDER.glob("*.txt")} == set(SCENES)


def test_discord_takes_every_scene() -> None:
    for _, parts in all_parts():
        for part in parts:
            check(unpack(part))
