"""The whole program with the real CLI: the audit log tells who spoke, why a model was called, and what a rule let pass."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.engines.claude.api import call, open_api, say
from tests.engines.claude.test_real_gateway import House
from tests.engines.gateway_terminal import WITHIN_S

pytestmark = pytest.mark.slow


def run(house: House, *words: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "pilothouse", *words, "--json"],
        env=house.environ,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=True,
    )
    return json.loads(done.stdout)


def test_a_call_that_a_rule_let_pass_is_in_a_chain_that_holds(tmp_path: Path) -> None:
    note = tmp_path / "work" / "note.txt"
    with open_api(call("Read", file_path=str(note)), say("It says hello.")) as api:
        house = House(tmp_path, api)
        note.write_text("hello")
        assert "It says hello." in house.say("what does the note say?")
        rows = run(house, "audit", "-n", "100")
        told = {row["what"]: row for row in reversed(rows)}
        assert {"sender.accepted", "turn.started", "rule.allow"} <= told.keys()
        assert told["turn.started"]["detail"]["cause"] == "message"
        assert told["rule.allow"]["detail"]["tool"] == "Read"
        assert len(told["rule.allow"]["detail"]["hash"]) == 64
        assert [row["seq"] for row in rows] == list(range(len(rows), 0, -1))
        verified = run(house, "audit", "verify")
        assert verified["intact"] and verified["rows"] == len(rows) and verified["noted_heads"]
        cost = run(house, "cost")
        assert cost["lines"][0]["name"] == "message" and cost["total"]["cost_usd"] > 0
