"""`bench/discord render [DOCUMENTS]`: how long an answer of 4 kB takes to become Discord messages (bound 10 ms).

Then as many generated Markdown documents, with fences in every form, CJK, emoji and lines of 5 kB: each message within
the limits, every block closed where it stands, every word there once and in order. Missing a bound is exit code 1.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from statistics import median

from bench.rendering import BOUND_MS, DOCUMENTS, ROUNDS, SIZE, answer
from tests.channels.discord.documents import make_any
from tests.channels.discord.judging import check_document, check_written

from pilothouse.channels.discord.look import Look
from pilothouse.channels.discord.payload import Message, unpack
from pilothouse.channels.discord.render import render
from pilothouse.core.message import Content


def render_ms() -> float:
    """CPU time: what else runs on the machine does not count."""
    content = Content(answer(), "answer")
    times: list[float] = []
    for _ in range(ROUNDS):
        began = time.thread_time()
        render(content)
        times.append(time.thread_time() - began)
    return median(times) * 1000


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
    took = render_ms()
    print(f"render      {took:5.2f} ms for an answer of {SIZE} characters  (bound {BOUND_MS:g} ms)")
    began = time.perf_counter()
    kinds, faults = judged(wanted)
    told = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    print(f"documents   {wanted} in {time.perf_counter() - began:.0f} s: {told}")
    print(f"broken      {len(faults)}  (bound 0)")
    print(*faults[:10], sep="\n")
    return 0 if took <= BOUND_MS and not faults else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else DOCUMENTS))
