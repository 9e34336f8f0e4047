"""Which models Claude offers: what its greeting says, read without trust in its shape."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.engines.claude.recorded import read

from pilothouse.core.engine import Model
from pilothouse.engines.claude.config import read_models


def greeting() -> Any:
    return msgspec.json.decode(read("h_hook_callbacks").splitlines()[0])["response"]["response"]


def test_the_recorded_greeting_names_them_but_not_claudes_own_choice() -> None:
    assert read_models(greeting(), None) == (
        Model("opus", "Opus"),
        Model("fable", "Fable"),
        Model("sonnet", "Sonnet"),
        Model("haiku", "Haiku"),
    )


def test_a_full_name_is_not_offered_only_because_we_gave_it() -> None:
    ours = {"value": "nonsense", "resolvedModel": "nonsense", "displayName": "nonsense"}
    told = {"models": [ours, {"value": "opus", "resolvedModel": "claude-opus-5-5"}]}
    assert [model.name for model in read_models(told, "nonsense")] == ["opus"]
    assert [model.name for model in read_models(told, "opus")] == ["nonsense", "opus"]


@pytest.mark.parametrize("greeting", [None, [], {}, {"models": None}, {"models": [{"value": 7}]}, "models"])
def test_a_greeting_of_another_shape_offers_nothing(greeting: object) -> None:
    assert read_models(greeting, None) == ()
