"""Makes orphaned descendants ours, instead of the machine's first process.

Rule: asked for once, by the daemon, at its start; importing this package changes nothing.
"""

import ctypes
import sys

_PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> bool:
    """Adopt the orphans of all our descendants from now on. False where the system cannot (macOS).

    A process tree collects the adopted orphans that it knows; nobody ever waits for "any child", for that
    would take exit statuses away from whoever waits for its own.
    """
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
