"""`trust` and `untrust`: what they mean is said, and where there is no folder, that."""

from __future__ import annotations

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
