"""Child processes: start them, talk to them in lines, and leave nothing of them behind.

For every engine that is a command line program. `Launcher` is the way to start one for an agent.
"""

from pilothouse.processes.environment import BASE_NAMES, allowed_environment
from pilothouse.processes.errors import (
    InputClosed,
    InputFailed,
    InputStalled,
    ProcessError,
    SpawnFailed,
    SpawnProblem,
)
from pilothouse.processes.launcher import Launcher, read_version
from pilothouse.processes.leash import Leash
from pilothouse.processes.life import Ending, Leftover, StopDeadlines, Stopped, sweep_leftovers
from pilothouse.processes.lines import MAX_LINE_BYTES, Line, LineReader, LineSplitter
from pilothouse.processes.process import PROCESS_MARKER, Process, ProcessLimits, open_process
from pilothouse.processes.procfs import Marker, ProcessId
from pilothouse.processes.subreaper import become_subreaper, collect_orphans

__all__ = [
    "BASE_NAMES",
    "MAX_LINE_BYTES",
    "PROCESS_MARKER",
    "Ending",
    "InputClosed",
    "InputFailed",
    "InputStalled",
    "Launcher",
    "Leash",
    "Leftover",
    "Line",
    "LineReader",
    "LineSplitter",
    "Marker",
    "Process",
    "ProcessError",
    "ProcessId",
    "ProcessLimits",
    "SpawnFailed",
    "SpawnProblem",
    "StopDeadlines",
    "Stopped",
    "allowed_environment",
    "become_subreaper",
    "collect_orphans",
    "open_process",
    "read_version",
    "sweep_leftovers",
]
