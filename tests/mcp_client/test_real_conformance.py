"""The official conformance suite of MCP judges our connections as a client, in both revisions that it knows."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import anyio
import pytest
from tests.agent_tools.conformance import SUITE
from tests.mcp_client.conformance_client import SAID, open_client

REVISIONS = ("2025-11-25", "2026-07-28")
LEFT_OUT = {
    "auth/client-credentials-": "an optional extension",
    "auth/enterprise-managed-authorization": "an optional extension",
    "auth/dpop": "an optional extension",
    "auth/wif-jwt-bearer": "an optional extension",
}
"""Scenarios by the beginning of their names, and why they do not count."""
LEAST = {"2025-11-25": 19, "2026-07-28": 33}
"""Scenarios of each revision, without those left out."""


@pytest.mark.slow
@pytest.mark.parametrize("revision", REVISIONS)
async def test_the_official_suite_finds_no_fault_in_the_client(tmp_path: Path, revision: str) -> None:
    out = tmp_path / "out"
    async with open_client(tmp_path) as command:
        words = ["client", "--command", command, "--requirements", revision, "--timeout", "150000"]
        with anyio.fail_after(240):
            # It ends with 1, because scenarios that do not apply fail.
            await anyio.run_process(
                [*SUITE.command, *words, "-o", str(out)], cwd=tmp_path, check=False, stderr=subprocess.STDOUT
            )
    found = read_failures(out)
    assert len(found) >= LEAST[revision]
    failed = {
        name: (checks, (tmp_path / name / SAID).read_text()) for name, checks in found.items() if checks
    }
    assert not failed


def read_failures(folder: Path) -> dict[str, list[str]]:
    """Return the scenarios that count, with the checks that failed in each."""
    found: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("checks.json")):
        name = re.sub(r"-\d{4}-\d\d-\d\dT[\d-]+Z$", "", str(path.parent.relative_to(folder)))
        if not name.startswith(tuple(LEFT_OUT)):
            checks = json.loads(path.read_bytes())
            found[name] = [check["id"] for check in checks if check["status"] == "FAILURE"]
    return found
