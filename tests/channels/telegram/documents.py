"""Markdown documents made at random, as agents write it and as nobody should: every word in them can be found again.

A word is `w` and six digits, each used once and in order; `c` and six digits is one in a block of code. `hostile`
adds what breaks documents: marks without partners, fences that never close, tables that are none.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count

EMOJI = ("👩🏽‍🚀", "🇩🇪", "👍🏽", "é", "e\u0301", "中文字", "😀" * 5)
RTL = ("مرحبا بالعالم", "שלום עולם", "\u202eabc\u202c")
LANGUAGES = ("", "python", "sh", "c++", "diff", "objective-c")
GOOD_LINKS = (
    "https://example.com/a?b=c#d",
    "http://127.0.0.1:8000/x",
    "https://例え.jp/パス",
    "mailto:somebody@example.com",
)
BAD_LINKS = (
    "./src/app.py#L10",
    "http://localhost:8000/x",
    "javascript:alert(1)",
    "file:///etc/passwd",
    "http://a.com:99999/",
    "https://user:pw@example.com/",
    "https://a.com/\u202egpj.exe",
    "tg://user?id=1",
    "data:text/html,x",
    "http://a..b|c/",
    "https://" + "a" * 5000 + ".com",
    "<>",
    "",
    "tel:+1",
    "\\",
)
JUNK = (
    *"*_`~[]()<>|#!\\&-+.$",
    *("**", "__", "```", "~~~", "||", "](", "![", "<!--", "-->", "<b>", "</", "&amp;", "&#0;", "\\*"),
    *("[x]: y", "[^1]", "    ", "\t", "> ", "- ", "1. ", "***", "|-|-|", "\u200b", "\u200d", "\ufeff", "\r"),
    *("__init__.py", "**/*.py", "2*3*4", "List<int>", "a || b", "$5 and $10", "@name #tag /start"),
)


@dataclass
class Document:
    source: str
    words: list[str] = field(default_factory=list)
    code: dict[str, str] = field(default_factory=dict)
    """Each word in a block of code, and that block's language."""


def make_document(rng: random.Random, *, hostile: bool) -> Document:
    maker = _Maker(rng, hostile)
    blocks = [maker.block(0) for _ in range(rng.randint(1, 12))]
    if hostile and rng.random() < 0.3:
        blocks.append("```" + rng.choice(("", "py", "a b c", "`")) + "\n" + maker.line())
    source = maker.between().join(blocks)
    return Document(source, maker.words, maker.code)


class _Maker:
    def __init__(self, rng: random.Random, hostile: bool) -> None:
        self.rng = rng
        self.hostile = hostile
        self.words: list[str] = []
        self.code: dict[str, str] = {}
        self._numbers = count()
        self._blocks: Mapping[Callable[[int], str], int] = {
            self._paragraph: 6,
            self._list: 4,
            self._fence: 3,
            self._table: 2,
            self._quote: 2,
            self._heading: 2,
            self._rule: 1,
            self._long: 1,
        }

    def between(self) -> str:
        return self.rng.choice(("\n\n", "\n\n\n", "\n")) if self.hostile else "\n\n"

    def block(self, depth: int) -> str:
        kinds = list(self._blocks)
        weights = list(self._blocks.values())
        if depth > 3:
            return self._paragraph(depth)
        return self.rng.choices(kinds, weights)[0](depth)

    def line(self) -> str:
        return " ".join(self._inline() for _ in range(self.rng.randint(1, 8)))

    def _word(self) -> str:
        word = f"w{next(self._numbers):06d}"
        self.words.append(word)
        return word

    def _inline(self) -> str:
        pick = self.rng.random()
        if pick < 0.45:
            return self._word()
        if pick < 0.6:
            mark = self.rng.choice(("*", "**", "_", "~~", "***", "`"))
            return f"{mark}{self._word()} {self._word()}{mark}"
        if pick < 0.72:
            url = self.rng.choice(GOOD_LINKS if self.rng.random() < 0.5 else BAD_LINKS)
            return f"{self.rng.choice(('', '!'))}[{self._word()}]({url})"
        if pick < 0.8:
            return self.rng.choice(EMOJI)
        if pick < 0.85:
            return self.rng.choice(RTL)
        if self.hostile and pick < 0.97:
            return "".join(self.rng.choices(JUNK, k=self.rng.randint(1, 4)))
        return f"{self._word()}, {self._word()}."

    def _paragraph(self, depth: int) -> str:
        return "\n".join(self.line() for _ in range(self.rng.randint(1, 4)))

    def _heading(self, depth: int) -> str:
        return "#" * self.rng.randint(1, 6) + " " + self.line()

    def _rule(self, depth: int) -> str:
        return self.rng.choice(("---", "***"))

    def _long(self, depth: int) -> str:
        """A line without an end; sometimes one of 100 kB, which only a file can hold."""
        if self.rng.random() < 0.06:
            return " ".join(self._word() for _ in range(12_500))
        return "".join(self._word() for _ in range(self.rng.randint(50, 900)))

    def _fence(self, depth: int) -> str:
        fence, language = self.rng.choice(("```", "~~~~")), self.rng.choice(LANGUAGES)
        lines = [self._code_line(language) for _ in range(self.rng.choice((1, 3, 30, 300)))]
        return "\n".join([fence + language, *lines, fence])

    def _code_line(self, language: str) -> str:
        word = f"c{next(self._numbers):06d}"
        self.words.append(word)
        self.code[word] = language
        return " " * self.rng.randint(0, 8) + word + self.rng.choice(("", " = 1", " **x** [a](b)", " 😀"))

    def _list(self, depth: int) -> str:
        ordered = self.rng.random() < 0.4
        items: list[str] = []
        for number in range(1, self.rng.randint(2, 5)):
            marker = f"{number}. " if ordered else self.rng.choice(("- ", "- [ ] ", "- [x] "))
            body = self.line()
            if self.rng.random() < 0.3:
                body += "\n\n" + self.block(depth + 2)
            pad = " " * (3 if ordered else 2)
            items.append(marker + body.replace("\n", f"\n{pad}"))
        return "\n".join(items)

    def _table(self, depth: int) -> str:
        """Its head has no words of ours: where it is too wide, each row says the head again."""
        columns = self.rng.randint(1, 5)
        head = [self.rng.choice(("Name", "A rather long column", "日本", "x")) for _ in range(columns)]
        rows = [
            [self.rng.choice((self._word, lambda: ""))() for _ in range(columns)]
            for _ in range(self.rng.randint(0, 6))
        ]
        lines = [head, [self.rng.choice(("---", ":-:", "--:")) for _ in range(columns)], *rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)

    def _quote(self, depth: int) -> str:
        return "> " + self.block(depth + 1).replace("\n", "\n> ")
