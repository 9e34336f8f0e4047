"""The real `opencode`, pinned."""

from __future__ import annotations

from pathlib import Path

from tests.engines.npm_program import NpmProgram

VERSION = "1.18.33"
OPENCODE = NpmProgram("opencode", VERSION, Path(__file__).parent / "npm", "opencode-*/bin/opencode")


def opencode_binary() -> Path:
    """Its path; skips the test, or fails it in CI, where there is none."""
    return OPENCODE.path()
