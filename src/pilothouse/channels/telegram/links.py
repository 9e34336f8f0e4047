"""Which links Telegram takes. One that it refuses would cost the whole message, so it becomes text before it is sent.

Stricter than Telegram where a link could deceive: no user name before the host, no invisible characters, and no
`tg://user`, which would call somebody.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from pilothouse.channels.telegram.limits import URL_CHARS

_HOST = re.compile(r"[\w-]+(\.[\w-]+)+\.?")
_IPV6 = re.compile(r"[0-9a-f:]+")
_MAIL = re.compile(r"mailto:[\w.+-]+@[\w-]+(\.[\w-]+)+", re.IGNORECASE)
_TG = re.compile(r"tg://(?!user\b)[a-z]+\?[\w=&%.+-]+", re.IGNORECASE)


def takes(url: str) -> bool:
    """Whether Telegram takes the link as it stands (a name without dots, `localhost`, it refuses)."""
    if len(url) > URL_CHARS or not url.isprintable() or " " in url:
        return False
    if _MAIL.fullmatch(url) or _TG.fullmatch(url):
        return True
    return url.lower().startswith(("http://", "https://")) and _has_sound_host(url)


def _has_sound_host(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return False
    if port == 0 or "@" in parts.netloc or "\\" in parts.netloc:
        return False
    return bool(_IPV6.fullmatch(host) if ":" in host else _HOST.fullmatch(host))
