"""Files that go out: each once, under a name that Discord shows, as many to a message as Discord takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from pilothouse.channels.parts import sent_name
from pilothouse.core.message import Attachment

_ENDINGS = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/gif": "gif",
    "image/webp": "webp",
}


class Upload(Struct, frozen=True):
    name: str
    file: Attachment


def render_uploads(attachments: Iterable[Attachment]) -> list[Upload]:
    """The same bytes twice are one file; two files of one name have two names."""
    once = {file.blob: file for file in reversed(list(attachments))}
    files = list(reversed(once.values()))
    taken: set[str] = set()
    return [Upload(_free(name, taken), file) for name, file in zip(_names(files), files, strict=True)]


def _names(files: list[Attachment]) -> Iterator[str]:
    pictures = 0
    for file in files:
        ending = _ENDINGS.get(file.media_type.partition(";")[0].strip().lower())
        pictures += ending is not None
        yield f"image-{pictures}.{ending}" if ending else sent_name(file.name, "file")


def _free(name: str, taken: set[str]) -> str:
    stem, dot, ending = name.rpartition(".") if "." in name[1:] else (name, "", "")
    found, number = name, 1
    while found.lower() in taken:
        number += 1
        found = f"{stem}-{number}{dot}{ending}"
    taken.add(found.lower())
    return found
