"""The exception tree.

    PilothouseError
    ├── ConfigError            a setting is wrong: file, key, value, what is allowed
    ├── PluginError            a plugin did not load
    ├── EngineError            an engine could not be opened; carries a Failure
    ├── DeliveryError
    │   ├── TryLater           the platform wants us to wait `after_s`
    │   ├── Rejected           the platform will never take it, and says why
    │   │   ├── CannotEdit     this message can no longer be edited; a new one can be sent
    │   │   └── NoThreads      this place has no threads, so none can be opened in it
    │   ├── Unconfirmed        the platform may have taken it: a repeat must be marked as one
    │   └── WantsPlainer       the platform rejected the format: use `render_plainly`
    ├── StoreError
    │   ├── StoreUnavailable   disk full, read-only, locked: nothing was written; it may work later
    │   ├── StoreTooNew        written by a newer Pilothouse
    │   ├── StoreTooOld        written by an older one, or half made; a read-only open does not migrate it
    │   ├── RoleHeld           another node holds the role
    │   ├── Fenced             another node took over, or the store is gone: this node must not write; never swallow it
    │   └── SessionBusy        the session has a live turn already (law 2)
    └── IllegalMove            a state machine was asked for a move that its table lacks

A message says what happened, with which value, and what to do next; it is shown to people unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator

from pilothouse.core.outcome import Failure


class PilothouseError(Exception):
    """Any expected error. Its text is fit for a person."""


class ConfigError(PilothouseError):
    pass


class PluginError(PilothouseError):
    pass


class EngineError(PilothouseError):
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text)
        self.failure = failure


class DeliveryError(PilothouseError):
    pass


class TryLater(DeliveryError):
    def __init__(self, after_s: float, reason: str = "") -> None:
        super().__init__(reason or f"the platform asks us to wait {after_s:g} s")
        self.after_s = after_s


class Rejected(DeliveryError):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class CannotEdit(Rejected):
    pass


class NoThreads(Rejected):
    pass


class Unconfirmed(DeliveryError):
    pass


class WantsPlainer(DeliveryError):
    pass


class StoreError(PilothouseError):
    pass


class StoreUnavailable(StoreError):
    pass


class StoreTooNew(StoreError):
    pass


class StoreTooOld(StoreError):
    pass


class RoleHeld(StoreError):
    """Another node holds the role; `holder` names it for people."""

    def __init__(self, message: str, *, role: str, holder: str) -> None:
        super().__init__(message)
        self.role = role
        self.holder = holder


class Fenced(StoreError):
    pass


class SessionBusy(StoreError):
    pass


class IllegalMove(PilothouseError):
    def __init__(self, kind: str, state: str, move: str) -> None:
        super().__init__(f"{kind} cannot go from {state} to {move}")
        self.state = state
        self.move = move


def main_error(error: BaseException) -> BaseException:
    """Pick the most telling error of a group: the first `PilothouseError`, else the first."""
    flat = list(_flatten(error))
    return next((one for one in flat if isinstance(one, PilothouseError)), flat[0])


def _flatten(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _flatten(one)
    else:
        yield error


def find_fenced(error: BaseException) -> Fenced | None:
    """Return the `Fenced` error, alone or in a group; None if there is none."""
    return next((one for one in _flatten(error) if isinstance(one, Fenced)), None)
