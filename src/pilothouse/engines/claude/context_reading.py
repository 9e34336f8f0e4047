"""Reads what an owner, or a trusted workspace, keeps for a session, and remembers who has had their first run.

Rules: what lies in a workspace is read only where it lies in truth, and links that lead out are not followed; whatever
is no plain file is not there. BOOTSTRAP.md belongs to the session that it was given to first, and to no other once a
turn of that session has been completed.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from urllib.parse import quote

from pilothouse.core.engine import Brief
from pilothouse.engines.claude.config import ClaudeConfig
from pilothouse.engines.claude.context_files import FILE_CHARS, Context, ContextPlan, gather_context
from pilothouse.engines.claude.permissions_file import NAME

CONVERSATIONS = "conversations"
_FIRST_RUNS = "first-runs"
_BYTES = FILE_CHARS * 4 + 4
"""More than a file may have, whatever its characters are: what is longer shows."""


class ContextReader:
    def __init__(self, config: ClaudeConfig, state_dir: str) -> None:
        self._config = config
        self._first_runs = Path(state_dir, _FIRST_RUNS)

    def gather(self, brief: Brief) -> Context:
        """Read for every turn: what an owner edits holds from the next one on."""
        plan = ContextPlan(
            brief.workspace,
            trusted=brief.trusted,
            first_run=self._is_first_run(brief),
            append_system_prompt=bool(self._config.append_system_prompt),
            base_files=tuple(os.path.expanduser(path) for path in self._config.context_files),
            conversation_file=conversation_file(brief),
        )
        own = os.path.realpath(brief.workspace)
        return gather_context(plan, lambda path: read_text(path, own if _is_in(path, brief) else ""))

    def end_first_run(self, brief: Brief) -> None:
        """A turn that had BOOTSTRAP.md was completed. Where that cannot be kept, the next session has it once more."""
        marker = self._marker(brief)
        try:
            marker.parent.mkdir(parents=True, exist_ok=True)
            with marker.open("x") as kept:
                kept.write(f"{brief.session_id}\n{os.path.realpath(brief.workspace)}\n")
        except OSError:
            pass

    def _is_first_run(self, brief: Brief) -> bool:
        try:
            return self._marker(brief).read_text().split("\n")[0] == brief.session_id
        except (OSError, UnicodeError):
            return True

    def _marker(self, brief: Brief) -> Path:
        place = os.path.realpath(brief.workspace)
        return self._first_runs / hashlib.sha256(os.fsencode(place)).hexdigest()[:32]


def permissions_text(brief: Brief) -> str | bytes | None:
    """Read for every turn. One that is there and cannot be read allows as little as one that makes no sense."""
    if not brief.settings_dir:
        return None
    try:
        return Path(brief.settings_dir, NAME).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"unreadable: {error.strerror}"


def conversation_file(brief: Brief) -> str:
    """`conversations/ID.md` in the owner's folder for the workspace; empty where there is none."""
    if not brief.settings_dir or not brief.conversation_id:
        return ""
    name = quote(brief.conversation_id, safe=":#@+=, ")
    return os.path.join(brief.settings_dir, CONVERSATIONS, f"{name}.md")


def read_text(path: str, inside: str = "") -> str | None:
    """A plain file's text, as far as anybody needs it; None where there is none, or where it leads out of `inside`."""
    try:
        real = os.path.realpath(path)
        if inside and os.path.commonpath((real, inside)) != inside:
            return None
        # A pipe in the file's place would else wait for a writer, and the gateway with it.
        with open(real, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            return file.read(_BYTES).decode("utf-8", "replace")
    except (OSError, ValueError):
        return None


def _is_in(path: str, brief: Brief) -> bool:
    return os.path.dirname(path) == brief.workspace.rstrip("/")
