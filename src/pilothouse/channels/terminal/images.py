"""Images in a typed message: named as `@pic.png`, dragged into the window, or pasted with Ctrl-V.

A word that names no image file stays a word. The type is detected from the bytes, never from the name.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import anyio
import anyio.to_thread

from pilothouse.channels.terminal.setup import Setup
from pilothouse.core.channel import FILE_BYTES
from pilothouse.core.media import EXTENSIONS, sniff
from pilothouse.core.message import Attachment
from pilothouse.core.text import file_size

MOST_IMAGES = 20
PASTE_S = 5.0
KEPT_S = 86_400.0
READERS = (
    ("wl-paste", "--no-newline", "--type", "image/png"),
    ("xclip", "-selection", "clipboard", "-t", "image/png", "-o"),
    ("pngpaste", "-"),
)
"""Programs that print the image on the clipboard."""
_WORD = re.compile(r"""@?(?:"[^"\n]+"|'[^'\n]+'|(?:\\.|[^\s"'\\])+)""")
_ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".webp")


class ImageProblem(Exception):
    """Raised if an image cannot be used; the message is for the person."""


async def find_images(text: str, setup: Setup) -> tuple[Attachment, ...]:
    """Stores the images that the text names, and returns them."""
    found = list[Attachment]()
    for path in dict.fromkeys(_named(text, setup.folder)):
        data = await anyio.to_thread.run_sync(_read, path)
        if data is not None and (media_type := sniff(data)) in EXTENSIONS:
            found.append(await setup.blobs.put(data, path.name, media_type))
        if len(found) == MOST_IMAGES:
            break
    return tuple(found)


def is_file(text: str) -> bool:
    """True if the text begins with the path of a file, as a dragged one does; else a leading `/` means a command."""
    word = _WORD.match(text)
    return word is not None and _path(word[0], "").is_file()


def _named(text: str, folder: str) -> Iterator[Path]:
    for word in _WORD.findall(text):
        bare = word.strip("@\"'").lower()
        is_path = word.startswith(("@", "/", "~", "file://", '"/', "'/", '"~', "'~"))
        if is_path and bare.rstrip(".,;:!?)").endswith(_ENDINGS):
            yield _path(word, folder)


def _path(word: str, folder: str) -> Path:
    """Reads a path as people type it, and as terminals write a dragged file."""
    bare = word.removeprefix("@")
    if bare[:1] in "\"'":
        bare = bare[1:-1]
    else:
        bare = re.sub(r"\\(.)", r"\1", bare.rstrip(".,;:!?)"))
    if bare.startswith("file://"):
        bare = unquote(urlsplit(bare).path)
    return Path(folder or ".", os.path.expanduser(bare))


def _read(path: Path) -> bytes | None:
    try:
        if not path.is_file():
            return None
        if (size := path.stat().st_size) > FILE_BYTES:
            raise ImageProblem(
                f"{path.name} is too large: {file_size(size)}; the limit is {file_size(FILE_BYTES)}."
            )
        return path.read_bytes()
    except OSError as error:
        raise ImageProblem(f"{path.name} cannot be read: {error.strerror}.") from error


async def paste_image(folder: Path, now: float) -> Path:
    """Saves the image on the clipboard in the folder, and returns its path."""
    readers = [command for command in READERS if shutil.which(command[0])]
    for command in readers:
        with anyio.move_on_after(PASTE_S):
            done = await anyio.run_process(command, check=False)
            if done.returncode == 0 and (ending := EXTENSIONS.get(sniff(done.stdout) or "")):
                return _save(folder, f"pasted-{int(now * 1000)}.{ending}", done.stdout, now)
    if readers:
        raise ImageProblem("There is no image on the clipboard.")
    raise ImageProblem(
        "Images are pasted with wl-paste, xclip or pngpaste: install one, or type the image's path."
    )


def _save(folder: Path, name: str, data: bytes, now: float) -> Path:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for old in folder.glob("pasted-*"):
        if now - old.stat().st_mtime > KEPT_S:
            old.unlink(missing_ok=True)
    path = folder / name
    with os.fdopen(os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as file:
        file.write(data)
    return path
