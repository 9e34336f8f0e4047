"""Names of files, as everybody can take them. A name is a name, never a path, whatever somebody called it."""

from __future__ import annotations

import unicodedata

NAME_CHARS = 100


def safe_name(name: str, otherwise: str) -> str:
    """The last part of a path, without what a terminal or a file system would take for more than a letter."""
    return _clean(name.replace("\\", "/"), ".~-") or otherwise


def sent_name(name: str, otherwise: str) -> str:
    """Of a file that we send: it has its name from this machine, where a dot before it and a backslash in it are nothing
    odd. A backslash is a path elsewhere."""
    clean = _clean(name.replace("\\", "_"), "~-")
    return clean if clean.strip(". ") else otherwise


def _clean(path: str, no_first: str) -> str:
    last = path.rpartition("/")[2]
    clean = "".join(c for c in last if unicodedata.category(c)[0] != "C").strip().lstrip(no_first).strip()
    if len(clean) > NAME_CHARS:
        stem, dot, ending = clean.rpartition(".")
        ending = f".{ending}" if dot and len(ending) <= 10 else ""
        clean = (stem or clean)[: NAME_CHARS - len(ending)] + ending
    return clean
