"""The official conformance suite of MCP judges the server, in both revisions that it knows."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import anyio
import pytest
from tests.agent_tools.conformance import SUITE, open_server

REVISIONS = ("2025-11-25", "2026-07-28")
MUST_PASS = {
    "2025-11-25": {
        "server-initialize",
        "ping",
        "tools-list",
        "tools-call-simple-text",
        "tools-call-error",
        "tools-call-with-progress",
        "dns-rebinding-protection",
    },
    "2026-07-28": {
        "server-stateless",
        "tools-list",
        "tools-call-simple-text",
        "tools-call-error",
        "tools-call-with-progress",
        "server-sse-multiple-streams",
        "dns-rebinding-protection",
        "caching",
        "http-header-validation",
        "input-required-result-unsupported-methods",
    },
}
LEFT_OUT = {
    "resources-": "the server has no resources",
    "prompts-": "the server has no prompts",
    "completion-": "the server completes nothing",
    "logging-": "the server sends no log messages",
    "elicitation-": "questions go to people by ask_user_question, not to the client",
    "input-required-result-": "questions go to people by ask_user_question, not to the client",
    "tools-call-elicitation": "questions go to people by ask_user_question, not to the client",
    "tools-call-sampling": "the server asks for no samples",
    "tools-call-with-logging": "the server sends no log messages",
    "tools-call-image": "our tools return text only",
    "tools-call-audio": "our tools return text only",
    "tools-call-embedded-resource": "our tools return text only",
    "tools-call-mixed-content": "our tools return text only",
    "tasks-": "an optional extension",
    "json-schema-2020-12": "needs a tool of the suite that ours are unlike",
    "server-sse-polling": "needs a tool of the suite that ours are unlike",
    "http-custom-header-": "no tool names headers",
}
"""Scenarios by the beginning of their names, and why they do not apply to this server."""
OTHER_CHECKS = {
    "sep-2549-prompts-list-caching-hints",
    "sep-2549-resources-list-caching-hints",
    "sep-2549-resources-templates-list-caching-hints",
    "sep-2575-server-rejects-undeclared-capability",
    "sep-2575-missing-capability-http-400",
}
"""Checks of scenarios that must pass otherwise: they need prompts, resources, or a tool of the suite."""


@pytest.mark.slow
async def test_the_official_suite_finds_no_fault_that_applies_to_us(tmp_path: Path) -> None:
    command = SUITE.command
    async with open_server(tmp_path) as url:
        for revision in REVISIONS:
            words = ["server", "--url", url, "--requirements", revision, "-o", str(tmp_path / revision)]
            with anyio.fail_after(120):
                # It ends with 1, because scenarios that do not apply fail.
                await anyio.run_process(
                    [*command, *words], cwd=tmp_path, check=False, stderr=subprocess.STDOUT
                )
    for revision in REVISIONS:
        found = read_failures(tmp_path / revision)
        passed = {name for name, failed in found.items() if not failed}
        assert passed >= MUST_PASS[revision], {name: found.get(name) for name in MUST_PASS[revision] - passed}
        unexpected = {
            name: failed
            for name, failed in found.items()
            if failed and ("wire-schema-valid" in failed or not name.startswith(tuple(LEFT_OUT)))
        }
        assert not unexpected


def read_failures(folder: Path) -> dict[str, list[str]]:
    """Return the scenarios that ran, with the checks that failed in each."""
    found: dict[str, list[str]] = {}
    for path in sorted(folder.glob("server-*/checks.json")):
        name = re.sub(r"-\d{4}-\d\d-\d\dT[\d-]+Z$", "", path.parent.name).removeprefix("server-")
        failed = [check["id"] for check in json.loads(path.read_bytes()) if check["status"] == "FAILURE"]
        found[name] = [id for id in failed if id not in OTHER_CHECKS]
    return found
