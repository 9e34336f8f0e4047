"""Reads the text of a shell command, in one pass and with one reading.

Plain is what bash and zsh read alike: words, quotes, `&&`, `||`, `|`, `;`, lines, parentheses and redirections. Everything
else is an oddity, and a command with an oddity is never allowed by itself. The commands inside of it are still found, for
rules that deny or ask; a text that cannot be followed to its end is `uncertain`. Never raises; takes linear time.
"""

from __future__ import annotations

import re

from pilothouse.policy.script import (
    MAX_DEPTH,
    NAME,
    TOO_DEEP,
    UNREADABLE,
    Found,
    Group,
    Items,
    Redirect,
    Script,
    Segment,
    Word,
    WordReader,
)

MAX_CHARS = 100_000
ASSIGNMENT = "sets a variable"
DOCUMENT = "feeds a text to a command (<<)"
LINE_JOIN = "joins lines with a backslash, which shells read differently"
_UNCERTAIN = frozenset({UNREADABLE, LINE_JOIN, TOO_DEEP})

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_END = r"(?=[ \t\n;|&)]|\Z)"
_SIMPLE = re.compile(rf"[ \t]*([A-Za-z0-9_@%+:,./\-][A-Za-z0-9_@%+:,./=^\-]*){_END}")
_QUOTED = re.compile(rf"[ \t]*(?:'([ -&(-}}\n]*)'|\"([ !#%-\[\]-_a-}}\n]+)\"){_END}")
"""The two kinds of words that nearly all words are; they have no second reading."""
_JOINT = re.compile(r"&&|\|\||\|&|\||;;&|;;|;&|;|\n|&(?!>)")
_JOINTS = {"&&": "&&", "||": "||", "|": "|", "|&": "|"}
_REDIRECT = re.compile(r"(\d*)(<<<|<<-|<<|<>|<&|>&|>>|>\||<(?!\()|>(?!\())|(&>>|&>)")
_KEYWORD = re.compile(r"(if|then|elif|else|fi|while|until|do|done|\{|\}|!)(?=[ \t\n;|&()<>]|\Z)")
_COMPOUND = {
    **dict.fromkeys(["if", "then", "elif", "else", "fi", "case", "[["], "contains a condition"),
    **dict.fromkeys(["while", "until", "do", "done", "for", "select"], "contains a loop"),
    **dict.fromkeys(["{", "}"], "groups commands"),
}
_ASSIGNED = re.compile(r"[A-Za-z_]\w*(?:\[[^\]\n]*\])?\+?=", re.ASCII)


def parse_shell(command: str) -> Script:
    """Parse a command text. Never raises: an unreadable text is a script with an oddity."""
    text = command.strip(" \t\n")
    if len(text) > MAX_CHARS:
        return Script(oddities=(f"is longer than {MAX_CHARS} characters",), uncertain=True)
    return _Reader(text).script()


