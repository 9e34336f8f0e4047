"""Ids of OpenCode: of sessions, as people write them; of messages, as we make them."""

from __future__ import annotations

import re
import secrets
import string
import time
from collections.abc import Callable

SESSION = r"ses_[0-9A-Za-z]{8,64}"
_SESSION_ID = re.compile(SESSION)
_LETTERS = string.digits + string.ascii_letters
_TAIL = 14
_BITS = (1 << 48) - 1


def is_session_id(text: str) -> bool:
    return _SESSION_ID.fullmatch(text) is not None


class MessageIds:
    """Makes ids as OpenCode does: they grow with time, and it orders messages by them.

    It takes any id. With one that is greater than its own, it would take the answer for an older message, and ask the model
    again and again.
    """

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._last = 0

    def __call__(self) -> str:
        self._last = max(self._last + 1, int(self._now() * 1000) << 12)
        tail = "".join(secrets.choice(_LETTERS) for _ in range(_TAIL))
        return f"msg_{self._last & _BITS:012x}{tail}"
