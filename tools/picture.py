"""Turn a captured terminal (text with ANSI colours, on standard input) into an SVG on standard output.

tmux capture-pane -e -p | python tools/picture.py TITLE > docs/images/chat.svg
"""

import io
import re
import sys

from rich.console import Console
from rich.text import Text

WIDTH = 84


def draw(captured: str, title: str) -> str:
    console = Console(
        record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    console.print(Text.from_ansi(captured.rstrip()))
    svg = console.export_svg(title=title)
    # The exporter links fonts from a content network; a reader's own monospace serves as well, and offline.
    svg = re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    return re.sub(r"\s*<!--.*?-->", "", svg).replace("Fira Code", "ui-monospace")


if __name__ == "__main__":
    sys.stdout.write(draw(sys.stdin.read(), sys.argv[1] if len(sys.argv) > 1 else "pilothouse"))
