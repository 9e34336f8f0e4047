"""Markdown documents made at random for whoever splits them: fences in every form, in lists and quotes, endless lines.

A word is `w` and six digits, each used once and in order; `c` and six digits is one in a block of code.
"""

from __future__ import annotations

import random
from itertools import count

from tests.channels.telegram.documents import Document, make_document

LANGUAGES = ("", "python", "sh", "c++", "objective-c")
FILLERS = ("中文字符", "😀" * 8, "👩🏽‍🚀", "🇩🇪🇫🇷", "e\u0301" * 5, "word", "@everyone", "<@123>", "a b c")


def make_fenced(rng: random.Random) -> Document:
    return _Maker(rng).document()


def make_any(seed: int) -> tuple[Document, bool]:
    """A document, and whether all of it is well formed, so that its code can be told from its words."""
    rng = random.Random(seed)
    match seed % 3:
        case 0:
            return make_fenced(rng), True
        case 1:
            return make_document(rng, hostile=False), False
        case _:
            return make_document(rng, hostile=True), False


class _Maker:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.words: list[str] = []
        self.code: dict[str, str] = {}
        self._numbers = count()

    def document(self) -> Document:
        blocks = [
            self.rng.choice((self._prose, self._prose, self._fence, self._fence, self._line, self._filler))()
            for _ in range(self.rng.randint(1, 14))
        ]
        if self.rng.random() < 0.2:
            blocks.append(self._fence().rpartition("\n")[0])  # one that nobody closes
        return Document("\n\n".join(blocks), self.words, self.code)

    def _prose(self) -> str:
        return "\n".join(self._sentence() for _ in range(self.rng.randint(1, 20)))

    def _sentence(self) -> str:
        fillers = (self.rng.choice(FILLERS) if self.rng.random() < 0.4 else "" for _ in range(12))
        return " ".join(f"{self._word()} {filler}".rstrip() for filler in fillers)

    def _line(self) -> str:
        """5 kB without a line break, with or without spaces."""
        gap = self.rng.choice(("", " "))
        return gap.join(self._word() for _ in range(self.rng.choice((100, 700))))

    def _filler(self) -> str:
        return self.rng.choice(FILLERS) * self.rng.choice((1, 300))

    def _fence(self) -> str:
        marks, language = self.rng.choice(("```", "````", "`````", "~~~", "~~~~")), self.rng.choice(LANGUAGES)
        lines = [self._code(marks, language) for _ in range(self.rng.choice((1, 4, 40, 200)))]
        block = "\n".join((marks + language, *lines, marks)).split("\n")
        match self.rng.randint(0, 5):
            case 0:
                return "\n".join(f"> {line}" for line in block)
            case 1:
                return "\n".join(("- " if not n else "  ") + line for n, line in enumerate(block))
            case 2:
                return "\n".join(f"   {line}" for line in block)
            case _:
                return "\n".join(block)

    def _code(self, marks: str, language: str) -> str:
        word = f"c{next(self._numbers):06d}"
        self.words.append(word)
        self.code[word] = language
        other = "~~~" if marks[0] == "`" else "```"
        inner = ["", " = 1", " 中文 😀", f" {other}python", " > quoted", "x" * 300]
        inner += [" ``` "] if len(marks) > 3 else []
        own_line = f"{other}\n" if self.rng.random() < 0.05 else ""
        return own_line + " " * self.rng.randint(0, 8) + word + self.rng.choice(inner)

    def _word(self) -> str:
        word = f"w{next(self._numbers):06d}"
        self.words.append(word)
        return word
