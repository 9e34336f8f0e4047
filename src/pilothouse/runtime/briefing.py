"""Workspace record, policy and trust → `Brief`: everything that a session is opened with."""

from __future__ import annotations

import os

from pilothouse.core.engine import Brief
from pilothouse.core.errors import EngineError
from pilothouse.core.failure import Failure
from pilothouse.runtime.ports import Ports
from pilothouse.runtime.starting import Started


def make_brief(ports: Ports, started: Started) -> Brief:
    """Raises `EngineError` where the folder is missing: an engine in a wrong folder would do wrong things."""
    session = started.session
    if not session.workspace:
        raise EngineError(
            Failure(
                "bad_request",
                "No workspace is chosen for this conversation. Set gateway.default_workspace to a folder.",
            )
        )
    if not os.path.isdir(session.workspace):
        raise EngineError(
            Failure(
                "bad_request",
                f"The workspace {session.workspace} does not exist. Create the folder, or choose another.",
            )
        )
    brief = Brief(
        session.id,
        session.workspace,
        trusted=started.trusted,
        resume=session.resume,
        model=started.conversation.model or session.model,
        approval_mode=started.said_mode
        or ports.settings().mode_in(session.workspace)
        or started.picked_mode
        or "minimal",
        budget_usd=started.budget_usd,
        conversation_id=started.conversation.id,
        wake=started.turn.prompt.wake,
    )
    return ports.brief(started.conversation.id, brief)
