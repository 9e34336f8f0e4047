"""Markdown on a terminal: top-level blocks, each printed once while the rest still streams, and drawn by rich.

A block ends at a blank line outside every fence, unless what follows continues it: an indented line, or the next
item of a list.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from pilothouse.channels.terminal.style import fold_column, sanitize

if TYPE_CHECKING:
    from rich.markdown import Markdown

_FENCE = re.compile(r"\s*(`{3,}(?=[^`]*$)|~{3,})")
_ITEM = re.compile(r"([-*+]|\d{1,9}[.)])(\s|$)")

_SGR = re.compile(r"\x1b\[[0-9;]*m")
_RESET = "\x1b[0m"


def blocks(text: str) -> list[str]:
    found: list[list[str]] = []
    fence, blank = "", True
    for line in text.split("\n"):
        if blank and line.strip() and not fence and not (found and _continues(found[-1], line)):
            found.append([])
        marks = _FENCE.match(line)
        if marks and not fence:
            fence = marks[1]
        elif marks and marks[1].startswith(fence) and line.strip() == marks[1]:
            fence = ""
        if found:
            found[-1].append(line)
        blank = not line.strip() and not fence
    return ["\n".join(lines).rstrip() for lines in found]


def complete(text: str) -> list[str]:
    """Returns the blocks that no further text can change."""
    return blocks(text)[:-1]


def missing(wanted: Sequence[str], printed: Sequence[str]) -> list[str]:
    """Returns the rest of `wanted`, if the end of `printed` is its beginning; else all of it."""
    for start in range(len(printed) + 1):
        tail = list(printed[start:])
        if list(wanted[: len(tail)]) == tail:
            return list(wanted[len(tail) :])
    return list(wanted)


def _continues(block: list[str], line: str) -> bool:
    return line[0] in " \t" or bool(_ITEM.match(block[0]) and _ITEM.match(line))


def draw(text: str, width: int, *, color: bool) -> str:
    """Draws Markdown at a width; without `color` the result has no escapes."""
    from rich.console import Console

    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        force_terminal=color,
        color_system="standard" if color else None,
        legacy_windows=False,
        emoji=False,
        markup=False,
        _environ={},
    )
    console.print(_markdown()(sanitize(text)))
    return "\n".join(map(trim, out.getvalue().split("\n"))).strip("\n")


def trim(line: str) -> str:
    """Removes trailing blanks and their colours. A single pattern backtracked for minutes on a table."""
    body = line.removesuffix(_RESET)
    shown = body
    while shown.endswith(" "):
        shown = shown.rstrip(" ")
        while (start := shown.rfind("\x1b[")) >= 0 and _SGR.fullmatch(shown, start):
            shown = shown[:start]
    if shown == body:
        return line
    last = shown.rfind("\x1b[")
    return shown if last < 0 or shown.startswith(_RESET, last) else shown + _RESET


@cache
def _markdown() -> type[Markdown]:
    """Defined in a function because rich is imported late."""
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.markdown import CodeBlock, Heading, Markdown
    from rich.padding import Padding
    from rich.syntax import Syntax
    from rich.text import Text

    class LeftHeading(Heading):
        # pyrefly: ignore [missing-override-decorator]
        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            yield Text.assemble(self.text, style="bold underline" if self.tag == "h1" else "bold")

    class BareCode(CodeBlock):
        # pyrefly: ignore [missing-override-decorator]
        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            code = str(self.text).rstrip()
            if self.lexer_name == "text":  # not a program, so columns may be folded
                rows = (fold_column(line, options.max_width - 2) for line in code.split("\n"))
                code = "\n".join(row for folded in rows for row in folded)
            syntax = Syntax(
                code, self.lexer_name, theme="ansi_dark", word_wrap=True, background_color="default"
            )
            yield Padding(syntax, (0, 0, 0, 2))

    class Plain(Markdown):
        elements = Markdown.elements | {
            "heading_open": LeftHeading,
            "fence": BareCode,
            "code_block": BareCode,
        }

        def __init__(self, text: str) -> None:
            """Keeps single line breaks, as the chat apps do: the lines of a `/status` are no paragraph."""
            super().__init__(text, code_theme="ansi_dark", hyperlinks=False)
            for token in self.parsed:
                for child in token.children or ():
                    if child.type == "softbreak":
                        child.type = "hardbreak"

    return Plain
