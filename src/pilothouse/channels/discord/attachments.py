"""Files that came with a message: images and others are kept as attachments, short texts are put into the prompt.

What a file is, its bytes say. What somebody announced about its size is believed only where that refuses it: the same
bounds hold for the bytes. Whatever is not taken is complained about by name, and never by its address.
"""

from __future__ import annotations

from collections.abc import Sequence

import anyio
from msgspec import Struct
from msgspec.structs import replace

from pilothouse.channels.discord.inlining import Inliner, text_of
from pilothouse.channels.parts import safe_name
from pilothouse.core.engine import Blobs
from pilothouse.core.media import EXTENSIONS, sniff
from pilothouse.core.message import Attachment, InboundMessage
from pilothouse.http.allowlist import Fetch, Unfetched

HOSTS = ("cdn.discordapp.com", "media.discordapp.net")
FILE_BYTES = 20 << 20
TOTAL_BYTES = 50 << 20
IMAGES = 10
OTHERS = 10
AT_ONCE = 4

_ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".gif")
_LEAST_BYTES = {"image/png": 45, "image/jpeg": 20, "image/gif": 26, "image/webp": 26}
"""No image is smaller: what only begins like one is none."""
NO_IMAGE = "it is no PNG, JPEG, WebP or GIF image, whatever it is called"
EMPTY = "it is empty"
TOO_BIG = f"it has more than {FILE_BYTES >> 20} MB"
TOO_MUCH = f"all files of a message together may have {TOTAL_BYTES >> 20} MB"
TOO_MANY_IMAGES = f"a message takes {IMAGES} images at most"
TOO_MANY = f"a message takes {OTHERS} files besides images at most"


class Offered(Struct, frozen=True):
    """A file as Discord tells of it; `media_type` may be empty, and any of it may be a lie."""

    name: str
    url: str
    size: int
    media_type: str = ""


class Taken(Struct, frozen=True):
    """`text` is what the files say; each complaint is a sentence for the person and for the engine."""

    attachments: tuple[Attachment, ...] = ()
    text: str = ""
    complaints: tuple[str, ...] = ()


class _Wanted(Struct, frozen=True):
    name: str
    offered: Offered
    image: bool
    """Whether it was announced as one."""


def make_fetch(cdn_base: str = "") -> Fetch:
    """From Discord's own hosts, and from `cdn_base` if one is configured. Brings the HTTP library with it."""
    from pilothouse.http.allowlist import Hosts
    from pilothouse.http.fetch import Fetcher

    return Fetcher(Hosts(HOSTS, cdn_base))


async def take_files(offered: Sequence[Offered], blobs: Blobs, fetch: Fetch) -> Taken:
    """Raises only what `blobs` raises: a store that takes nothing now."""
    wanted = _choose(offered)
    found = await _fetch_all([one for one in wanted if isinstance(one, _Wanted)], fetch)
    taking = _Taking(blobs)
    for one in wanted:
        if isinstance(one, str):
            taking.complaints.append(one)
        else:
            await taking.take(one, found[one])
    return taking.taken()


def with_files(message: InboundMessage, taken: Taken) -> InboundMessage:
    """What the files say, then what became of the others."""
    complaints = "\n".join(f"[{complaint}]" for complaint in taken.complaints)
    text = "\n\n".join(part for part in (taken.text, complaints) if part)
    return replace(message, file_text=text, attachments=(*message.attachments, *taken.attachments))


def _choose(offered: Sequence[Offered]) -> list[_Wanted | str]:
    """By what is announced, in order: which ones are worth fetching, and a complaint for each of the others."""
    chosen: list[_Wanted | str] = []
    counts, room = {True: IMAGES, False: OTHERS}, TOTAL_BYTES
    for number, file in enumerate(offered, 1):
        wanted = _Wanted(safe_name(file.name, f"file-{number}"), file, _says_image(file))
        if why := _refusal(file.size, room):
            chosen.append(_complaint(wanted, why))
        elif not counts[wanted.image]:
            chosen.append(_complaint(wanted, TOO_MANY_IMAGES if wanted.image else TOO_MANY))
        else:
            chosen.append(wanted)
            counts[wanted.image] -= 1
            room -= file.size
    return chosen


