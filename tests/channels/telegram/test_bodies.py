"""A form is read back by code that we did not write as what was put in, whatever the names and bytes are."""

import asyncio
from typing import Any

import msgspec
import pytest
from aiohttp import BodyPartReader, MultipartReader, StreamReader
from aiohttp.base_protocol import BaseProtocol
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.channels.telegram.bodies import PIECE_BYTES, Form, Json
from pilothouse.channels.telegram.shapes import Upload

FIELDS = st.dictionaries(
    st.sampled_from(["chat_id", "caption", "media", "reply_markup"]),
    st.text() | st.integers() | st.booleans() | st.lists(st.text(), max_size=3),
)
# aiohttp's reader stumbles over `;;` even within quotes.
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=";"), min_size=1)
UPLOADS = st.lists(st.tuples(NAMES, st.binary(max_size=200) | st.just(b"\r\n--\r\n")), min_size=1, max_size=3)


async def read_back(body: Form) -> list[tuple[str | None, str | None, bytes]]:
    stream = StreamReader(BaseProtocol(asyncio.get_running_loop()), 1 << 16)
    stream.feed_data(b"".join(body))
    stream.feed_eof()
    parts = []
    async for part in MultipartReader({"Content-Type": body.media_type}, stream):
        assert isinstance(part, BodyPartReader)
        parts.append((part.name, part.filename, bytes(await part.read())))
    return parts


@given(FIELDS, UPLOADS)
def test_every_field_and_file_arrives_as_it_was(
    params: dict[str, Any], uploads: list[tuple[str, bytes]]
) -> None:
    files = {f"file{n}": Upload(name, "image/png", data) for n, (name, data) in enumerate(uploads)}
    parts = asyncio.run(read_back(Form(params, files)))
    fields = parts[: len(params)]
    assert [name for name, _, _ in parts] == [*params, *files]
    for (_, filename, data), value in zip(fields, params.values(), strict=True):
        assert filename is None
        assert (data.decode() if isinstance(value, str) else msgspec.json.decode(data)) == value
    assert [data for _, _, data in parts[len(params) :]] == [data for _, data in uploads]


@given(FIELDS, UPLOADS)
def test_a_body_has_the_length_that_it_says(params: dict[str, Any], uploads: list[tuple[str, bytes]]) -> None:
    form = Form(params, {f"f{n}": Upload(name, "x", data) for n, (name, data) in enumerate(uploads)})
    assert len(b"".join(form)) == form.length
    json = Json(params)
    assert len(b"".join(json)) == json.length


@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        ('a"; filename="b', "text/plain"),
        ("a\r\nX-Evil: 1\r\n\r\nbody", "text/plain"),
        ("a\\", "text/plain"),
        ("a.txt", "text/plain\r\nX-Evil: 1"),
        ("a.txt", ""),
    ],
)
def test_a_name_or_a_type_breaks_out_of_nothing(name: str, media_type: str) -> None:
    parts = asyncio.run(read_back(Form({"chat_id": 1}, {"file": Upload(name, media_type, b"bytes")})))
    assert [(part, data) for part, _, data in parts] == [("chat_id", b"1"), ("file", b"bytes")]
    assert parts[1][1] is not None
    assert "\n" not in parts[1][1]


def test_a_file_goes_in_pieces_and_can_go_again() -> None:
    form = Form({}, {"file": Upload("a.bin", "application/zip", bytes(5 * PIECE_BYTES + 1))})
    pieces = list(form)
    assert max(map(len, pieces)) == PIECE_BYTES
    assert list(form) == pieces
