"""A file of somebody else's: of it we read the names that we were told, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.config import InvalidConfig, read_env_names

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"))


@given(junk=st.lists(TEXTS.filter(lambda line: "WANTED" not in line)), value=st.from_regex(r"\A[\w.-]+\Z"))
def test_a_wanted_name_is_found_among_whatever_stands_there(
    tmp_path_factory: pytest.TempPathFactory, junk: list[str], value: str
) -> None:
    file = tmp_path_factory.mktemp("folder") / ".env"
    file.write_text("\n".join([*junk, f"WANTED={value}", *junk]), encoding="utf-8")
    assert read_env_names(file, ("WANTED", "OTHER")) == {"WANTED": value}


def test_quotes_export_and_comments_are_understood(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text("export A='1 #'\nB=2 # two\n#C=3\nXD=4\n")
    assert read_env_names(file, ("A", "B", "C", "D")) == {"A": "1 #", "B": "2"}
    assert read_env_names(tmp_path / "none", ("A",)) == {}


def test_what_is_no_text_is_told_without_its_content(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_bytes(b"A=1\nSECRET=\xff\n")
    with pytest.raises(InvalidConfig, match=r"\.env:2.*not UTF-8") as caught:
        read_env_names(file, ("A",))
    assert "SECRET" not in str(caught.value)
