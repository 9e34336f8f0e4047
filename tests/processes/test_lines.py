"""The line splitter: same bytes, same lines; bounded; nothing lost."""

import time
import tracemalloc
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pilothouse.processes import Line, LineSplitter

STREAMS = st.lists(
    st.sampled_from([b"a", b"bc", b"\n", b"\r", b"\r\n", "é".encode(), b"\xff", b"x" * 9])
).map(b"".join)


def split(portions: list[bytes], max_bytes: int = 1000) -> list[Line]:
    splitter = LineSplitter(max_bytes)
    lines = [line for portion in portions for line in splitter.feed(portion)]
    return lines + splitter.end()


def cut_at(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


@given(STREAMS, st.lists(st.integers(0, 1000)), st.integers(1, 12))
def test_any_portions_of_the_same_bytes_give_the_same_lines(
    data: bytes, places: list[int], max_bytes: int
) -> None:
    at_once = split([data], max_bytes)
    assert split(cut_at(data, places), max_bytes) == at_once
    assert split([data[i : i + 1] for i in range(len(data))], max_bytes) == at_once


@given(STREAMS)
def test_nothing_is_lost(data: bytes) -> None:
    lines = split([data])
    expected = data.split(b"\n")
    bodies = [body.removesuffix(b"\r") for body in expected[:-1]] + ([expected[-1]] if expected[-1] else [])
    assert [line.data for line in lines] == bodies
    assert all(line.cut == 0 for line in lines)


@given(STREAMS, st.integers(1, 12))
def test_what_is_cut_is_counted(data: bytes, max_bytes: int) -> None:
    for cut, whole in zip(split([data], max_bytes), split([data], 10_000), strict=True):
        assert cut.data == whole.data[:max_bytes]
        assert cut.cut == max(0, len(whole.data) - max_bytes)


def test_a_line_of_exactly_the_bound_passes_whole_even_with_crlf() -> None:
    assert split([b"12345\r\n", b"12345\n", b"12345"], 5) == [Line(b"12345")] * 3


def test_a_line_beyond_the_bound_is_reported_once_and_the_next_is_intact() -> None:
    assert split([b"123", b"45678", b"9", b"0\nnext\n"], 5) == [Line(b"12345", 5), Line(b"next")]


def test_the_last_line_needs_no_newline() -> None:
    assert split([b"one\ntwo"]) == [Line(b"one"), Line(b"two")]


def test_an_ended_stream_without_a_rest_gives_no_empty_line() -> None:
    assert split([b"one\n"]) == [Line(b"one")]
    assert split([]) == []


def test_invalid_utf8_is_shown_as_a_replacement() -> None:
    assert Line(b"a\xffb").text == "a�b"


def test_a_character_split_across_portions_is_whole() -> None:
    assert split([b"caf\xc3", b"\xa9\n"])[0].text == "café"


def test_a_64_mb_line_costs_less_than_three_times_itself() -> None:
    size, portion = 64_000_000, b"x" * 65_536
    splitter = LineSplitter()
    tracemalloc.start()
    for _ in range(size // len(portion)):
        splitter.feed(portion)
    [line] = splitter.feed(b"\n")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert line.cut == 0
    assert peak < 3 * len(line.data)


def test_tiny_portions_of_a_long_line_do_not_pile_up() -> None:
    splitter = LineSplitter()
    portions = [bytes([65 + i % 26, 65 + i % 25]) for i in range(200)]
    tracemalloc.start()
    for _ in range(1000):
        for portion in portions:
            splitter.feed(portion)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * 400_000


def test_short_lines_are_split_fast() -> None:
    portion = (b'{"type":"delta","text":"word"}\n' * 2000)[:-5]
    splitter = LineSplitter()
    began = time.process_time()
    count = sum(len(splitter.feed(portion)) for _ in range(100))
    # Measured above two million a second; the bound only catches something quadratic.
    assert count / (time.process_time() - began) > 200_000