def _refusal(size: int, room: int) -> str:
    if size <= 0:
        return EMPTY
    if size > FILE_BYTES:
        return TOO_BIG
    return TOO_MUCH if size > room else ""


async def _fetch_all(wanted: Sequence[_Wanted], fetch: Fetch) -> dict[_Wanted, bytes | Unfetched]:
    """A few at once. Bytes that would exceed what all may have together are dropped as soon as they are there."""
    found: dict[_Wanted, bytes | Unfetched] = {}
    limiter, room = anyio.CapacityLimiter(AT_ONCE), TOTAL_BYTES

    async def get(one: _Wanted) -> None:
        nonlocal room
        async with limiter:
            data = await fetch(one.offered.url, FILE_BYTES)
        if isinstance(data, bytes) and len(data) > room:
            data = Unfetched("too_big", TOO_MUCH)
        elif isinstance(data, bytes):
            room -= len(data)
        found[one] = data

    async with anyio.create_task_group() as group:
        for one in dict.fromkeys(wanted):
            group.start_soon(get, one)
    return found


class _Taking:
    """What has been taken so far, in the order of the message."""

    def __init__(self, blobs: Blobs) -> None:
        self.complaints: list[str] = []
        self._blobs = blobs
        self._kept: list[Attachment] = []
        self._texts: list[str] = []
        self._images = 0
        self._inliner = Inliner()

    def taken(self) -> Taken:
        return Taken(tuple(self._kept), "\n\n".join(self._texts), tuple(self.complaints))

    async def take(self, one: _Wanted, data: bytes | Unfetched) -> None:
        if isinstance(data, Unfetched):
            self.complaints.append(_complaint(one, data.text))
        elif not data:
            self.complaints.append(_complaint(one, EMPTY))
        elif (media_type := image_type(data)) is not None:
            await self._take_image(one, data, media_type)
        elif one.image:
            self.complaints.append(_complaint(one, NO_IMAGE))
        else:
            await self._take_other(one, data)

    async def _take_image(self, one: _Wanted, data: bytes, media_type: str) -> None:
        """One that was announced as something else counts, too."""
        if self._images == IMAGES:
            self.complaints.append(_complaint(one, TOO_MANY_IMAGES))
            return
        self._images += 1
        self._kept.append(await self._blobs.put(data, one.name, media_type))

    async def _take_other(self, one: _Wanted, data: bytes) -> None:
        text = text_of(one.name, one.offered.media_type, data)
        inlined = self._inliner.inline(one.name, text) if text is not None else None
        if inlined is None or not inlined.whole:
            media_type = sniff(data) or _plain_type(one.offered.media_type)
            self._kept.append(await self._blobs.put(data, one.name, media_type))
        line = f"[{one.name} ({_size(len(data))}) is attached]"
        self._texts.append(line if inlined is None else inlined.text)


def image_type(data: bytes) -> str | None:
    """By the bytes alone; one that is cut off after its first ones is none."""
    media_type = sniff(data)
    if media_type not in EXTENSIONS or len(data) < _LEAST_BYTES[media_type]:
        return None
    return None if media_type == "image/png" and data[12:16] != b"IHDR" else media_type


def _says_image(file: Offered) -> bool:
    """By the announced type, else by the name."""
    if announced := _plain_type(file.media_type, ""):
        return announced in EXTENSIONS
    return file.name.lower().endswith(_ENDINGS)


def _plain_type(announced: str, otherwise: str = "application/octet-stream") -> str:
    media_type = announced.partition(";")[0].strip().lower()
    plain = media_type.isascii() and media_type.isprintable() and media_type.count("/") == 1
    return media_type if plain and len(media_type) <= 100 else otherwise


def _complaint(one: _Wanted, why: str) -> str:
    return f"{one.name} was not taken: {why}."


def _size(count: int) -> str:
    for power, unit in ((20, "MB"), (10, "KB")):
        if count >= 1 << power:
            return f"{count / (1 << power):.1f} {unit}"
    return f"{count} bytes"
