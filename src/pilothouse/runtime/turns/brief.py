"""The `Brief` of a turn that has started: its folder, the trust in it, the model and the mode.

The folder is looked up here and not in the transaction that starts the turn, because a slow disk would block all
writes.
"""

from __future__ import annotations

import os

from pilothouse.core.engine import Brief
from pilothouse.core.errors import EngineError
from pilothouse.core.message import Content
from pilothouse.core.outcome import Failure
from pilothouse.core.policy import ApprovalMode
from pilothouse.core.store import Tx
from pilothouse.runtime.audit import APP, record
from pilothouse.runtime.conversations.binding import picked_mode
from pilothouse.runtime.outbox import say
from pilothouse.runtime.ports import OUTBOX, Ports
from pilothouse.runtime.trust import (
    StoredTrust,
    TrustState,
    changed_notice,
    keep_first_content,
    note_trust,
    stored_trust,
)
from pilothouse.runtime.turns.start import Started

HOUR_S = 3600


async def make_brief(ports: Ports, started: Started) -> Brief:
    """Build the brief. Raises `EngineError` if the folder is missing.

    The content that a person trusted is read outside of the store's threads.
    """
    session = started.session
    if not session.workspace:
        raise EngineError(
            Failure(
                "bad_request",
                "No workspace is chosen for this conversation. Set gateway.default_workspace to a folder.",
            )
        )
    settings = ports.settings()
    found = await ports.read(lambda tx: _folder_state(tx, session.workspace))
    if found is None:
        raise EngineError(
            Failure(
                "bad_request",
                f"The workspace {session.workspace} does not exist. Create the folder, or choose another.",
            )
        )
    real, stored, picked = found
    state = await note_trust(settings, stored, real)
    if state.was_given and (state.before is None or not state.holds):
        await ports.persist(lambda tx: _note_trust(tx, ports, started, real, state))
        ports.signals.poke(OUTBOX)
    if warning := settings.missing_isolation(session.workspace):
        await ports.persist(lambda tx: _tell_not_isolated(tx, ports, started, warning))
        ports.signals.poke(OUTBOX)
    return Brief(
        session.id,
        session.workspace,
        trusted=state.holds,
        resume=started.fork.resume if started.fork else session.resume,
        resume_at=started.fork.at if started.fork else "",
        model=started.conversation.model or session.model,
        approval_mode=started.chat_mode or settings.mode_in(session.workspace) or picked or "minimal",
        budget_usd=started.budget_usd,
        conversation_id=started.conversation.id,
        turn_id=started.turn.id,
        wake=started.turn.prompt.wake,
        settings_dir=settings.settings_dirs.get(real, ""),
        context_files=settings.context_files_in(session.workspace, state.holds),
    )


def _tell_not_isolated(tx: Tx, ports: Ports, started: Started, warning: str) -> None:
    """Tell the conversation once per session, in a message of its own: people may not see the progress of a short turn."""
    key = f"not-isolated:{started.session.id}:{started.conversation.id}"
    if tx.outbox.by_key(key) is None:
        say(tx, ports.ids, started.conversation.id, Content(warning, "notice"), key=key, at=ports.clock.now())


def _folder_state(tx: Tx, workspace: str) -> tuple[str, StoredTrust, ApprovalMode | None] | None:
    """Return the resolved folder, the trust that it was given, and the mode picked in it; None if there is no folder."""
    real = os.path.realpath(workspace)
    if not os.path.isdir(real):
        return None
    return real, stored_trust(tx, real), picked_mode(tx, real)


def _note_trust(tx: Tx, ports: Ports, started: Started, real: str, state: TrustState) -> None:
    """Take the content of a folder that an older version trusted; of one that changed, tell the conversation once an hour."""
    at = ports.clock.now()
    if state.holds:
        keep_first_content(tx, real, state.content, at)
        return
    place = started.conversation.id
    key = f"trust:{real}:{state.content.digest}:{place}:{at // HOUR_S:.0f}"
    if tx.outbox.by_key(key) is None:
        say(tx, ports.ids, place, Content(changed_notice(real, state), "notice"), key=key, at=at)
        record(tx, at, APP, "trust.changed", workspace=real, content=state.content.digest)
