"""A QR code in the terminal, so that a phone can open a link without typing it."""

from __future__ import annotations

import sys

BORDER = 2
WHITE_ON_BLACK = "\x1b[97;40m"
RESET = "\x1b[0m"


def render_qr(link: str) -> str:
    """Renders two rows of modules per line, in colours of its own: a code in the colours of a light terminal is inverted."""
    from io import StringIO

    import segno

    out = StringIO()
    segno.make(link, error="l", micro=False).terminal(out, compact=True, border=BORDER)
    return "\n".join(f"{WHITE_ON_BLACK}{line}{RESET}" for line in out.getvalue().splitlines())


def print_qr(link: str, columns: int | None) -> None:
    """Prints the code on a terminal that is wide enough, and nothing elsewhere."""
    if columns is None or "utf" not in (sys.stdout.encoding or "").lower():
        return
    code = render_qr(link)
    if columns >= len(code.split("\n", 1)[0]) - len(WHITE_ON_BLACK + RESET):
        print(code)
