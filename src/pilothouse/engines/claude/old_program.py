"""Flags that an older Claude Code does not know: which can be left out, and what people are told."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from pilothouse.core.event import Notice
from pilothouse.core.outcome import Failure

INSTALL = "npm install -g @anthropic-ai/claude-code"
_UNKNOWN = re.compile(r"unknown option '?(--[\w-]+)")

WITHOUT: Mapping[str, str] = {
    "--include-partial-messages": "answers appear block by block, not word by word",
    "--fallback-model": "engines.claude.fallback_model is off",
    "--system-prompt-snapshot": "a changed system prompt, or context file, reaches new sessions only",
    "--debug-file": "engines.claude.debug_file is off",
}
"""Flags that can be left out, and the effect of that."""
_SWITCHES = frozenset({"--include-partial-messages"})


def unknown_flag(failure: Failure) -> str:
    """Return the flag that the program did not know; empty if that is not what happened."""
    found = _UNKNOWN.search(f"{failure.text}\n{failure.detail}")
    return found[1] if found else ""


def leave_out(argv: Sequence[str], flags: Iterable[str]) -> list[str]:
    """Return `argv` without these flags and their values."""
    missing, kept = set(flags), list[str]()
    words = iter(argv)
    for word in words:
        if word not in missing:
            kept.append(word)
        elif word not in _SWITCHES:
            next(words, None)
    return kept


def say_missing(flags: Iterable[str]) -> list[Notice]:
    return [
        Notice(
            "warning",
            "old_program",
            f"This Claude Code does not know {flag}: {WITHOUT[flag]}. Update it: {INSTALL}",
        )
        for flag in sorted(flags)
    ]


def explain_unknown(flag: str, failure: Failure) -> Failure:
    text = f"This Claude Code does not know {flag}, which its settings need. Update it: {INSTALL}"
    return Failure("bad_request", text, detail=failure.detail or failure.text)
