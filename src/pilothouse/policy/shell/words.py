"""Reads a word of a command: the text that the program gets, and whether that is known before it runs.

Rules: a character that a shell might read in another way than we do makes the word dynamic; what a pattern may expand
to is left to whoever asks; the text of a dynamic word keeps everything that stands in it.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from pilothouse.policy.script import Form, Word

if TYPE_CHECKING:
    from tree_sitter import Node as TreeNode

WORDS = frozenset(
    {"word", "number", "string", "raw_string", "concatenation", "ansi_c_string", "translated_string"}
    | {
        "simple_expansion",
        "expansion",
        "command_substitution",
        "process_substitution",
        "arithmetic_expansion",
    }
    | {"brace_expression", "extglob_pattern", "regex"}
)
"""The grammar's kinds of nodes that may be a word."""
SIMPLEST = re.compile(rb"[A-Za-z0-9_@%+:,./\-][A-Za-z0-9_@%+:,./=^\-]*")
SIMPLEST_ROW = re.compile(
    rb"[A-Za-z_./][A-Za-z0-9_@%+:,./\-]*(?: [A-Za-z0-9_@%+:,./\-][A-Za-z0-9_@%+:,./=^\-]*)*"
)
"""A program and words that no shell changes, separated by blanks. `=` in the first would set a variable."""
_ORDINARY = re.compile(r"[A-Za-z0-9_@%+=:,./~^#!*?\[\]{}\-]*")
_BRACES = re.compile(r"\{[A-Za-z0-9_^\-]*\}")
"""Braces that a shell does not expand: `{}`, `@{u}`, `HEAD@{1}`."""
_SPECIAL = re.compile(r'[\\"`$]')
_BRACE = re.compile(r"[{}]")
_MAGIC = re.compile(r"[*?\[]")
_LITERAL_DOLLAR = re.compile(r'\$(?=[ |)/"]|$)')
_ANSI = re.compile(r"\\(x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{1,4}|U[0-9A-Fa-f]{1,8}|[0-7]{1,3}|.)", re.DOTALL)
_ANSI_NAMES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b"}


def read_word(node: TreeNode, source: bytes) -> Word:
    """Read a node of any kind; an unknown one is dynamic."""
    if node.type == "word":
        raw = source[node.start_byte : node.end_byte]
        if SIMPLEST.fullmatch(raw):
            return Word(raw.decode("ascii"))
    parts = node.children if node.type == "concatenation" else [node]
    texts: list[str] = []
    bare: list[str] = []  # text outside of quotes: only there wildcards and braces have a meaning
    forms: set[Form] = set()
    end = node.start_byte
    for part in parts:
        if part.start_byte != end:  # never seen; a gap would mean two words
            forms.add("dynamic")
        end = part.end_byte
        text, form, outside = _read_part(part, source[part.start_byte : part.end_byte].decode("utf-8"))
        texts.append(text)
        bare.append(outside)
        forms.add(form)
    whole = "".join(texts)
    return Word(whole, _form(forms, "".join(bare)))


def _form(forms: set[Form], bare: str) -> Form:
    if "dynamic" in forms or _BRACE.search(_BRACES.sub("", bare)) or bare.startswith("="):
        return "dynamic"
    glob = _MAGIC.search(bare) is not None
    if bare.startswith("~"):
        return "home" if (bare == "~" or bare.startswith("~/")) and not glob else "dynamic"
    return "glob" if glob else "plain"


def _read_part(part: TreeNode, raw: str) -> tuple[str, Form, str]:
    """Return text, form, and the text outside of quotes, with `\\0` for each quoted character."""
    match part.type:
        case "word" | "number" | "extglob_pattern" | "regex":
            return _read_bare(raw)
        case "raw_string":
            closed = len(raw) >= 2 and raw[0] == raw[-1] == "'" and "'" not in raw[1:-1]
            return raw[1:-1], "plain" if closed and _is_visible(raw) else "dynamic", "\0"
        case "string":
            return _read_string(part, raw)
        case "ansi_c_string":
            return _ANSI.sub(_ansi, raw[2:-1]), "dynamic", "\0"
        case _:
            return raw, "dynamic", "\0"


def _read_bare(raw: str) -> tuple[str, Form, str]:
    if "\\" not in raw:
        return raw, "plain" if _is_ordinary(raw) else "dynamic", raw
    text, bare, dynamic, rest = "", "", False, iter(raw)
    for char in rest:
        if char != "\\":
            text += char
            bare += char
            dynamic = dynamic or not _is_ordinary(char)
            continue
        escaped = next(rest, "")
        dynamic = dynamic or not escaped or not _is_visible(escaped)
        text += "" if escaped == "\n" else escaped
        bare += "\0"
    return text, "dynamic" if dynamic else "plain", bare


def _read_string(part: TreeNode, raw: str) -> tuple[str, Form, str]:
    inner = raw[1:-1] if len(raw) >= 2 and raw.endswith('"') else raw[1:]
    known = {'"', "string_content", "$"}
    dynamic = not raw.endswith('"') or len(raw) < 2 or any(child.type not in known for child in part.children)
    if not _SPECIAL.search(inner):
        return inner, "dynamic" if dynamic or not _is_visible(inner) else "plain", "\0"
    text = ""
    at = 0
    while at < len(inner):
        char = inner[at]
        if char == "\\" and at + 1 < len(inner):
            after = inner[at + 1]
            text += after if after in '"\\$`' else "" if after == "\n" else char + after
            at += 2
            continue
        if char in '"`' or (char == "$" and not _LITERAL_DOLLAR.match(inner, at)):
            dynamic = True
        text += char
        at += 1
    return text, "dynamic" if dynamic or not _is_visible(text) else "plain", "\0"


def _is_ordinary(text: str) -> bool:
    """Tell whether all characters are visible and have no meaning to a shell; letters of every language count."""
    if _ORDINARY.fullmatch(text):
        return True
    return all(
        _ORDINARY.fullmatch(c) or (ord(c) > 127 and unicodedata.category(c)[0] in "LNPSM") for c in text
    )


def _is_visible(text: str) -> bool:
    """Tell whether no character hides or reorders others."""
    return text.isascii() or all(
        unicodedata.category(c) not in ("Cf", "Cc", "Co", "Cn", "Zl", "Zp") for c in text
    )


def _ansi(match: re.Match[str]) -> str:
    body = match[1]
    if body[0] in "xuU":
        return _char(body[1:], 16) if len(body) > 1 else body
    if body[0] in "01234567":
        return _char(body, 8)
    return _ANSI_NAMES.get(body, body)


def _char(digits: str, base: int) -> str:
    code = int(digits, base)
    return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else ""
