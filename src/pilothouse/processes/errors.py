"""Errors of child processes, as values a caller can act on.

    ProcessError
      SpawnFailed     it never started
      InputFailed     it did not take what we wrote
        InputClosed     it has ended, or it closed its input
        InputStalled    it is alive, but does not read

Rule: callers read the fields and never match the message, which tells a person what happened and what to do next. The
operating system has one "No such file" for a missing program and a missing folder; here they are told apart.
"""

import errno
import os
from collections.abc import Sequence
from enum import StrEnum

_NO_RESOURCES = {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE}


class SpawnProblem(StrEnum):
    MISSING_PROGRAM = "missing_program"
    MISSING_FOLDER = "missing_folder"
    NOT_EXECUTABLE = "not_executable"
    TOO_LONG = "too_long"
    BAD_ARGUMENT = "bad_argument"
    NO_RESOURCES = "no_resources"
    OTHER = "other"


class ProcessError(Exception):
    """The root of this tree."""


class SpawnFailed(ProcessError):
    """The program never started. `detail` describes this machine, for a bug report."""

    def __init__(self, message: str, *, argv0: str, cwd: str, reason: SpawnProblem, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail
        self.argv0 = argv0
        self.cwd = cwd
        self.reason = reason


class InputFailed(ProcessError):
    def __init__(self, message: str, *, argv0: str, pid: int) -> None:
        super().__init__(message)
        self.argv0 = argv0
        self.pid = pid


class InputClosed(InputFailed):
    """The process has ended or closed its input, or `close_input` was called."""

    def __init__(self, why: str, *, argv0: str, pid: int, exit_code: int | None) -> None:
        ended = "" if exit_code is None else f" It ended with exit code {exit_code}."
        super().__init__(
            f"Process {pid} ({argv0}) takes no more input: {why}.{ended} Start a new one.",
            argv0=argv0,
            pid=pid,
        )
        self.exit_code = exit_code


class InputStalled(InputFailed):
    """The process is alive, but did not read within the deadline."""

    def __init__(self, *, argv0: str, pid: int, deadline_s: float) -> None:
        super().__init__(
            f"Process {pid} ({argv0}) did not read its input for {deadline_s:g} s. Stop it, start a new one.",
            argv0=argv0,
            pid=pid,
        )
        self.deadline_s = deadline_s


def explain(error: Exception, *, argv: Sequence[str], cwd: str, path: str) -> SpawnFailed:
    argv0 = argv[0] if argv else ""
    reason = classify(error, cwd=cwd)
    return SpawnFailed(
        _message(reason, error, argv0, cwd),
        argv0=argv0,
        cwd=cwd,
        reason=reason,
        detail=f"PATH={path}" if reason is SpawnProblem.MISSING_PROGRAM else "",
    )


def classify(error: Exception, *, cwd: str) -> SpawnProblem:
    if not isinstance(error, OSError):
        return SpawnProblem.BAD_ARGUMENT
    if not os.path.isdir(cwd) or not os.access(cwd, os.X_OK):
        return SpawnProblem.MISSING_FOLDER
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return SpawnProblem.MISSING_PROGRAM
    if isinstance(error, PermissionError) or error.errno == errno.ENOEXEC:
        return SpawnProblem.NOT_EXECUTABLE
    if error.errno == errno.E2BIG:
        return SpawnProblem.TOO_LONG
    return SpawnProblem.NO_RESOURCES if error.errno in _NO_RESOURCES else SpawnProblem.OTHER


def _message(reason: SpawnProblem, error: Exception, argv0: str, cwd: str) -> str:
    match reason:
        case SpawnProblem.MISSING_PROGRAM if os.path.exists(argv0):
            why = "the interpreter that its first line names is missing. Install it, or correct that line"
        case SpawnProblem.MISSING_PROGRAM if "/" in argv0:
            why = "there is no such file. Correct the path, or install it there"
        case SpawnProblem.MISSING_PROGRAM:
            why = "it is not on the PATH. Install it, or give its full path"
        case SpawnProblem.MISSING_FOLDER:
            why = f"its folder {cwd!r} does not exist or may not be entered. Create it, or choose another"
        case SpawnProblem.NOT_EXECUTABLE:
            why = "the file may not be executed, or is no program. Check it with `file`, and `chmod +x` it"
        case SpawnProblem.TOO_LONG:
            why = (
                "its arguments and environment are too long for this system. Pass long text through its input"
            )
        case SpawnProblem.BAD_ARGUMENT:
            why = f"an argument or a variable cannot be passed ({error}). Remove empty commands and NUL bytes"
        case SpawnProblem.NO_RESOURCES:
            why = f"the system is out of resources ({error}). End something, or raise its limits"
        case SpawnProblem.OTHER:
            why = f"the system refused ({error}). Try it by hand in {cwd!r}"
    return f"Cannot start {argv0!r}: {why}."
