"""What people attach: told by its bytes, bounded, and nothing lost without a word."""

from __future__ import annotations

import base64

import pytest
from tests.engines.claude.wire_samples import PNG

from pilothouse.core.media import sniff
from pilothouse.engines.claude.prompt import content_blocks, user_content
from pilothouse.engines.media import MAX_IMAGE_BYTES, MAX_TOTAL_BYTES, File, attach

PICTURE = base64.b64decode(PNG)
PDF = b"%PDF-1.7 ..."


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (PICTURE, "image/png"),
        (b"\xff\xd8\xff\xe0rest", "image/jpeg"),
        (b"GIF89a...", "image/gif"),
        (b"GIF87a...", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
        (b"RIFF\x00\x00\x00\x00WAVEfmt ", None),
        (PDF, "application/pdf"),
        (b"<svg xmlns=''/>", None),
        (b"", None),
    ],
)
def test_a_file_is_what_its_bytes_say(data: bytes, media_type: str | None) -> None:
    assert sniff(data) == media_type


def test_images_go_as_images_pdfs_as_documents_and_others_to_a_folder() -> None:
    note = File("notes.png", b"just text")
    attached = attach([File("a.txt", PICTURE), File("b", PDF), note], "Claude")
    blocks = content_blocks(attached.inline)
    assert [block["type"] for block in blocks] == ["image", "document"]
    assert blocks[0]["source"] == {"type": "base64", "media_type": "image/png", "data": PNG}
    assert (attached.others, attached.refused) == ((note,), ())


def test_the_eleventh_is_refused() -> None:
    attached = attach([File(f"{n}.png", PICTURE) for n in range(11)], "Claude")
    assert len(attached.inline) == 10
    assert attached.refused == ("10.png was not given to Claude: a turn takes 10 at most.",)


def test_one_that_is_too_large_is_refused_and_the_next_is_not() -> None:
    attached = attach([File("big\n.png", PICTURE + bytes(MAX_IMAGE_BYTES)), File("a.png", PICTURE)], "Claude")
    assert len(attached.inline) == 1
    assert attached.refused == ("big?.png was not given to Claude: it is larger than 20 MB.",)


def test_all_together_have_a_bound() -> None:
    third = PICTURE + bytes(MAX_TOTAL_BYTES // 3)
    attached = attach([File(f"{n}", third) for n in range(3)], "Claude")
    assert len(attached.inline) == 2
    assert "50 MB" in attached.refused[0]


def test_a_prompt_without_images_stays_a_text() -> None:
    assert user_content("hi", ()) == "hi"
    content = user_content("hi", attach([File("a", PICTURE)], "Claude").inline)
    assert not isinstance(content, str)
    assert [block["type"] for block in content] == ["text", "image"]
