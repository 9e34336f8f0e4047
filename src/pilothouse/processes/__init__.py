"""Child processes: start them, talk to them in lines, and leave nothing of them behind.

`Launcher` is the way to start one for an agent.
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
from pilothouse.processes.life import Ending, Leftover, StopDeadlines, Stopped, sweep_leftovers
from pilothouse.processes.lines import MAX_LINE_BYTES, Line, LineReader, LineSplitter
from pilothouse.processes.process import (
    PROCESS_MARKER,
    LineSource,
    Process,
    ProcessLimits,
    SharedProcess,
    Talker,
    open_process,
)
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
    "Leftover",
    "Line",
    "LineReader",
    "LineSource",
    "LineSplitter",
    "Marker",
    "Process",
    "ProcessError",
    "ProcessId",
    "ProcessLimits",
    "SharedProcess",
    "SpawnFailed",
    "SpawnProblem",
    "StopDeadlines",
    "Stopped",
    "Talker",
    "allowed_environment",
    "become_subreaper",
    "collect_orphans",
    "open_process",
    "read_version",
    "sweep_leftovers",
]
