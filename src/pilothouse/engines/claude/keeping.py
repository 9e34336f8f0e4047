"""Bytes that came with a turn -> an attachment in the store. What cannot be kept is told, and the turn goes on."""

from __future__ import annotations

from pilothouse.core.engine import Blobs, MediaFound
from pilothouse.core.errors import PilothouseError
from pilothouse.core.event import EngineEvent, MediaProduced, Notice
from pilothouse.engines.claude.turns import Step


async def keep_media(blobs: Blobs, step: Step) -> EngineEvent:
    if not isinstance(step, MediaFound):
        return step
    try:
        return MediaProduced(await blobs.put(step.data, step.name, step.media_type))
    except PilothouseError as error:
        return Notice("warning", "media_lost", f"{step.name} could not be kept: {error}")
