"""Removes secrets from text: by their exact values in every spelling, and by their shape.

A value may be quoted, URL-encoded, or inside base64 (`user:token` in a header); all of these are found.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus

MARK = "[redacted]"
SHORTEST = 4
"""Shorter values are not redacted: hiding every "1" would make logs unreadable."""
SHORTEST_SHAPE = 13
"""Length of the shortest shape ("bearer" and six characters); shorter texts need no search."""
SHORTEST_START = 12
"""Shorter beginnings of a secret at the end of a text are shown: most keys begin with the same few characters."""
SHORTEST_INSIDE = 8
"""Shorter remainders inside base64 would match by chance."""

_PEM = r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
SHAPES = (
    _PEM,
    r"\bsk-[A-Za-z0-9_-]{12,}",
    r"\b(?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{20,}",
    r"\bgithub_pat_[A-Za-z0-9_]{20,}",
    r"\bglpat-[A-Za-z0-9_-]{16,}",
    r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
    r"\bxapp-[A-Za-z0-9-]{10,}",
    r"(?<![A-Za-z0-9])(?:bot)?\d{6,12}:[A-Za-z0-9_-]{30,}",  # Telegram
    r"\b[A-Za-z0-9_-]{23,28}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}",  # Discord
    r"\bmfa\.[A-Za-z0-9_-]{20,}",
    r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    r"\bAIza[A-Za-z0-9_-]{30,}",
    r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
)
_SHAPE = re.compile("|".join(SHAPES), re.DOTALL)
# Possessive quantifiers keep hostile texts from causing slow backtracking. None follows a group: Python before 3.11.5
# gets those wrong.
NAMED = re.compile(
    r"(?i)(\b(?:proxy-)?authorization\b[\"']?\s*+[:=]\s*+[\"']?(?:(?:bearer|basic|token|bot)\s++)?"
    r"|\bbearer\s++"
    r"|\baws_?secret_?access_?key\b[\"']?\s*+[:=]\s*+[\"']?)([^\s\"',;]{6,}+)"
)
LOGIN = re.compile(r"(://)[^\s/@:\"']*+:[^\s/\"']+@")
"""A name and a password in an address, such as a proxy's."""
_PLACES = re.compile(r":[A-Za-z0-9_-]{30}|\.[A-Za-z0-9_-]{6}\.")
"""Quick test for the two shapes without a fixed prefix: Telegram's and Discord's."""
_WORDS = (
    "-----BEGIN",
    "sk-",
    *("ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
    "github_pat_",
    "glpat-",
    "xox",
    "xapp-",
    "mfa.",
    *("AKIA", "ASIA"),
    "AIza",
    "eyJ",
)
SHORTEST_SHOWN = 8
SURELY_NO_WORD = 20
_NAMES = ("authorization", "bearer", "aws")
_SECRET_NAME = re.compile(
    r"(?i)(^|[_-])(token|secret|password|passwd|api_?key|access_?key|authorization|cookie)$"
)


def redact(text: str) -> str:
    """Redact by shape alone, for texts that are shown before any secret is known."""
    if text.isascii() and not _may_hold_shapes(text):
        return text
    text = LOGIN.sub(rf"\1{MARK}@", text)
    return NAMED.sub(rf"\1{MARK}", _SHAPE.sub(MARK, text))


def _may_hold_shapes(text: str) -> bool:
    """Tell quickly whether a text may hold a secret; nearly none does. ASCII only: other letters change case differently."""
    if any(word in text for word in _WORDS) or _PLACES.search(text) or ("://" in text and "@" in text):
        return True
    small = text.lower()
    return any(name in small for name in _NAMES)


def names_secret(name: str) -> bool:
    """Tell whether a field of this name holds a secret."""
    return bool(_SECRET_NAME.search(name))


def looks_secret(value: str) -> bool:
    """Tell whether a value cannot be meant otherwise in a message: no word, no place. `postgres` may be a password."""
    if len(value) < SHORTEST_SHOWN or value.startswith("/") or "://" in value:
        return False
    mixed = any(map(str.isalpha, value)) and any(map(str.isdigit, value))
    return mixed or len(value) >= SURELY_NO_WORD


class Redactor:
    """Redacts exact values too. `add` may be called at any time, as after a reload."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._spellings: set[str] = set()
        self._values: set[str] = set()
        self._exact: re.Pattern[str] | None = None
        self.add(*secrets)

    def add(self, *secrets: str) -> None:
        for secret in secrets:
            if len(secret.strip()) >= SHORTEST:
                self._spellings.update(_spellings(secret))
                self._values.add(secret.strip())
        if self._spellings:
            longest_first = sorted(self._spellings, key=lambda spelling: (-len(spelling), spelling))
            self._exact = re.compile("|".join(map(re.escape, longest_first)))

    def redact(self, text: str) -> str:
        known = self._exact.sub(MARK, text) if self._exact else text
        return known if len(known) < SHORTEST_SHAPE else redact(known)

    def redact_known(self, text: str) -> str:
        """Redact exact values alone: people may have asked for a text that only looks like a secret.

        A text may still grow: the beginning of a value at its end counts too.
        """
        if self._exact and any(spelling in text for spelling in self._spellings):
            text = self._exact.sub(MARK, text)
        for value in self._values:
            at = text.rfind(value[:SHORTEST_START])
            if at >= 0 and len(value) > SHORTEST_START and value.startswith(text[at:]):
                text = text[:at] + MARK
        return text


def _spellings(secret: str) -> Iterator[str]:
    yield secret
    yield secret.strip()
    for ascii_only in (True, False):
        yield json.dumps(secret, ensure_ascii=ascii_only)[1:-1]
    yield repr(secret)[1:-1]
    yield ascii(secret)[1:-1]
    yield repr(secret + "\"'")[1:-4]  # as inside a longer text with both kinds of quotes
    data = secret.encode("utf-8", "surrogatepass")
    for quoted in (quote(data), quote(data, safe=""), quote_plus(data)):
        yield quoted
        yield re.sub("%..", lambda found: found[0].lower(), quoted)
    yield from _inside_base64(data)
    yield data.hex()


def _inside_base64(data: bytes) -> Iterator[str]:
    """Yield the base64 forms of the data inside longer data: three alignments to the three-byte groups."""
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        yield encode(data).decode().rstrip("=")
        for shift in range(3):
            whole = encode(b"\0" * shift + data).decode()
            first = (shift * 8 + 5) // 6
            last = (shift + len(data)) * 8 // 6
            if last - first >= SHORTEST_INSIDE:
                yield whole[first:last]
