"""Explains why a server could not be reached, in words for the person who has to fix it."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator

from anyio import EndOfStream

OWN_AUTHORITY = "; if it is yours or your company's, start with SSL_CERT_FILE naming its authority's file, or SSL_CERT_DIR a folder"
_OF_AUTHORITY = frozenset({2, 18, 19, 20, 21})
"""OpenSSL's codes for an unknown issuer. For a wrong name or an expired date no file of authorities helps."""


def why_unreachable(error: BaseException) -> str:
    """Explains an error by the first known one in its chain, else by what the operating system said, else by itself."""
    chain = list(_chain(error))
    for one in chain:
        if words := _words(one):
            return words
    system = next((one.strerror for one in chain if isinstance(one, OSError) and one.strerror), "")
    return system or str(error).strip() or re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(error).__name__).lower()


def _words(error: BaseException) -> str:
    match error:
        case socket.gaierror():
            return "its name cannot be resolved, or the network is down"
        case ssl.SSLCertVerificationError():
            return _distrust(error)
        case ConnectionRefusedError():
            return "the connection was refused"
        case ConnectionResetError() | ConnectionAbortedError() | BrokenPipeError() | EndOfStream():
            return "the connection was cut off"
        case TimeoutError():
            return "no answer came in time"
        case _:
            return ""


def _distrust(error: ssl.SSLCertVerificationError) -> str:
    why = str(getattr(error, "verify_message", error)).rstrip(".")
    cure = OWN_AUTHORITY if getattr(error, "verify_code", 0) in _OF_AUTHORITY else ""
    return f"its certificate is not trusted here: {why}{cure}"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yields the error, its causes and the members of groups, each once."""
    left, seen = [error], set[int]()
    while left:
        one = left.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        inner = (one.__cause__, one.__context__, getattr(one, "os_error", None))
        left += [it for it in inner if isinstance(it, BaseException)]
        left += one.exceptions if isinstance(one, BaseExceptionGroup) else ()
