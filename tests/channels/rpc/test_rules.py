"""Every requirement of `pilothouse rpc` has a test."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from tests.channels.rpc.rules import RULES, TESTED


def test_every_rule_is_tested() -> None:
    for module in Path(__file__).parent.glob("test_*.py"):
        import_module(f"tests.channels.rpc.{module.stem}")
    assert set(RULES) == TESTED
