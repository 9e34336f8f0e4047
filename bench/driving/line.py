"""How much memory a line of 64 MB takes on its way: from a child's pipe, through the translator, to events.

In a fresh process, by what the kernel says it held at most.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import anyio
from bench.measuring.machine import rss_kb
from bench.measuring.table import Row

from pilothouse.core.event import ToolFinished
from pilothouse.engines.claude.translate import Translator
from pilothouse.processes import open_process
from pilothouse.processes.lines import MAX_LINE_BYTES

BOUND = 3.0
HEAD = '{"type":"user","parent_tool_use_id":null,"message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"'
TAIL = '"}]}}'
INIT = {"type": "system", "subtype": "init", "cwd": "/", "session_id": "s", "model": "m"}
CALL = {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "ls"}}
SAID = {"type": "assistant", "message": {"id": "m", "content": [CALL]}, "session_id": "s"}


def measure() -> list[Row]:
    done = subprocess.run(
        [sys.executable, "-m", "bench.driving.line"], stdout=subprocess.PIPE, text=True, check=True
    )
    grown_kb, length = map(int, done.stdout.split())
    line_mb, grown_mb = length / (1 << 20), grown_kb / 1024
    detail = f"{grown_mb:.0f} MB for a line of {line_mb:.0f} MB, resident memory of the whole process"
    return [Row("peak memory while a 64 MB line passes", grown_mb / line_mb, BOUND, "×", detail)]


async def _pass() -> int:
    """The length of the line that passed."""
    fill = MAX_LINE_BYTES - len(HEAD) - len(TAIL)
    program = (
        "import sys\nwrite = sys.stdout.write\n"
        f"write({json.dumps(INIT)!r} + chr(10))\nwrite({json.dumps(SAID)!r} + chr(10))\n"
        f"write({HEAD!r})\nfor _ in range({fill} >> 16): write('x' * 65536)\n"
        f"write('x' * ({fill} & 65535) + {TAIL!r} + chr(10))\n"
    )
    translator, length, finished = Translator("/"), 0, 0
    async with open_process([sys.executable, "-c", program], cwd="/", env={}) as process:
        async for line in process.lines():
            assert not line.cut
            length = max(length, len(line.data))
            finished += sum(isinstance(step, ToolFinished) for step in translator.feed(line.data))
    assert (length, finished) == (MAX_LINE_BYTES, 1)
    return length


def peak_kb() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1])
    raise SystemExit("this system does not tell how much memory a process had: /proc is missing")


if __name__ == "__main__":
    anyio.run(anyio.sleep, 0)  # what the loop needs is there before we look
    before = rss_kb()
    passed = anyio.run(_pass)
    print(peak_kb() - before, passed)
