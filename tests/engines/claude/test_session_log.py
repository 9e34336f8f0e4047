"""The log of a session is read as it grows, whatever happens to it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.engines.claude import session_log
from pilothouse.engines.claude.session_log import (
    LogTail,
    config_folder,
    find_log,
    folder_name,
    projects_folder,
)

ID = "01941f2a-3b4c-7d8e-9f0a-1b2c3d4e5f6a"


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("a.b", "a-b"),
        ("a_b", "a-b"),
        ("my app's", "my-app-s"),
        ("Ünï", "-n-"),
        ("x🙂y", "x--y"),
        ("日本", "--"),
    ],
)
def test_a_folder_is_named_by_its_letters_and_digits(tmp_path: Path, name: str, escaped: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    assert folder_name(str(folder)).endswith(f"-{escaped}")


def test_a_link_is_named_by_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert folder_name(str(tmp_path / "link")) == folder_name(str(tmp_path / "real"))


def test_the_log_is_found_by_its_folder_first_and_anywhere_else(tmp_path: Path) -> None:
    projects, cwd = tmp_path / "projects", tmp_path / "work"
    assert find_log(projects, ID, str(cwd)) is None
    elsewhere = projects / "-somewhere"
    elsewhere.mkdir(parents=True)
    (elsewhere / f"{ID}.jsonl").write_text("")
    assert find_log(projects, ID, str(cwd)) == elsewhere / f"{ID}.jsonl"
    own = projects / folder_name(str(cwd))
    own.mkdir()
    (own / f"{ID}.jsonl").write_text("")
    os.utime(own / f"{ID}.jsonl", (1, 1))
    assert find_log(projects, ID, str(cwd)) == own / f"{ID}.jsonl"


def test_a_long_folder_is_found_although_its_name_ends_in_a_hash(tmp_path: Path) -> None:
    cwd = tmp_path / ("deep" * 60)
    folder = tmp_path / "projects" / (folder_name(str(cwd))[:200] + "-1x2y3z")
    folder.mkdir(parents=True)
    (folder / f"{ID}.jsonl").write_text("")
    assert find_log(tmp_path / "projects", ID, str(cwd)) == folder / f"{ID}.jsonl"


def test_the_configuration_folder_can_be_moved() -> None:
    assert projects_folder({"HOME": "/home/ann"}) == Path("/home/ann/.claude/projects")
    assert config_folder({"HOME": "/home/ann", "CLAUDE_CONFIG_DIR": "/c"}) == Path("/c")


def tail_of(path: Path, *, new_only: bool = False) -> LogTail:
    find = lambda: path if path.exists() else None  # noqa: E731
    return LogTail(find, (lambda size: size) if new_only else (lambda size: 0))


def test_a_log_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "log"
    tail = tail_of(path, new_only=True)
    assert (tail.read(), tail.found) == ([], False)
    path.write_bytes(b"one\ntw")
    assert (tail.read(), tail.found) == ([b"one"], True)
    with path.open("ab") as file:
        file.write(b"o\n")
    assert tail.read() == [b"two"]
    assert tail.read() == []


def test_what_was_there_before_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"old\n")
    tail = tail_of(path, new_only=True)
    assert tail.read() == []
    with path.open("ab") as file:
        file.write(b"new\n")
    assert tail.read() == [b"new"]


def test_a_log_that_was_cut_or_replaced_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a long first line\nand a ha")
    tail = tail_of(path)
    assert tail.read() == [b"a long first line"]
    path.write_bytes(b"cut\n")
    assert tail.read() == [b"cut"]
    (tmp_path / "next").write_bytes(b"replaced by a longer one\n")
    (tmp_path / "next").rename(path)
    assert tail.read() == [b"replaced by a longer one"]
    path.unlink()
    assert tail.read() == []


def test_a_line_beyond_the_bound_is_passed_over_and_the_next_one_counts(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * (session_log.MAX_LINE + 1) + b"\nshort\n")
    tail = tail_of(path)
    seen: list[bytes] = []
    for _ in range(10):
        seen += tail.read()
    assert seen == [b"short"]


def test_a_folder_in_its_place_is_nothing(tmp_path: Path) -> None:
    assert tail_of(tmp_path).read() == []


@given(st.lists(st.binary(max_size=20), max_size=20))
def test_however_it_grows_the_lines_are_the_same(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes]
) -> None:
    path = tmp_path_factory.mktemp("log") / "log"
    tail = tail_of(path)
    seen: list[bytes] = []
    for piece in pieces:
        with path.open("ab") as file:
            file.write(piece)
        seen += tail.read()
    assert seen == [line.removesuffix(b"\r") for line in b"".join(pieces).split(b"\n")[:-1]]