class _Reader(WordReader):
    """Reads one text once."""

    def __init__(self, text: str, found: Found | None = None, depth: int = 0) -> None:
        super().__init__(text, found, depth)
        self._read_list = self._list
        self._documents: list[tuple[str, bool, bool]] = []

    def script(self) -> Script:
        if "\\\n" in self._text:
            self._odd(LINE_JOIN)
        if _CONTROL.search(self._text):
            self._odd(UNREADABLE)
        items = self._list("")
        uncertain = not _UNCERTAIN.isdisjoint(self._oddities)
        return Script(items, tuple(self._nested), tuple(self._oddities), uncertain)

    def _blanks(self) -> str:
        """Skip blanks, joined lines and a comment; return the next character, empty at the end."""
        text, at = self._text, self._at
        while at < len(text):
            if text[at] in " \t":
                at += 1
            elif text.startswith("\\\n", at):
                at += 2
            elif text[at] == "#":
                end = text.find("\n", at)
                at = len(text) if end < 0 else end
            else:
                break
        self._at = at
        return text[at : at + 1]

    def _list(self, closer: str) -> Items:
        """Read commands up to the closing parenthesis, or to the end."""
        items: list[tuple[str, Segment | Group]] = []
        joint, ready = "", False
        while char := self._blanks():
            if char == ")":
                self._at += 1
                if closer:
                    closer = ""
                    break
                self._odd(UNREADABLE)
                continue
            if found := _JOINT.match(self._text, self._at):
                self._at = found.end()
                sign = found[0]
                self._note(sign)
                if not ready and sign != "\n":
                    self._odd(UNREADABLE)
                joint, ready = joint if sign == "\n" and not ready else _JOINTS.get(sign, ";"), False
                continue
            if ready:
                self._odd(UNREADABLE)
                joint = ";"
            item = self._item()
            ready = item is not None
            if isinstance(item, Group) or (item and (item.words or item.redirects or item.assignments)):
                items.append((joint if items else "", item))
        if closer or (joint in ("&&", "||", "|") and not ready) or (self._documents and not self._depth):
            self._odd(UNREADABLE)
        return tuple(items)

    def _note(self, sign: str) -> None:
        if sign == "\n":
            self._read_documents()
        elif sign == "&":
            self._odd("runs something in the background (&)")
        elif sign in (";;", ";&", ";;&"):
            self._odd(UNREADABLE)  # a `case`, whose patterns are not read

    def _item(self) -> Segment | Group | None:
        """Read a command, a group or a keyword; None where a command must follow."""
        text = self._text
        if text.startswith("((", self._at):
            self._odd(UNREADABLE)  # arithmetic, or two groups
        if text[self._at] == "(":
            self._at += 1
            return Group(self._inner(), tuple(self._redirects()))
        found = _KEYWORD.match(text, self._at)
        if found is None:
            return self._command()
        word = found[0]
        self._at = found.end()
        if word != "!":
            self._odd(_COMPOUND[word])
        elif self._blanks() and re.compile(r"cd\b").match(text, self._at):
            self._odd("changes the folder after a negation (!)")
        return Segment((), tuple(self._redirects())) if word in ("fi", "done", "}") else None

    def _command(self) -> Segment:
        words: list[Word] = []
        redirects: list[Redirect] = []
        assignments: list[Word] = []
        text, begin = self._text, self._at
        while True:
            found = _SIMPLE.match(text, self._at)
            if found and (words or NAME.fullmatch(found[1])):
                words.append(Word(found[1]))
                self._at = found.end()
                continue
            if words and (found := _QUOTED.match(text, self._at)):
                words.append(Word(found[1] if found[1] is not None else found[2]))
                self._at = found.end()
                continue
            char = self._blanks()
            if not char or (char in "\n;|&)" and not text.startswith("&>", self._at)):
                break
            if char == "(":
                self._odd(UNREADABLE)  # a function, or a pattern of zsh
                break
            if redirect := self._redirect():
                redirects += redirect
            elif not words and (assigned := _ASSIGNED.match(text, self._at)):
                assignments.append(self._assignment(assigned.end()))
            else:
                words.append(self._word(name=not words))
        if words and words[0].text in _COMPOUND:
            self._odd(_COMPOUND[words[0].text])
        if self._at == begin:  # never seen; a reader that stands still would never end
            self._odd(UNREADABLE)
            self._at += 1
        return Segment(tuple(words), tuple(redirects), tuple(assignments))

    def _assignment(self, value_at: int) -> Word:
        self._odd(ASSIGNMENT)
        begin, self._at = self._at, value_at
        self._word()
        return Word(self._text[begin : self._at], "dynamic")

    def _redirects(self) -> list[Redirect]:
        found: list[Redirect] = []
        while self._blanks() and (more := self._redirect()):
            found += more
        return found

    def _redirect(self) -> list[Redirect]:
        """Read a redirection; empty if there is none. The text of a here-document follows on the next lines."""
        text = self._text
        found = _REDIRECT.match(text, self._at)
        if found is None:
            return []
        if self._at and text[self._at - 1] == "}":
            self._odd(ASSIGNMENT)  # `{NAME}>file` sets NAME
        if found[1] not in (None, "", "0", "1", "2") or found[2] == "<&":
            self._odd("opens another file descriptor")
        op = found[2] or found[3]
        self._at = found.end()
        char = self._blanks()
        if not char or char in "\n;|&)(!":
            self._odd(UNREADABLE)  # zsh reads `>!`, which overwrites
        begin = self._at
        target = self._word()
        if op in ("<<", "<<-"):
            raw = text[begin : self._at]
            self._odd(DOCUMENT)
            self._documents.append((target.text, raw == target.text, op == "<<-"))
            return [Redirect("<<", Word(""))]
        if op == "<<<":
            self._odd(DOCUMENT)
        if op in (">&", "<&") and target.text in ("0", "1", "2", "-"):
            return [Redirect(op)]
        return [Redirect(op, target)]

    def _read_documents(self) -> None:
        """Read the here-documents that begin on this line."""
        text = self._text
        for delimiter, expands, strips in self._documents:
            begin = last = self._at
            found = False
            while self._at < len(text) and not found:
                end = text.find("\n", self._at)
                end = len(text) if end < 0 else end
                line = text[self._at : end]
                found = (line.lstrip("\t") if strips else line) == delimiter
                last, self._at = self._at, min(end + 1, len(text))
            body = text[begin : last if found else len(text)]
            if not found:
                self._odd(UNREADABLE)
            self._nested.append(Segment((), (Redirect("<<", Word(body, "dynamic")),)))
            if expands and self._depth < MAX_DEPTH:
                self._within(body)._string(closed=False)
        self._documents.clear()
