"""What can go wrong with a child process, as values a caller can act on.

    ProcessError
      SpawnFailed     it never started
      InputFailed     it did not take what we wrote
        InputClosed     it is gone, or it closed its input
        InputStalled    it is alive, but does not read

Rule: nobody matches message text. The fields carry the facts; the message tells a person what happened,
with which value, and what to do next.
"""

from enum import StrEnum


class SpawnProblem(StrEnum):
    """Why a program did not start."""

    MISSING_PROGRAM = "missing_program"
    MISSING_FOLDER = "missing_folder"
    NOT_EXECUTABLE = "not_executable"
    TOO_LONG = "too_long"
    BAD_ARGUMENT = "bad_argument"
    NO_RESOURCES = "no_resources"
    OTHER = "other"


class ProcessError(Exception):
    """Something about a child process went wrong."""


class SpawnFailed(ProcessError):
    """The program never started; nothing is left behind. `detail` is for a bug report: it tells of this machine."""

    def __init__(self, message: str, *, argv0: str, cwd: str, reason: SpawnProblem, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail
        self.argv0 = argv0
        self.cwd = cwd
        self.reason = reason


class InputFailed(ProcessError):
    """The process did not take what was written to it."""

    def __init__(self, message: str, *, argv0: str, pid: int) -> None:
        super().__init__(message)
        self.argv0 = argv0
        self.pid = pid


class InputClosed(InputFailed):
    """The process is gone, has closed its input, or was told that there is no more."""

    def __init__(self, why: str, *, argv0: str, pid: int, exit_code: int | None) -> None:
        ended = "" if exit_code is None else f" It ended with exit code {exit_code}."
        super().__init__(
            f"Process {pid} ({argv0}) takes no more input: {why}.{ended} Start a new one.",
            argv0=argv0,
            pid=pid,
        )
        self.exit_code = exit_code


class InputStalled(InputFailed):
    """The process lives, but did not read what was written within the deadline."""

    def __init__(self, *, argv0: str, pid: int, deadline_s: float) -> None:
        super().__init__(
            f"Process {pid} ({argv0}) did not read its input for {deadline_s:g} s. Stop it, start a new one.",
            argv0=argv0,
            pid=pid,
        )
        self.deadline_s = deadline_s
