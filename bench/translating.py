"""`bench/translate [LINES]`: how fast Claude Code's stream-json becomes events, against `json.loads` alone on the same lines in one run.

Prints the ratio of the two times (bound 1), and how much memory a huge line takes on its way (bound 3 times the line).
Missing a bound is exit code 1.
"""

from __future__ import annotations

import json
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import count, islice

from pilothouse.engines.claude.translate import Translator
from pilothouse.processes import LineSplitter

LINES = 100_000
ROUNDS = 5
BOUND = 1.0
MEMORY_BOUND = 3.0
HUGE = 63 * 1024 * 1024
PORTION = b"x" * 65_536
NOTHING: dict[str, str] = {}
Fields = dict[str, object]
SESSION = "5f0c1f7e-9f60-4d7e-9d44-1b1df3f7a9c2"


def turns() -> Iterator[bytes]:
    """Turns as CLI 2.1.325 streams them with partial messages: seven of ten lines are pieces of text."""
    for number in count():
        yield line(type="system", subtype="init", cwd="/srv/app", tools=["Bash", "Read", "Edit"] * 8,
                   mcp_servers=[], model="claude-opus-5-5", permissionMode="default", skills=["x"] * 20)  # fmt: skip
        for step in range(4):
            message = f"msg_{number:06}{step}"
            yield from streamed(message, f"toolu_{number:06}{step}")
        yield line(
            duration_api_ms=149,
            stop_reason="end_turn",
            total_cost_usd=0.0016,
            usage={"input_tokens": 200, "output_tokens": 40, "cache_read_input_tokens": 0},
            permission_denials=[],
            is_error=False,
            num_turns=2,
            subtype="success",
            result="The final answer",
            type="result",
            model_usage_since_last_result={"claude-opus-5-5": {"inputTokens": 200, "costUSD": 0.0016}},
        )


def streamed(message: str, call: str) -> Iterator[bytes]:
    """Thinking, text, and a call with its result."""
    yield line(type="system", subtype="status", status="requesting")
    yield event(message, type="message_start", message={"id": message, "role": "assistant", "content": []})
    thinking = {"type": "thinking_delta", "thinking": "Let me look at it first."}
    yield from block(message, 0, {"type": "thinking", "thinking": ""}, [thinking] * 4)
    yield said(message, {"type": "thinking", "thinking": "Let me look at it first." * 4, "signature": "abc"})
    pieces = [{"type": "text_delta", "text": f" piece {n} of text,"} for n in range(60)]
    yield from block(message, 1, {"type": "text", "text": ""}, pieces)
    yield said(message, {"type": "text", "text": "".join(piece["text"] for piece in pieces)})
    use: Fields = {"type": "tool_use", "id": call, "name": "Bash", "input": NOTHING}
    given = [{"type": "input_json_delta", "partial_json": '{"command": "ls'}] * 6
    yield from block(message, 2, use, given)
    yield said(message, use | {"input": {"command": "ls -la src", "description": "Lists the files"}})
    yield event(message, type="message_delta", delta={"stop_reason": "tool_use"}, usage={"output_tokens": 20})
    yield event(message, type="message_stop")
    result = {"type": "tool_result", "tool_use_id": call, "content": "total 16\n" * 30, "is_error": False}
    yield line(
        type="user",
        message={"role": "user", "content": [result]},
        parent_tool_use_id=None,
        tool_use_result={"stdout": "total 16\n" * 30, "stderr": "", "interrupted": False},
    )


def block(message: str, place: int, first: Fields, deltas: list[dict[str, str]]) -> Iterator[bytes]:
    yield event(message, type="content_block_start", index=place, content_block=first)
    for delta in deltas:
        yield event(message, type="content_block_delta", index=place, delta=delta)
    yield event(message, type="content_block_stop", index=place)


def said(message: str, content: Fields) -> bytes:
    usage = {"input_tokens": 100, "cache_creation_input_tokens": 0, "output_tokens": 1}
    body = {"id": message, "type": "message", "role": "assistant", "model": "claude-opus-5-5",
            "content": [content], "stop_reason": None, "usage": usage}  # fmt: skip
    return line(type="assistant", message=body, parent_tool_use_id=None)


def event(of: str, **fields: object) -> bytes:
    return line(type="stream_event", event=fields, parent_tool_use_id=None, api_message_id=of)


def line(**fields: object) -> bytes:
    ids = {"session_id": SESSION, "uuid": "0b9f4f7e-1f60-4d7e-9d44-1b1df3f7a9c2"}
    return json.dumps(fields | ids, separators=(",", ":")).encode()


def took_s(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def translate(lines: list[bytes]) -> None:
    translator = Translator("/srv/app")
    for one in lines:
        translator.feed(one)
    assert not translator.unknown_lines


def load(lines: list[bytes]) -> None:
    for one in lines:
        json.loads(one)


def passing_peak() -> float:
    """The most memory that one huge line takes on its way through, as a multiple of the line."""
    result = {"type": "tool_result", "tool_use_id": "t", "content": "@"}
    head = line(type="user", message={"role": "user", "content": [result]}).partition(b"@")
    splitter, translator = LineSplitter(), Translator("/srv/app")
    tracemalloc.start()
    translator.feed(line(type="system", subtype="init", cwd="/srv/app", model="x"))
    splitter.feed(head[0])
    for _ in range(HUGE // len(PORTION)):
        splitter.feed(PORTION)
    (whole,) = splitter.feed(head[2] + b"\n")
    assert whole.cut == 0
    assert translator.feed(whole.data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / len(whole.data)


def main(wanted: int) -> int:
    lines = list(islice(turns(), wanted))
    pieces = sum(b'"text_delta"' in one for one in lines) / len(lines)
    # In turns, and the best of each: what else runs on the machine slows both.
    runs = [(took_s(lambda: translate(lines)), took_s(lambda: load(lines))) for _ in range(ROUNDS)]
    ours, theirs = (min(times) for times in zip(*runs, strict=True))
    print(f"{wanted} lines, {pieces:.0%} pieces of text, {sum(map(len, lines)) / len(lines):.0f} bytes each")
    print(f"translate   {ours:.3f} s  {wanted / ours:>9,.0f} lines/s")
    print(f"json.loads  {theirs:.3f} s  {wanted / theirs:>9,.0f} lines/s")
    print(f"ratio       {ours / theirs:.2f}  (bound {BOUND:g})")
    peak = passing_peak()
    print(f"memory      {peak:.2f}  of a line of {HUGE >> 20} MB  (bound {MEMORY_BOUND:g})")
    return 0 if ours <= BOUND * theirs and peak <= MEMORY_BOUND else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else LINES))
