"""The real `codex`, pinned."""

from __future__ import annotations

from pathlib import Path

from tests.engines.npm_program import NpmProgram

VERSION = "0.166.0"
CODEX = NpmProgram("codex", VERSION, Path(__file__).parent / "npm", "@openai/codex-*/vendor/*/bin/codex")


def codex_binary() -> Path:
    """Its path; skips the test, or fails it in CI, where there is none."""
    return CODEX.path()


def try_install() -> Path | str:
    return CODEX.installed
