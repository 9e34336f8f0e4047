"""A report for people about an engine: its program, its login, its models, and what it can do."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from pilothouse.core.engine import EngineStatus

Has = Literal["yes", "some", "no"]
"""`some` means that it depends on the program behind the engine."""


class EngineReport(Struct, frozen=True):
    id: str
    title: str
    status: EngineStatus
    """The status of its program."""
    login: EngineStatus | None = None
    """None if the engine has no login, or nobody looked."""
    models: tuple[str, ...] = ()
    can: dict[str, Has] = field(default_factory=dict)
    package: str = ""

    @property
    def works(self) -> bool:
        return self.status.available and (self.login is None or self.login.available)


def state_line(report: EngineReport) -> str:
    """Say in one line whether an engine is ready, or what is wrong and the exact line that mends it."""
    for status in filter(None, (report.status, report.login)):
        if not status.available:
            return f"{status.problem} → {status.fix}" if status.fix else status.problem
    login = report.login.version if report.login else ""
    return " · ".join(filter(None, ("ready", login, report.status.note)))
