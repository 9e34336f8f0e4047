"""`bench/discord render [DOCUMENTS]`: how long an answer of 4 kB takes to become Discord messages (bound 10 ms).

Then as many generated Markdown documents, with fences in every form, CJK, emoji and lines of 5 kB: each message within
the limits, every block closed where it stands, every word there once and in order. Missing a bound is exit code 1.
"""

from __future__ import annotations

import sys
from collections import Counter

from bench.rendering import BOUND_MS, DOCUMENTS, render_ms, tell_faults, tell_time
from tests.channels.discord.documents import make_any
from tests.channels.discord.judging import check_document, check_written

from pilothouse.channels.discord.payload import Look, Message, unpack
from pilothouse.channels.discord.render import render
from pilothouse.core.message import Content


def judged(wanted: int) -> tuple[Counter[str], list[str]]:
    kinds: Counter[str] = Counter()
    faults: list[str] = []
    for seed in range(wanted):
        document, sound = make_any(seed)
        payloads = [unpack(part) for part in render(Content(document.source, "answer"))]
        kinds["messages"] += len(payloads)
        kinds["files"] += sum(len(p.documents) for p in payloads if isinstance(p, Message))
        try:
            check_document(document, payloads, sound=sound)
            check_written(document, Look().table_width)
        except AssertionError as error:
            faults.append(f"document {seed}: {error}")
    return kinds, faults


def main(wanted: int) -> int:
    took = render_ms(render)
    tell_time("render", took)
    sound = tell_faults(wanted, judged, "broken")
    return 0 if took <= BOUND_MS and sound else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else DOCUMENTS))
