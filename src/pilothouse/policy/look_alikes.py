"""Letters that look like others: a word as a person sees it, whichever letters it is made of."""

from __future__ import annotations

import unicodedata

_ALIKE = str.maketrans(
    "аеорсухіјѕԁһӏԛԝαορνικτυΑΒΕΖΗΙΚΜΝΟΡΤΥΧАВЕКМНОРСТХЅІЈɡɑℓ‐‑‒–—−﹣－",
    "aeopcyxijsdhlqwaopviktuABEZHIKMNOPTYXABEKMHOPCTXSIJgal--------",
)


def fold(text: str) -> str:
    """As it looks to a person: look-alike letters, wide ones and invisible ones are the plain letter, or nothing."""
    if text.isascii():
        return text
    seen = unicodedata.normalize("NFKD", text).translate(_ALIKE)
    return "".join(c for c in seen if unicodedata.category(c) not in ("Mn", "Me", "Cf", "Cc", "Zs"))


def is_alike(text: str) -> bool:
    """Whether a word could be taken for a plain one: look-alike letters, wide ones, dashes that are no hyphen."""
    if text.isascii() or any(char.isspace() for char in text):
        return False
    return unicodedata.normalize("NFKC", text.translate(_ALIKE)).isascii()
