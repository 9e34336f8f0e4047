"""`discord`, before Discord is asked anything: what is missing is told whole, with the files that may hold it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import House
from tests.dists import write_dist


@pytest.fixture
def folder(house: House) -> str:
    """Where it is started; the house's own files are elsewhere."""
    write_dist(house.packages, "bots", {"channels": {"discord": "pilothouse.channels.discord:CHANNEL"}})
    return str(house.home / "house")


def test_a_missing_token_is_told_with_both_files_that_may_hold_it(house: House, folder: str) -> None:
    done = house.run("discord", "--channel", "1234567890123", PILOTHOUSE_HOME=folder)
    assert done.returncode == 1
    assert f"DISCORD_TOKEN=… into {folder}/.env, or into {house.home}/.env for this folder" in done.stderr


def test_where_token_and_channel_are_missing_both_are_told(house: House, folder: str) -> None:
    told = house.run("discord", PILOTHOUSE_HOME=folder).stderr
    assert "No channel is named" in told
    assert "No bot token is set" in told
    told = house.run("discord", PILOTHOUSE_HOME=folder, DISCORD_TOKEN="a.b.c").stderr
    assert "No channel is named" in told
    assert "No bot token is set" not in told


def test_the_token_of_the_house_counts(house: House, folder: str) -> None:
    Path(folder).mkdir()
    (Path(folder) / ".env").write_text("DISCORD_TOKEN=a.b.c\n")
    told = house.run("discord", PILOTHOUSE_HOME=folder).stderr
    assert "No channel is named" in told
    assert "No bot token is set" not in told
