"""The real `claude`, pinned."""

from __future__ import annotations

from pathlib import Path

from tests.engines.npm_program import NpmProgram

VERSION = "2.1.325"
CLAUDE = NpmProgram("claude", VERSION, Path(__file__).parent / "npm", "@anthropic-ai/claude-code-*/claude")


def claude_binary() -> Path:
    """Its path; skips the test, or fails it in CI, where there is none."""
    return CLAUDE.path()


def claude_version() -> str:
    """As it prints it."""
    return CLAUDE.version


def try_install() -> Path | str:
    return CLAUDE.installed
