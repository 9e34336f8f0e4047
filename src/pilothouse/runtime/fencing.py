"""Finds the one error that nobody may swallow: `Fenced`, alone or among others that happened beside it."""

from __future__ import annotations

from pilothouse.core.errors import Fenced


def fenced_in(error: BaseException) -> Fenced | None:
    """Somebody took over from us, says this error; None if it says anything else."""
    if isinstance(error, Fenced):
        return error
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(fenced_in, error.exceptions)), None)
    return None
