"""The command line. `main` turns every error into a message and an exit code, never a traceback.

Imports nothing heavy at the top: `pilothouse --version` must cost no more than the interpreter itself.
"""

import os
import sys
from io import TextIOWrapper

from pilothouse import __version__
from pilothouse.cli.errors import BROKEN, INTERRUPTED, PIPE_CLOSED, UNFORESEEN


def main(argv: list[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    words = sys.argv[1:] if argv is None else argv
    _fill_streams()
    try:
        if words in (["--version"], ["-V"]):
            print(f"pilothouse {__version__}")
            return _finish(0)
        if words == ["agent-tools"]:
            from pilothouse.agent_tools.bridge import main as serve_tools

            return _finish(serve_tools())
        return _finish(_run(words))
    except BrokenPipeError:
        return _go_quietly()
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(words: list[str]) -> int:
    try:
        from pilothouse.bootstrap.terminal_text import program
        from pilothouse.cli.group import pilothouse

        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="replace")
        code = pilothouse.main(words, prog_name=program(os.environ), standalone_mode=False)
        return code if isinstance(code, int) else 0
    except (KeyboardInterrupt, BrokenPipeError):
        raise
    except BaseException as error:  # noqa: BLE001 - here it becomes words and an exit code
        if _may_be_output(error) and (stuck := _stuck("\n")):
            return _say_stuck(stuck)
        return _explain(error)


def _may_be_output(error: BaseException) -> bool:
    """Returns true if a write to an open stream may have raised it: such an error names no file."""
    is_nameless = isinstance(error, OSError) and error.filename is None
    return is_nameless and not isinstance(error, FileNotFoundError)


def _explain(error: BaseException) -> int:
    try:
        from pilothouse.cli.errors import explain

        return explain(error)
    except Exception as second:  # noqa: BLE001 - a broken installation gets one line too, not a traceback
        both = f"{type(error).__name__}, then {type(second).__name__} while reporting it: {second}"
        print(f"Unexpected error: {both}", file=sys.stderr)
        return UNFORESEEN


def _fill_streams() -> None:
    """Opens closed standard streams: the next file that is opened would get one of their descriptors."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, "w" if number else "r", encoding="utf-8")  # noqa: SIM115
            setattr(sys, name, stream)


def _finish(code: int) -> int:
    """Flushes the output here, where a closed pipe can be handled; at interpreter exit it cannot."""
    stuck = _stuck()
    code = code if stuck is None else _say_stuck(stuck)
    try:
        sys.stderr.flush()
    except OSError:  # it would fail again at exit, with the interpreter's own exit code
        _silence(sys.stderr.fileno())
    return code


def _say_stuck(stuck: OSError) -> int:
    from contextlib import suppress

    with suppress(OSError):  # stdout and stderr may be the same closed window
        print(f"error: The output cannot be written: {stuck.strerror}", file=sys.stderr)
    _go_quietly()
    return BROKEN


def _stuck(probe: str = "") -> OSError | None:
    """Returns the error that standard output raises. Without a buffer only one more write can show it."""
    try:
        sys.stdout.write(probe)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        return error
    return None


def _go_quietly() -> int:
    _silence(sys.stdout.fileno())
    return PIPE_CLOSED


def _silence(descriptor: int) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
