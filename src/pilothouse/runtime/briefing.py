"""Workspace record, policy and trust → `Brief`: everything that a session is opened with."""

from __future__ import annotations

import os

from pilothouse.core.engine import Brief
from pilothouse.core.errors import EngineError
from pilothouse.core.outcome import Failure
from pilothouse.core.policy import ApprovalMode
from pilothouse.core.store import Tx
from pilothouse.runtime.modes import picked_mode
from pilothouse.runtime.ports import Ports
from pilothouse.runtime.starting import Started
from pilothouse.runtime.trusting import is_trusted_folder


async def make_brief(ports: Ports, started: Started) -> Brief:
    """Raises `EngineError` where the folder is missing: an engine in a wrong folder would do wrong things.

    What hangs on the folder itself is looked up here, and not in the transaction that starts the turn: a disk may take
    its time, and whoever writes would wait for it.
    """
    session = started.session
    if not session.workspace:
        raise EngineError(
            Failure(
                "bad_request",
                "No workspace is chosen for this conversation. Set gateway.default_workspace to a folder.",
            )
        )
    found = await ports.look(lambda tx: _look(tx, session.workspace))
    if found is None:
        raise EngineError(
            Failure(
                "bad_request",
                f"The workspace {session.workspace} does not exist. Create the folder, or choose another.",
            )
        )
    trusted, picked = found
    brief = Brief(
        session.id,
        session.workspace,
        trusted=trusted,
        resume=session.resume,
        model=started.conversation.model or session.model,
        approval_mode=started.said_mode or ports.settings().mode_in(session.workspace) or picked or "minimal",
        budget_usd=started.budget_usd,
        conversation_id=started.conversation.id,
        wake=started.turn.prompt.wake,
    )
    return ports.brief(started.conversation.id, brief)


def _look(tx: Tx, workspace: str) -> tuple[bool, ApprovalMode | None] | None:
    """Whether the folder is trusted, and the mode that was picked in it; None where there is no folder."""
    real = os.path.realpath(workspace)
    if not os.path.isdir(real):
        return None
    return is_trusted_folder(tx, real), picked_mode(tx, real)
