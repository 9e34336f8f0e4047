"""Defines a parsed command, and reads its words: the text that the program gets, and whether that is known before it runs.

A rule that forbids reads every segment of a script, nested ones too; a rule that allows wants a script without oddities.
A character that bash and zsh might read in different ways makes a word dynamic; what a pattern means is left to the caller;
the text of a dynamic word keeps everything that stands in it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Literal, Self

from msgspec import Struct

Form = Literal["plain", "home", "glob", "pattern", "status", "dynamic"]


class Word(Struct, frozen=True, gc=False):
    """`plain`: the text is what the program gets. `home`: it begins with `~/`. `status`: it contains `$?`. `glob`: names of
    files with `*`; `pattern`: any other pattern, about which shells differ. Of a `dynamic` word the text is as written."""

    text: str
    form: Form = "plain"


class Redirect(Struct, frozen=True, gc=False):
    """A redirection. The target of `<<` and `<<<` is the text itself; `2>&1` has none."""

    op: str
    target: Word | None = None

    @property
    def changes(self) -> bool:
        return self.op not in ("<", "<<", "<<<") and self.target is not None


class Segment(Struct, frozen=True, cache_hash=True, gc=False):
    """One command: a program and its words, redirections, and variables set for it alone."""

    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...] = ()
    assignments: tuple[Word, ...] = ()

    @property
    def name(self) -> str:
        return self.words[0].text if self.words else ""

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple([word.text for word in self.words])


class Group(Struct, frozen=True):
    """Commands in parentheses. They run in their own shell, so a `cd` in it has no effect outside."""

    items: Items
    redirects: tuple[Redirect, ...] = ()


Items = tuple[tuple[str, Segment | Group], ...]
"""Commands in the order of the text, each with the operator before it: none, `;`, `&&`, `||` or `|`."""


class Script(Struct, frozen=True):
    """A parsed command text. `nested` holds segments inside substitutions, here-documents and lists of a loop."""

    items: Items = ()
    nested: tuple[Segment, ...] = ()
    oddities: tuple[str, ...] = ()
    """Reasons why the script may do more than its segments say; empty for a plain script."""
    uncertain: bool = False
    """The segments may be incomplete: the text is too long, or shells may read it differently."""

    def segments(self) -> Iterator[Segment]:
        yield from _segments(self.items)
        yield from self.nested


def _segments(items: Items) -> Iterator[Segment]:
    for _, item in items:
        if isinstance(item, Segment):
            yield item
            continue
        if item.redirects:
            yield Segment((), item.redirects)
        yield from _segments(item.items)


MAX_DEPTH = 20
"""Parentheses and substitutions within each other."""

SUBSTITUTION = "runs a command inside another"
VARIABLE = "depends on a variable"
DYNAMIC = "contains a word that is only known at run time"
NAMELESS = "the name of its program is quoted or put together"
UNREADABLE = "cannot be read as a shell command"
TOO_DEEP = "is nested too deeply"
_BARE = re.compile(r"[A-Za-z0-9_@%+:,./=^~#!\-]+")
NAME = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_@%+:,./\-]*|\[|:")
_VARIABLE = re.compile(r"\$(?:[A-Za-z_]\w*|[@*#$!0-9\-])", re.ASCII)
_BRACES = re.compile(r"\{[A-Za-z0-9_^\-]*\}")
"""Braces that no shell expands: `{}`, `@{u}`, `HEAD@{1}`."""
_ANSI = re.compile(r"(?:[^\\']|\\.)*'", re.DOTALL)
_TEXT = re.compile(r"[^\"\\$`]+")
_HIDDEN = ("Cf", "Cc", "Co", "Cn", "Cs", "Zl", "Zp")


Found = tuple[dict[str, None], list[Segment]]
"""Oddities, and nested segments."""


class WordReader:
    """Reads words of one text. `_at` is the next character; `_oddities` and `_nested` collect what is found."""

    _read_list: Callable[[str], Items]
    """Reads commands up to the closing parenthesis, or to the end."""

    def __init__(self, text: str, found: Found | None = None, depth: int = 0) -> None:
        self._text = text
        self._at = 0
        self._depth = depth
        self._oddities, self._nested = found or ({}, [])

    def _odd(self, why: str) -> None:
        self._oddities[why] = None

    def _within(self, text: str) -> Self:
        """Make a reader for a text inside of this one."""
        return type(self)(text, (self._oddities, self._nested), self._depth + 1)

    def _inner(self) -> Items:
        """Read the commands between parentheses."""
        if self._depth >= MAX_DEPTH:
            self._stop()
            return ()
        self._depth += 1
        items = self._read_list(")")
        self._depth -= 1
        return items

    def _stop(self) -> None:
        self._odd(TOO_DEEP)
        self._at = len(self._text)

    def _word(self, *, name: bool = False) -> Word:
        """Read one word, however it is quoted. Note why it is not plain."""
        text = self._text
        texts: list[str] = []
        bare: list[str] = []  # outside of quotes, where wildcards and braces count; `\0` for the rest
        dynamic = status = False
        while self._at < len(text) and (char := text[self._at]) not in " \t\n;|&)":
            if found := _BARE.match(text, self._at):
                self._at = found.end()
                texts.append(found[0])
                bare.append(found[0])
                continue
            if char == "(" or (char in "<>" and not text.startswith("(", self._at + 1)):
                break
            start = self._at
            piece, known = self._piece(char)
            status = status or piece == "$?"
            if char == '"' and known is None:
                known, status = True, True
            dynamic = dynamic or not known
            texts.append(piece)
            bare.append(piece if char in "*?[]{}" or ord(char) > 127 else "\0")
            if self._at == start:
                self._at += 1
        whole, outside = "".join(texts), "".join(bare)
        form = "dynamic" if dynamic else _form(whole, outside, status=status)
        if form == "dynamic" and not dynamic:
            self._odd(DYNAMIC)
        if name and (form != "plain" or not NAME.fullmatch(outside)):
            self._odd(NAMELESS)
        return Word(whole, form)

    def _piece(self, char: str) -> tuple[str, bool | None]:
        """Read a part of a word; return its text, and whether it is known. None: it is, but for the status."""
        text, begin = self._text, self._at
        if char == "'":
            end = text.find("'", begin + 1)
            if end < 0:
                self._odd(UNREADABLE)
            self._at = end + 1 if end >= 0 else len(text)
            piece = text[begin + 1 : end if end >= 0 else len(text)]
            return piece, self._visible(piece)
        if char == '"':
            self._at += 1
            return self._string()
        if char == "\\":
            self._at += 2
            escaped = text[begin + 1 : begin + 2]
            if not escaped:
                self._odd(UNREADABLE)
            return "" if escaped == "\n" else escaped, self._visible(escaped)
        if char == "$":
            return self._dollar()
        if char == "`":
            return self._backquoted()
        if char in "<>":
            self._at += 2
            self._odd(SUBSTITUTION)
            self._substitution()
            return text[begin : self._at], False
        self._at += 1
        known = char in "*?[]{}" or (ord(char) > 127 and unicodedata.category(char)[0] in "LNPSM")
        if not known:
            self._odd(DYNAMIC)
        return char, known

    def _visible(self, text: str) -> bool:
        """Tell whether no character hides or reorders others."""
        if text.isascii() or not any(unicodedata.category(char) in _HIDDEN for char in text):
            return True
        self._odd(DYNAMIC)
        return False

    def _string(self, *, closed: bool = True) -> tuple[str, bool | None]:
        """Read up to the closing quote; of a here-document, up to the end."""
        texts: list[str] = []
        known, status, text = True, False, self._text
        while self._at < len(text):
            if found := _TEXT.match(text, self._at):
                texts.append(found[0])
                self._at = found.end()
                continue
            char, after = text[self._at], text[self._at + 1 : self._at + 2]
            if char == '"':
                self._at += 1
                if closed:
                    break
                continue
            if char == "\\":
                self._at += 2
                texts.append(after if after in '"\\$`' else "" if after == "\n" else char + after)
                continue
            piece, plain = self._dollar(quoted=True) if char == "$" else self._backquoted()
            texts.append(piece)
            status = status or piece == "$?"
            known = known and bool(plain)
        else:
            if closed:
                self._odd(UNREADABLE)
                known = False
        whole = "".join(texts)
        known = known and self._visible(whole)
        return whole, None if known and status else known

    def _dollar(self, *, quoted: bool = False) -> tuple[str, bool]:
        text, begin = self._text, self._at
        after = text[begin + 1 : begin + 2]
        if after == "?":
            self._at += 2
            return "$?", True
        if after == "(":
            self._at += 2
            self._odd(SUBSTITUTION)
            self._substitution()
        elif after == "{":
            self._odd(VARIABLE)
            self._at += 2
            self._until("}")
        elif not quoted and after == "'" and (found := _ANSI.match(text, begin + 2)):
            self._odd(DYNAMIC)
            self._at = found.end()
        elif found := _VARIABLE.match(text, begin):
            self._odd(VARIABLE)
            self._at = found.end()
        else:
            self._at += 1
            if not after or after in (' |)/"' if quoted else " |)/\t\n;&"):
                return "$", True
            self._odd(DYNAMIC)
        return text[begin : self._at], False

    def _substitution(self) -> None:
        self._nested += Script(self._inner()).segments()

    def _backquoted(self) -> tuple[str, bool]:
        text, begin, at = self._text, self._at, self._at + 1
        while at < len(text) and text[at] != "`":
            at += 2 if text[at] == "\\" else 1
        self._at = min(at + 1, len(text))
        self._odd(SUBSTITUTION if at < len(text) else UNREADABLE)
        if self._depth >= MAX_DEPTH:
            self._stop()
            return "", False
        inner = re.sub(r"\\([\\`$])", r"\1", text[begin + 1 : at])
        self._nested += Script(self._within(inner)._read_list("")).segments()
        return text[begin : self._at], False

    def _until(self, closer: str) -> None:
        """Skip to the closing bracket, over quotes and brackets; find the substitutions on the way."""
        if self._depth >= MAX_DEPTH:
            self._stop()
            return
        self._depth += 1
        text, opened = self._text, 0
        opener = "(" if closer == ")" else "{"
        while self._at < len(text):
            char = text[self._at]
            if char == closer and not opened:
                self._at += 1
                self._depth -= 1
                return
            if char in "'\"\\$`":
                self._piece(char)
                continue
            opened += 1 if char == opener else -1 if char == closer else 0
            self._at += 1
        self._depth -= 1
        self._odd(UNREADABLE)


def _form(whole: str, bare: str, *, status: bool) -> Form:
    """Tell how a word is to be read. `bare` is the part outside of quotes, with `\\0` for each quoted part."""
    if bare[:1] == "=" or "{" in bare or "}" in bare:
        left = _BRACES.sub("", bare)
        if bare[:1] == "=" or "{" in left or "}" in left:
            return "dynamic"
    wild = any(sign in bare for sign in "*?[") and whole not in ("[", "[[")
    if bare[:1] == "~":
        return "home" if (bare == "~" or bare[:2] == "~/") and not wild else "dynamic"
    if whole[:1] == "~":
        return "dynamic"
    if wild:
        simple = bare == whole and bare.isascii() and not re.search(r"[?\[#^!~]|\*\*", bare)
        return "glob" if simple and not status else "pattern"
    return "status" if status else "plain"
