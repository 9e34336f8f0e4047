"""Draw docs/images/phone.svg, a Telegram chat as the code renders it: `python -m tools.phone`; `tools/golden` runs it too.

The words, entities and buttons are those of the real payloads. Only the drawing is ours: a bubble for each message, with
text wrapped by an estimate of its width, because an SVG does not wrap by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from msgspec import Struct
from tests.channels.telegram.scenes import ask, asked

from pilothouse.channels.telegram.payload import Entity, Keyboard, Look, Message, Payload, unpack
from pilothouse.channels.telegram.render import render
from pilothouse.core.ids import TurnId
from pilothouse.core.message import Content
from pilothouse.core.outcome import Usage
from pilothouse.core.people import ORDINARY

FILE = Path(__file__).resolve().parent.parent / "docs" / "images" / "phone.svg"
WIDTH, MARGIN, BUBBLE, PADDING = 400, 12, 330, 12
TEXT_SIZE, LINE, BUTTON = 14, 19, 34
CODE_COLUMNS = 43
COLOURS = {"---": "#8b98a5", "+++": "#8b98a5", "@@": "#8b98a5", "+": "#7ee787", "-": "#ff9a94"}
"""Lines of a diff by their beginning; the first that fits counts."""
STYLE = """\
text { font: 14px -apple-system, Roboto, Helvetica, Arial, sans-serif; fill: #f2f5f8 }
.code { font: 11.5px ui-monospace, monospace; fill: #c9d6e2 }
.bold { font-weight: 600 }
.italic { font-style: italic; fill: #93a4b3 }
.button { font-weight: 500; text-anchor: middle; fill: #dff0ff }
.small { font-size: 11px; fill: #93a4b3 }"""
DIFF = """\
--- src/auth/login.py
+++ src/auth/login.py
@@ -3,6 +3,6 @@
 def session_of(request):
     cookie = request.cookies["session"]
+    cookie = decode_cookie(cookie)
     if cookie.expired:
         return None
-    cookie = decode_cookie(cookie)
     return cookie.session
"""
EDIT = ask(
    "approval",
    "edit: src/auth/login.py",
    {"tool": "Edit", "input": {"file_path": "src/auth/login.py", "old_string": "a", "new_string": "b"}},
    preview=DIFF,
)
ANSWER = "No: 3 of 14 tests in `tests/auth` fail. The session cookie is read before it is decoded."
SCENE: tuple[str | Content, ...] = (
    "Did the nightly build pass?",
    Content(ANSWER, "answer", turn_id=TurnId("turn-1"), usage=Usage(0.0121, 8120, 240)),
    "Fix it, please.",
    asked(EDIT, ORDINARY),
)


class Run(Struct, frozen=True):
    """Letters of one style."""

    text: str
    style: str = ""


class Bubble(Struct, frozen=True):
    lines: tuple[tuple[Run, ...], ...]
    mine: bool = False
    buttons: tuple[tuple[str, ...], ...] = ()

    @property
    def height(self) -> float:
        return 2 * PADDING + LINE * len(self.lines)


def width_of(letter: str) -> float:
    """Estimate a letter's width in a system font, in parts of its size."""
    if letter in "ijlt.,:;'|!()[]f ":
        return 0.32
    return 0.86 if letter in "mwMW@" else 0.64 if letter.isupper() else 0.55


def styled(text: str, entities: Sequence[Entity]) -> Iterator[Run]:
    """Split a text by its entities, whose offsets count UTF-16 units."""
    at = 0
    for letter in text:
        names = [entity.type for entity in entities if entity.offset <= at < entity.offset + entity.length]
        yield Run(letter, next((name for name in ("pre", "code", "bold", "italic") if name in names), ""))
        at += len(letter.encode("utf-16-le")) // 2


def wrapped(runs: Sequence[Run]) -> Iterator[tuple[Run, ...]]:
    """Break one line of single letters where it gets too wide, after a blank if there is one."""
    line: list[Run] = []
    for run in runs:
        line.append(run)
        if _width(line) > BUBBLE - 2 * PADDING:
            blanks = [at for at, one in enumerate(line) if one.text == " " and at]
            cut = blanks[-1] + 1 if blanks else len(line) - 1
            yield _joined(line[:cut])
            line = line[cut:]
    yield _joined(line)


def _width(runs: Sequence[Run]) -> float:
    if runs and all(run.style == "pre" for run in runs):
        return sum(len(run.text) for run in runs) * (BUBBLE - 2 * PADDING) / CODE_COLUMNS
    return sum(TEXT_SIZE * width_of(letter) for run in runs for letter in run.text)


def _joined(letters: Sequence[Run]) -> tuple[Run, ...]:
    runs: list[Run] = []
    for letter in letters:
        if runs and runs[-1].style == letter.style:
            runs[-1] = Run(runs[-1].text + letter.text, letter.style)
        else:
            runs.append(letter)
    return tuple(runs)


def bubble(text: str, entities: Sequence[Entity] = (), keyboard: Keyboard | None = None) -> Bubble:
    lines: list[tuple[Run, ...]] = []
    line: list[Run] = []
    for letter in [*styled(text, entities), Run("\n")]:
        if letter.text == "\n":
            lines += wrapped(line)
            line = []
        else:
            line.append(letter)
    rows = keyboard.inline_keyboard if keyboard else ()
    return Bubble(tuple(lines), buttons=tuple(tuple(button.text for button in row) for row in rows))


def bubbles(scene: Sequence[str | Content]) -> Iterator[Bubble]:
    for one in scene:
        if isinstance(one, str):
            yield Bubble(bubble(one).lines, mine=True)
        else:
            yield from (_of_payload(unpack(part)) for part in render(one, Look()))


def _of_payload(payload: Payload) -> Bubble:
    assert isinstance(payload, Message), "the scene has plain messages only"
    return bubble(payload.text, payload.entities, payload.reply_markup)


def draw(scene: Sequence[str | Content]) -> str:
    top, shapes = 58.0, list[str]()
    for one in bubbles(scene):
        shapes += _drawn(one, top)
        top += one.height + (BUTTON + 4) * len(one.buttons) + 10
    height = top + 10
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" xml:space="preserve">',
            f"<style>{STYLE}</style>",
            f'<rect width="{WIDTH}" height="{height:g}" rx="28" fill="#0e1621"/>',
            f'<path d="M0 46V28A28 28 0 0 1 28 0H{WIDTH - 28}A28 28 0 0 1 {WIDTH} 28V46Z" fill="#17212b"/>',
            '<circle cx="34" cy="24" r="14" fill="#2b83c4"/>',
            '<text x="34" y="29" text-anchor="middle" class="bold">P</text>',
            '<text x="58" y="22" class="bold">Pilothouse</text>',
            '<text x="58" y="37" class="small">bot</text>',
            *shapes,
            "</svg>\n",
        )
    )


def _drawn(one: Bubble, top: float) -> Iterator[str]:
    wide = min(BUBBLE, max(map(_width, one.lines)) * 1.06 + 2 * PADDING) if one.mine else BUBBLE
    left = WIDTH - MARGIN - wide if one.mine else MARGIN
    fill = "#2b5278" if one.mine else "#182533"
    yield f'<rect x="{left:g}" y="{top:g}" width="{wide:g}" height="{one.height:g}" rx="12" fill="{fill}"/>'
    for at, line in enumerate(one.lines):
        yield _line(line, left + PADDING, top + PADDING + LINE * at + 14)
    for at, row in enumerate(one.buttons):
        yield from _buttons(row, top + one.height + 4 + (BUTTON + 4) * at)


def _line(runs: Sequence[Run], x: float, y: float) -> str:
    spans = "".join(_span(run) for run in runs)
    return f'<text x="{x:g}" y="{y:g}">{spans}</text>'


def _span(run: Run) -> str:
    name = "code" if run.style == "pre" else run.style
    fitting = (COLOURS[begin] for begin in COLOURS if run.text.startswith(begin))
    colour = next(fitting, "") if run.style == "pre" else ""
    look = (f' class="{name}"' if name else "") + (f' style="fill:{colour}"' if colour else "")
    return f"<tspan{look}>{escape(run.text)}</tspan>"


def _buttons(row: Sequence[str], top: float) -> Iterator[str]:
    wide = (BUBBLE - 4 * (len(row) - 1)) / len(row)
    for at, text in enumerate(row):
        left = MARGIN + at * (wide + 4)
        yield f'<rect x="{left:g}" y="{top:g}" width="{wide:g}" height="{BUTTON}" rx="8" fill="#22384d"/>'
        yield f'<text x="{left + wide / 2:g}" y="{top + 22:g}" class="button">{escape(text)}</text>'


if __name__ == "__main__":
    FILE.write_text(draw(SCENE))
