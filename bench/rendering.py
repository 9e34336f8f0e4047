"""`bench/telegram [DOCUMENTS]`: how long an answer of 4 kB takes to become Telegram messages (bound 10 ms), plain and rich.

Then as many generated Markdown documents, half of them hostile, each judged by Telegram's own code (TDLib): every
message within the limits, every entity taken, every word there once and in order. Missing a bound is exit code 1.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from statistics import median

from tests.channels.telegram.documents import make_document
from tests.channels.telegram.judging import check_document

from pilothouse.channels.telegram.payload import Look, unpack
from pilothouse.channels.telegram.render import render
from pilothouse.core.message import Content

DOCUMENTS = 10_000
ROUNDS = 200
SIZE = 4096
BOUND_MS = 10.0
SECTION = """\
## What changed in step {n}

I moved `parse()` out of **app.py** into *parse.py*; see [the docs](https://example.com/docs/{n}) and the list:

- the tests pass, all {n} of them
  - the slow ones too
- `__init__.py` is as it was

```python
def parse(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line]
```

| Step | Time |
|:-----|-----:|
| parse | {n} ms |
| write | 12 ms |

> It is faster than before, and it says what went wrong where it did not go well.

A paragraph of plain prose follows, for most of what an agent says is that: it has looked at the files, found the
place where the value was lost, and wrote a test that fails without the change and passes with it.

"""


def answer() -> str:
    return "".join(SECTION.format(n=n) for n in range(1, 20))[:SIZE]


def render_ms(render: Callable[[Content], object]) -> float:
    """CPU time: what else runs on the machine does not count."""
    content = Content(answer(), "answer")
    times: list[float] = []
    for _ in range(ROUNDS):
        began = time.thread_time()
        render(content)
        times.append(time.thread_time() - began)
    return median(times) * 1000


def tell_time(name: str, took_ms: float) -> None:
    print(f"{name:<10}  {took_ms:5.2f} ms for an answer of {SIZE} characters  (bound {BOUND_MS:g} ms)")


def tell_faults(wanted: int, judged: Callable[[int], tuple[Counter[str], list[str]]], broken: str) -> bool:
    """Whether there are none."""
    began = time.perf_counter()
    kinds, faults = judged(wanted)
    told = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    print(f"documents   {wanted} in {time.perf_counter() - began:.0f} s: {told}")
    print(f"{broken:<10}  {len(faults)}  (bound 0)")
    print(*faults[:10], sep="\n")
    return not faults


def judged(wanted: int) -> tuple[Counter[str], list[str]]:
    kinds: Counter[str] = Counter()
    faults: list[str] = []
    for seed in range(wanted):
        hostile, rich = seed % 2 == 1, seed % 3 == 2
        document = make_document(random.Random(seed), hostile=hostile)
        payloads = [unpack(part) for part in render(Content(document.source, "answer"), Look(rich=rich))]
        kinds.update(type(payload).__name__.lower() for payload in payloads)
        try:
            check_document(document, payloads, sound=not hostile)
        except AssertionError as error:
            faults.append(f"document {seed}: {error}")
    return kinds, faults


def main(wanted: int) -> int:
    slowest = 0.0
    for name, look in (("entities", Look()), ("rich", Look(rich=True))):
        took = render_ms(partial(render, look=look))
        slowest = max(slowest, took)
        tell_time(name, took)
    sound = tell_faults(wanted, judged, "refused")
    return 0 if slowest <= BOUND_MS and sound else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else DOCUMENTS))
