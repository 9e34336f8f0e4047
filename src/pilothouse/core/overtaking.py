"""Which commands act on what runs or waits, or only tell of it: a channel lets them pass what it is still fetching.

`/new` and its like are not among them: what was sent before belongs to the session that there was.
"""

from __future__ import annotations

OVERTAKING = frozenset({"stop", "cancel", "status", "queue", "session", "cost", "show", "help"})
