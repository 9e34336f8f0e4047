"""Which files are taken, as what, and what is said about the others."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.http.host import answering, open_host, plain_fetcher

from pilothouse.channels.discord.attachments import (
    AT_ONCE,
    EMPTY,
    FILE_BYTES,
    HOSTS,
    IMAGES,
    NO_IMAGE,
    TOO_BIG,
    TOO_MANY,
    TOO_MANY_IMAGES,
    TOO_MUCH,
    TOTAL_BYTES,
    Offered,
    Taken,
    make_fetch,
    take_files,
    with_files,
)
from pilothouse.channels.parts import NAME_CHARS
from pilothouse.core.ids import BlobHash, ChannelId, UserId
from pilothouse.core.message import Address, Attachment, Author, InboundMessage
from pilothouse.http.allowlist import Unfetched


def png() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(b"\0\0"))
        + chunk(b"IEND", b"")
    )


PNG = png()
JPEG = b"\xff\xd8\xff\xe0" + b"\0" * 40
GIF = b"GIF89a" + b"\0" * 40
WEBP = b"RIFF\x30\0\0\0WEBPVP8 " + b"\0" * 40
SECRET = "https://cdn.discordapp.com/attachments/1/2/x?hm=secret"


class Kept:
    """Blobs in memory."""

    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}

    async def get(self, blob: BlobHash) -> bytes:
        return self.data[blob]

    async def put(self, data: bytes, name: str, media_type: str) -> Attachment:
        self.data[name] = data
        return Attachment(name, media_type, len(data), BlobHash(name))


class Cdn:
    """Files by address. `most` is how many were wanted at the same time."""

    def __init__(self, files: Mapping[str, bytes | Unfetched]) -> None:
        self.asked: list[str] = []
        self.most = 0
        self._now = 0
        self._files = files

    async def __call__(self, url: str, limit: int) -> bytes | Unfetched:
        assert limit == FILE_BYTES
        self.asked.append(url)
        self._now += 1
        self.most = max(self.most, self._now)
        await anyio.lowlevel.checkpoint()
        self._now -= 1
        return self._files[url]


def offer(name: str, data: bytes, media_type: str = "", size: int | None = None) -> tuple[Offered, bytes]:
    return Offered(name, f"{SECRET}&{name}", len(data) if size is None else size, media_type), data


async def take(*files: tuple[Offered, bytes | Unfetched]) -> Taken:
    cdn = Cdn({offered.url: data for offered, data in files})
    taken = await take_files([offered for offered, _ in files], Kept(), cdn)
    assert "hm=secret" not in "".join([taken.text, *taken.complaints])
    assert cdn.most <= AT_ONCE
    return taken


def kinds(taken: Taken) -> list[tuple[str, str]]:
    return [(one.name, one.media_type) for one in taken.attachments]


async def test_each_kind_of_image_is_taken_as_what_its_bytes_say() -> None:
    taken = await take(
        offer("a.png", PNG, "image/png"),
        offer("b.JPG", JPEG),
        offer("c.gif", GIF, "IMAGE/GIF; charset=x"),
        offer("d.webp", WEBP, "image/webp"),
        offer("e.png", JPEG, "image/png"),
        offer("f.bin", GIF, "application/octet-stream"),
    )
    assert [kind for _, kind in kinds(taken)] == [
        *("image/png", "image/jpeg", "image/gif", "image/webp"),
        *("image/jpeg", "image/gif"),
    ]
    assert (taken.text, taken.complaints) == ("", ())


@pytest.mark.parametrize(
    "data",
    [
        b"<html>",
        b"\x89PNG\r\n\x1a\n",
        b"\x89PNG\r\n\x1a\n" + b"\0" * 100,
        JPEG[:10],
        b"%PDF-1.4 " + b"x" * 99,
    ],
)
@pytest.mark.parametrize("media_type", ["image/png", ""])
async def test_what_only_says_that_it_is_an_image_is_refused(data: bytes, media_type: str) -> None:
    taken = await take(offer("lie.png", data, media_type))
    assert taken == Taken(complaints=(f"lie.png was not taken: {NO_IMAGE}.",))


@pytest.mark.parametrize("size", [0, -1, 5])
async def test_an_empty_file_is_refused(size: int) -> None:
    taken = await take(offer("a.png", b"", "image/png", size))
    assert taken.complaints == (f"a.png was not taken: {EMPTY}.",)


async def test_nothing_is_fetched_that_is_announced_as_too_big_or_too_much() -> None:
    files = [
        offer("a.png", PNG, size=FILE_BYTES + 1),
        *(offer(f"b{n}.png", PNG, size=FILE_BYTES) for n in range(3)),
        offer("c.png", PNG, size=TOTAL_BYTES - 2 * FILE_BYTES),
    ]
    cdn = Cdn({offered.url: data for offered, data in files})
    taken = await take_files([offered for offered, _ in files], Kept(), cdn)
    assert [name for name, _ in kinds(taken)] == ["b0.png", "b1.png", "c.png"]
    assert taken.complaints == (f"a.png was not taken: {TOO_BIG}.", f"b2.png was not taken: {TOO_MUCH}.")
    assert len(cdn.asked) == 3


async def test_all_bytes_together_have_a_bound_whatever_was_announced() -> None:
    big = PNG + b"\0" * (FILE_BYTES - len(PNG))
    taken = await take(*(offer(f"{n}.png", big, size=100) for n in range(4)))
    assert sum(one.size for one in taken.attachments) <= TOTAL_BYTES
    assert len(taken.attachments) == 2
    assert [complaint.endswith(f"{TOO_MUCH}.") for complaint in taken.complaints] == [True, True]


async def test_ten_images_are_taken_and_no_more() -> None:
    taken = await take(*(offer(f"{n}.png", PNG) for n in range(IMAGES + 2)))
    assert len(taken.attachments) == IMAGES
    assert taken.complaints == tuple(f"{n}.png was not taken: {TOO_MANY_IMAGES}." for n in (10, 11))


async def test_images_under_another_name_count_with_the_others() -> None:
    named = [offer(f"{n}.png", PNG) for n in range(IMAGES)]
    taken = await take(*named, offer("x.dat", PNG), *(offer(f"{n}.zip", b"PK") for n in range(10)))
    assert len(taken.attachments) == IMAGES + 9
    assert taken.complaints == (
        f"x.dat was not taken: {TOO_MANY_IMAGES}.",
        f"9.zip was not taken: {TOO_MANY}.",
    )


async def test_what_cannot_be_fetched_is_complained_about_and_the_rest_is_taken() -> None:
    late = (Offered("slow.png", SECRET, 10), Unfetched("late", "it did not arrive in time"))
    taken = await take(late, offer("a.png", PNG))
    assert kinds(taken) == [("a.png", "image/png")]
    assert taken.complaints == ("slow.png was not taken: it did not arrive in time.",)


async def test_a_name_is_cut_and_has_no_control_characters() -> None:
    taken = await take(offer("../\x1b[31m\n" + "n" * 300 + ".png", b"", "image/png"))
    name = taken.complaints[0].removesuffix(f" was not taken: {EMPTY}.")
    assert len(name) == NAME_CHARS
    assert name.isprintable()
    assert name.endswith(".png")


async def test_a_short_text_is_put_into_the_prompt_and_nothing_else_is_kept_of_it() -> None:
    taken = await take(offer("notes.md", b"one\r\ntwo\x1b[31m\xe2\x80\xae", "text/markdown; charset=utf-8"))
    assert taken == Taken(text="notes.md:\n```md\none\ntwo[31m\n```")


async def test_a_long_text_is_begun_in_the_prompt_and_kept_whole() -> None:
    data = "é".encode() * 100_000
    taken = await take(offer("a.log", data))
    assert kinds(taken) == [("a.log", "application/octet-stream")]
    assert taken.attachments[0].size == len(data)
    assert "Only the beginning of a.log is shown here; the whole file is attached." in taken.text
    assert taken.text.count("é") == 50 << 10


async def test_a_file_without_an_ending_may_be_a_text_and_old_line_ends_are_read() -> None:
    taken = await take(offer("Makefile", b"a:\rb:\r\nc:"), offer("u.txt", "\ufeffü".encode("utf-16-le")))
    assert taken == Taken(text="Makefile:\n```\na:\nb:\nc:\n```\n\nu.txt:\n```txt\nü\n```")


async def test_texts_share_the_room_and_what_finds_none_is_attached() -> None:
    taken = await take(*(offer(f"{n}.txt", b"x" * 95_000, "text/plain") for n in range(3)))
    assert kinds(taken) == [("2.txt", "text/plain")]
    assert taken.text.endswith("[2.txt (92.8 KB) is attached]")
    assert len(taken.text) < 195_000


async def test_other_files_are_kept_and_named() -> None:
    taken = await take(
        offer("a.zip", b"PK" * 1000, "application/zip"),
        offer("b.txt", b"a\0b", "text/plain"),
        offer("c.py", b"\xff\xfe\xff", "x" * 200),
        offer("d.pdf", b"%PDF-1.4", "application/octet-stream"),
    )
    assert kinds(taken) == [
        ("a.zip", "application/zip"),
        ("b.txt", "text/plain"),
        ("c.py", "application/octet-stream"),
        ("d.pdf", "application/pdf"),
    ]
    assert taken.text.startswith("[a.zip (2.0 KB) is attached]\n\n[b.txt (3 bytes) is attached]")


@given(st.text(max_size=200).filter(lambda text: "hm=secret" not in text))
async def test_no_text_closes_its_own_fence_or_hides_a_word(text: str) -> None:
    data = text.encode(errors="replace")
    taken = await take(offer("a.txt", data or b"x"))
    if "\0" in text:
        assert taken.attachments
        return
    _, opening, *lines, closing = taken.text.split("\n")
    assert opening == f"{closing}txt"
    assert set(closing) == {"`"}
    assert not any(line.strip().startswith(closing) for line in lines)
    assert all(c.isprintable() or c.isspace() or ord(c) > 0x9F for c in taken.text)


def test_what_the_files_say_stands_apart_from_the_words() -> None:
    message = InboundMessage(
        Address(ChannelId("discord"), "1"), Author(UserId("discord:1"), "A"), "2", "look"
    )
    file = Attachment("a.png", "image/png", 1, BlobHash("0"))
    whole = with_files(message, Taken((file,), "[b.zip is attached]", ("c.png was not taken: it is empty.",)))
    assert whole.text == "look"
    assert whole.file_text == "[b.zip is attached]\n\n[c.png was not taken: it is empty.]"
    assert whole.attachments == (file,)
    assert with_files(message, Taken()) == message


async def test_a_file_comes_from_a_configured_cdn_over_a_real_socket() -> None:
    async with open_host(answering(PNG)) as host:
        base = f"http://127.0.0.1:{host.port}"
        file = Offered("a.png", f"{base}/attachments/1/2/a.png?ex=1&hm=2&", len(PNG), "image/png")
        assert kinds(await take_files([file], Kept(), make_fetch(base))) == [("a.png", "image/png")]
        for elsewhere in (make_fetch(), plain_fetcher(host)):
            strange = Offered("a.png", "https://evil.example/a.png", 10)
            taken = await take_files([strange], Kept(), elsewhere)
            assert taken.complaints == (
                "a.png was not taken: it is on a host that Pilothouse does not fetch from.",
            )
        assert host.came == 1
    assert HOSTS == ("cdn.discordapp.com", "media.discordapp.net")
