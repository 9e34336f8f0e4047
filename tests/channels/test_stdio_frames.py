"""Frames: any bytes become frames or errors, however they were cut, and the next frame is read as usual."""

from __future__ import annotations

import json
import os
from typing import Any

import anyio
import anyio.to_thread
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilothouse.channels.stdio_frames import (
    BadFrame,
    Frame,
    FrameWriter,
    Notification,
    Reply,
    Request,
    parse_frame,
)
from pilothouse.processes.lines import Line, LineSplitter
from pilothouse.processes.pipes import PipeWriter

BOUND = 200
JSON: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, -1, 1.5, "", "x", "2.0", [], [1], {}, {"a": [None]}]
)


def frames_of(data: bytes, cut: int) -> list[Frame]:
    splitter = LineSplitter(BOUND)
    lines = [*splitter.feed(data[:cut]), *splitter.feed(data[cut:]), *splitter.end()]
    return [frame for line in lines if (frame := parse_frame(line, BOUND)) is not None]


@settings(max_examples=50)
@given(st.binary(max_size=400), st.integers(0, 400))
def test_any_bytes_are_frames_or_errors_and_a_cut_changes_nothing(data: bytes, cut: int) -> None:
    assert repr(frames_of(data, cut)) == repr(frames_of(data, 0))


@settings(max_examples=50)
@given(st.binary(max_size=400).filter(lambda data: b"\n" not in data))
def test_a_bad_frame_does_not_hurt_the_next_one(data: bytes) -> None:
    good = b'{"jsonrpc":"2.0","id":7,"method":"x"}'
    last = frames_of(data + b"\n" + good, 0)[-1]
    assert isinstance(last, Request) and last.method == "x" and bytes(last.id) == b"7"


@settings(max_examples=50)
@given(st.dictionaries(st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error"]), JSON))
def test_any_object_becomes_a_frame(value: dict[str, Any]) -> None:
    value = {"jsonrpc": "2.0", **value}
    frame = parse_frame(Line(json.dumps(value).encode()))
    assert isinstance(frame, Request | Notification | Reply | BadFrame)
    if isinstance(frame, Request):
        assert msgspec.json.decode(frame.id) == value["id"]


@pytest.mark.parametrize("id", ['"a"', "0", "-1", "1.5", "null", "123456789012345678901234567890"])
def test_an_id_is_kept_byte_for_byte(id: str) -> None:
    frame = parse_frame(Line(f'{{"jsonrpc":"2.0","id":{id},"method":"x"}}'.encode()))
    assert isinstance(frame, Request) and bytes(frame.id).decode() == id


@pytest.mark.parametrize("id", ["true", "[]", "{}"])
def test_an_id_of_another_kind_is_refused(id: str) -> None:
    frame = parse_frame(Line(f'{{"jsonrpc":"2.0","id":{id},"method":"x"}}'.encode()))
    assert isinstance(frame, BadFrame) and frame.code == -32600


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (Line(b"{"), -32700),
        (Line(b'{"a":"\xff"}'), -32700),
        (Line(b"{}", 5), -32700),
        (Line(b"[]"), -32600),
        (Line(b'{"jsonrpc":"1.0","method":"x"}'), -32600),
        (Line(b'{"jsonrpc":"2.0","id":1,"method":5}'), -32600),
    ],
)
def test_a_bad_frame_has_its_code(line: Line, code: int) -> None:
    frame = parse_frame(line)
    assert isinstance(frame, BadFrame) and frame.code == code


@pytest.mark.anyio
async def test_a_frame_whose_writer_was_cancelled_is_finished_before_the_next_one() -> None:
    ours, theirs = os.pipe()
    with os.fdopen(ours, "rb", buffering=0) as reader, os.fdopen(theirs, "wb", buffering=0) as pipe:
        writer = FrameWriter(PipeWriter(pipe))
        with anyio.move_on_after(0.05) as limit:  # the pipe is full long before the frame ends
            await writer.notify("first", "x" * 1_000_000)
        assert limit.cancelled_caught
        found = bytearray()

        async def read() -> None:
            while found.count(b"\n") < 2:
                found.extend(await anyio.to_thread.run_sync(reader.read, 65536))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await writer.notify("second", None)
    assert [json.loads(line)["method"] for line in found.splitlines()] == ["first", "second"]


@pytest.mark.anyio
async def test_many_notifications_are_written_in_order() -> None:
    ours, theirs = os.pipe()
    with os.fdopen(ours, "rb", buffering=0) as reader, os.fdopen(theirs, "wb", buffering=0) as pipe:
        writer = FrameWriter(PipeWriter(pipe))
        found = bytearray()

        async def read() -> None:
            while found.count(b"\n") < 300:
                found.extend(await anyio.to_thread.run_sync(reader.read, 65536))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await writer.notify_all("n", ([number, "x" * 1000] for number in range(300)))
    assert [json.loads(line)["params"][0] for line in found.splitlines()] == list(range(300))


@pytest.mark.anyio
async def test_a_frame_that_the_pipe_takes_waits_for_no_other_task() -> None:
    ours, theirs = os.pipe()
    with os.fdopen(ours, "rb", buffering=0) as reader, os.fdopen(theirs, "wb", buffering=0) as pipe:
        writer = FrameWriter(PipeWriter(pipe))
        others: list[str] = []

        async def note() -> None:
            others.append("ran")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(note)
            await writer.notify("first", None)
            await writer.notify("second", None)
            assert others == [] and reader.read(65536).count(b"\n") == 2
    assert others == ["ran"]
