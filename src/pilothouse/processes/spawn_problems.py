"""Why a program did not start, in words that help.

Rule: the operating system's one "No such file" is told apart here: the program, or the folder.
"""

import errno
import os
from collections.abc import Sequence

from pilothouse.processes.errors import SpawnFailed, SpawnProblem

_NO_RESOURCES = {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE}


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
