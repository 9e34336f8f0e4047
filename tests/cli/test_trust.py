"""`trust` and `untrust`: what they mean is said, and where there is no folder, that."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import House


def test_a_folder_is_trusted_and_not_any_more(house: House) -> None:
    folder = house.home / "shop"
    folder.mkdir()
    done = house.run("trust", str(folder))
    assert done.returncode == 0, done.stderr
    assert str(folder) in done.stdout
    assert "hooks" in done.stdout
    assert "No longer trusted" in house.run("untrust", str(folder)).stdout
    assert "was not trusted" in house.run("untrust", str(folder)).stdout


def test_what_is_no_folder_cannot_be_trusted(house: House) -> None:
    done = house.run("trust", str(house.home / "nowhere"))
    assert done.returncode != 0
    assert "nowhere" in done.stderr


ANSWERED = ("init", "--owner", "telegraph:1", "--engine", "auto", "--force", "--workspace")


def make_shop(house: House) -> Path:
    shop = house.home / "shop"
    (shop / ".puppet" / "hooks").mkdir(parents=True)
    return shop


@pytest.mark.parametrize(("said", "kept"), [("y", "Trusted."), ("n", "Not trusted."), ("", "Not trusted.")])
def test_a_folder_that_brings_something_along_is_asked_about_once(house: House, said: str, kept: str) -> None:
    shop = make_shop(house)
    code, screen = house.on_a_terminal(*ANSWERED, str(shop), said=f"{said}\n")
    assert code == 0
    assert f"{shop} has settings that engines would use:" in " ".join(screen.split())
    assert ".puppet/hooks  hooks, which run programs" in screen
    assert "STRINGS.md" not in screen, "only what is there"
    assert "can run programs as you" in screen
    assert kept in screen
    _, screen = house.on_a_terminal(*ANSWERED, str(shop))
    assert "Trust this folder?" not in screen
    was = house.run("untrust", str(shop)).stdout
    assert ("No longer trusted" in was) == (said == "y")


def test_nobody_is_asked_in_a_pipe_nor_about_a_folder_that_brings_nothing(house: House) -> None:
    shop = make_shop(house)
    done = house.run(*ANSWERED, str(shop), said="y\n")
    assert "Trust" not in done.stdout + done.stderr
    _, screen = house.on_a_terminal(*ANSWERED, str(house.packages))
    assert "Trust" not in screen
    assert "was not trusted" in house.run("untrust", str(shop)).stdout


def test_a_flag_answers_before_anybody_asks(house: House) -> None:
    shop = make_shop(house)
    _, screen = house.on_a_terminal(*ANSWERED, str(shop), "--trust")
    assert "Trust this folder?" not in screen
    assert "No longer trusted" in house.run("untrust", str(shop)).stdout
    house.run(*ANSWERED, str(shop), "--no-trust")
    _, screen = house.on_a_terminal(*ANSWERED, str(shop))
    assert "Trust this folder?" not in screen


def test_a_folder_in_the_place_of_one_that_was_trusted_is_asked_about_again(house: House) -> None:
    shop = make_shop(house)
    house.run("trust", str(shop))
    shop.rename(house.home / "moved")
    make_shop(house)
    _, screen = house.on_a_terminal(*ANSWERED, str(shop), said="n\n")
    assert "Trust this folder?" in screen


def test_up_asks_about_the_folders_that_it_works_in(house: House) -> None:
    shop = make_shop(house)
    house.config.write_text(f'[gateway]\ndefault_workspace = "{shop}"\n')
    house.config.chmod(0o600)
    code, screen = house.on_a_terminal("up", said="\x04")
    assert "Trust this folder?" in screen
    assert code == 130
    assert "was not trusted" in house.run("untrust", str(shop)).stdout
