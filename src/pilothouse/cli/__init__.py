"""The command line. `main` is the one place where an error becomes words and an exit code: never a traceback.

Import nothing at the top: `pilothouse --version` must cost no more than the interpreter itself.
"""

import os
import sys
from io import TextIOWrapper

from pilothouse import __version__

BROKEN = 1
BUSY = 75
UNFORESEEN = 70
INTERRUPTED = 130
PIPE_CLOSED = 141


def main(argv: list[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    words = sys.argv[1:] if argv is None else argv
    if words in (["--version"], ["-V"]):
        print(f"pilothouse {__version__}")
        return 0
    try:
        return _finish(_run(words))
    except BrokenPipeError:
        return _go_quietly()
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(words: list[str]) -> int:
    from pilothouse.cli.errors import explain

    try:
        from pilothouse.cli.group import pilothouse

        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="replace")
        code = pilothouse.main(words, prog_name="pilothouse", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except (KeyboardInterrupt, BrokenPipeError):
        raise
    except BaseException as error:  # noqa: BLE001 - here it becomes words and an exit code
        return explain(error)


def _finish(code: int) -> int:
    """What is still in the buffer may find a closed pipe; better here than while the interpreter ends."""
    sys.stdout.flush()
    return code


def _go_quietly() -> int:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return PIPE_CLOSED
