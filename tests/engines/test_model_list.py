"""The models that a program offered are kept over a restart, and a broken file costs nothing."""

from __future__ import annotations

from pathlib import Path

from pilothouse.core.engine import Model
from pilothouse.engines.model_list import MOST, ModelList


def test_models_are_kept_over_a_restart_and_an_empty_list_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "codex" / "models.json"
    ModelList(path).keep([Model("big", "Big One"), Model("small")])
    known = ModelList(path)
    known.keep([])
    assert known.read() == ModelList(path).read() == (Model("big", "Big One"), Model("small"))
    known.keep([Model(str(number)) for number in range(2 * MOST)])
    assert len(ModelList(path).read()) == MOST
    path.write_bytes(b'{"not": "a list')
    assert ModelList(path).read() == ()
