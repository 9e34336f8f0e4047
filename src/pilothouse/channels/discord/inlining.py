"""Text files as a part of the prompt: in a fence that they cannot close, without what could hide a word, and bounded.

What does not fit is not lost: whoever inlines keeps the file, too, and says so.
"""

from __future__ import annotations

import codecs
import re

from msgspec import Struct

FILE_BYTES = 100 << 10
TOTAL_BYTES = 190_000
"""Of all files of a message: with the words around them they stay below `gateway.max_message_chars`."""
LEAST_BYTES = 1000
"""The beginning of a file is shown only where it may be at least so long."""

_TEXT_TYPES = re.compile(
    r"text/.*|application/(?:[\w.-]+\+)?(?:json|xml|yaml|toml|javascript|typescript|sql|graphql|x-sh|x-yaml|x-ndjson)"
    r"|image/svg\+xml|application/x-(?:httpd-php|python|ruby|perl|tex|subrip)"
)
_TEXT_ENDINGS = re.compile(
    "txt|md|rst|org|log|csv|tsv|json|jsonl|ndjson|json5|yaml|yml|toml|ini|cfg|conf|env|properties"
    "|xml|svg|html|htm|css|scss|less|js|mjs|cjs|jsx|ts|tsx|vue|svelte|py|pyi|ipynb|rb|php|pl|lua|r"
    "|jl|go|rs|c|h|cc|cpp|hpp|cs|java|kt|kts|scala|swift|m|mm|dart|ex|exs|erl|hs|ml|clj|lisp|el|vim"
    "|sh|bash|zsh|fish|ps1|bat|cmd|sql|graphql|proto|tf|nix|dockerfile|makefile|cmake|gradle|diff"
    "|patch|tex|bib|srt|vtt|lock|gitignore|editorconfig"
)
_CUT = "[Only the beginning of {} is shown here; the whole file is attached.]"
_LANGUAGE = re.compile(r"[a-z0-9+#]{1,12}")
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
"""Control characters but for tab and newline, and marks that turn the direction of what follows."""


class Inlined(Struct, frozen=True):
    text: str
    whole: bool


class Inliner:
    """Those of one message: they share what there is room for."""

    def __init__(self) -> None:
        self._room = TOTAL_BYTES

    def inline(self, name: str, text: str) -> Inlined | None:
        """None where there is no room left for any of it."""
        begin = text[: FILE_BYTES + 1].replace("\r\n", "\n").replace("\r", "\n")
        data = _HIDDEN.sub("", begin).encode()
        most = min(FILE_BYTES, self._room)
        whole = len(text) <= FILE_BYTES and len(data) <= most
        if not whole and most < LEAST_BYTES:
            return None
        shown = data[:most].decode(errors="ignore")
        self._room -= len(shown.encode())
        block = f"{name}:\n{_fenced(name, shown)}"
        return Inlined(block if whole else f"{block}\n{_CUT.format(name)}", whole)


def text_of(name: str, media_type: str, data: bytes) -> str | None:
    """What a text file says; None if it is none, by its type and name or by its bytes."""
    announced, ending = media_type.partition(";")[0].strip().lower(), _ending(name)
    if not (_TEXT_TYPES.fullmatch(announced) or _TEXT_ENDINGS.fullmatch(ending)):
        return None
    encoding = "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _fenced(name: str, text: str) -> str:
    runs = re.findall(r"`{3,}", text)
    marks = "`" * max([3, *(len(run) + 1 for run in runs)])
    language = _ending(name) if "." in name and _LANGUAGE.fullmatch(_ending(name)) else ""
    return f"{marks}{language}\n{text}{'' if text.endswith(chr(10)) else chr(10)}{marks}"


def _ending(name: str) -> str:
    """Without a dot it is the whole name: `Makefile` is a kind of its own."""
    return name.lower().rpartition(".")[2]
