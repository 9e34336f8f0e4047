"""Every sentence that people read stands in one file, so that a reviewer can read them from top to bottom."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools.words import FILE, SOURCE, render, sentences


def test_the_file_has_every_sentence_of_the_source() -> None:
    assert FILE.read_text() == render(), "tools/golden writes it anew; read the diff before you commit it"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("X = 'Nothing waits here.'", ["Nothing waits here."]),
        ("f(f'No answer in {long_span(left)}.')", ["No answer in {left}."]),
        ('f(f\'{n} turn{"" if n == 1 else "s"} here\')', ["{n} turn[s] here"]),
        ("f(f'{who if who else \"nobody\"} said no')", ["({who}|nobody) said no"]),
        ("f('It failed: ' + why)", ["It failed: {why}"]),
        ("f('one line\\nand another\\n')", ["one line\n    and another"]),
        ("'A docstring of a module.'\nassert x, 'a broken promise'", []),
        ("log('turn.ended', why='it took too long')", []),
        ("@click.command('up')\ndef up():\n    'Run the gateway.'", ["Run the gateway."]),
    ],
)
def test_a_sentence_is_shown_with_the_names_of_its_values(tmp_path: Path, code: str, said: list[str]) -> None:
    (file := tmp_path / "module.py").write_text(code)
    assert list(sentences(file)) == said


def test_sentences_are_written_in_one_style() -> None:
    """In the source too: `words.txt` leaves out what is said in the place of a value."""
    texts = {str(file): file.read_text() for file in SOURCE.rglob("*.py")}
    wrong = {
        "an apostrophe is plain": r"\w’\w",
        "an id says that it is a session's": r"\bsession \{(?:session\.id|known\[0\]\.id|\w+\.session(?:_id)?)\}",
    }
    for rule, pattern in wrong.items():
        found = [f"{name}: {hit[0]}" for name, text in texts.items() if (hit := re.search(pattern, text))]
        assert found == [], rule
