"""Words on a terminal break between words; elsewhere a sentence is one line."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tests.cli.conftest import House

from pilothouse.bootstrap.terminal_text import fit, program

WORDS = st.lists(st.text("abc-/…·", min_size=1, max_size=30), max_size=20).map(" ".join)


@given(st.lists(WORDS, max_size=4).map("\n".join), st.integers(1, 60))
def test_no_word_is_broken_and_none_is_lost(text: str, columns: int) -> None:
    fitted = fit(text, columns)
    assert fitted.split() == text.split()
    assert all(len(line) <= columns for line in fitted.split("\n") if " " in line)
    assert fit(text, None) == text


def test_what_is_indented_stays_indented() -> None:
    assert fit("one two three\n\n    four five", 9) == "one two\nthree\n\n    four\n    five"


def test_an_error_breaks_between_words_on_a_terminal_and_not_in_a_pipe(house: House) -> None:
    house.config.write_text('[gateway]\nbusy = "colect"\n')
    code, screen = house.on_a_terminal("config", "check", COLUMNS="60", NO_COLOR="1")
    lines = screen.splitlines()
    assert code == 1
    assert len(lines) > 1
    assert lines[0].startswith(f"error: {house.config}")
    assert all(len(line) <= 60 for line in lines if str(house.home) not in line)
    assert " ".join(lines) == house.run("config", "check", COLUMNS="60").stderr.strip()


def test_commands_are_named_as_the_person_can_type_them(house: House, tmp_path: Path) -> None:
    only_run = {"PATH": str(tmp_path), "PILOTHOUSE_RUN": "/srv/my house/run"}
    assert program({"PATH": str(tmp_path)}) == "pilothouse", "started by another name, as in tests"
    assert program(only_run) == "'/srv/my house/run'"
    assert program({**only_run, "PWD": "/srv/my house"}) == "./run"
    told = house.run("rules", PWD="/srv/my house", **only_run)
    assert "To add one: ./run rules add deny command git push" in told.stdout, told
    assert house.run("trace", PWD="/srv/my house", **only_run).stderr.startswith("Usage: ./run trace")
    (tmp_path / "pilothouse").touch(0o755)
    assert program(only_run) == "pilothouse"
