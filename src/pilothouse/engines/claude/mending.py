"""Half a character in a line: a text that the CLI cut between the two halves of an emoji, or bytes that are no UTF-8.

JavaScript writes such a half as an escape that is no JSON to us, and the whole line would be lost for it.
"""

from __future__ import annotations

import re

_ESCAPE: re.Pattern[bytes] = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)


def mend(line: bytes) -> bytes:
    """The line with a replacement character for each half. One that has none comes back as it is."""
    whole = line.decode("utf-8", "replace").encode()
    return _ESCAPE.sub(_whole, whole)


def _whole(found: re.Match[bytes]) -> bytes:
    return rb"\ufffd" if found["half"] else found[0]
