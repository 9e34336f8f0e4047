"""Takes the files of a message: fetches them, puts short texts into the prompt, and keeps the others as attachments.

The bytes decide what a file is. An announced size is believed only if it refuses the file; the same bounds hold for the
bytes. A file that is not taken is named to the person, without its address. Downloads are bounded in memory and per
person, so that a slow host holds up only the person who named it.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

import anyio
from msgspec import Struct
from msgspec.structs import replace

from pilothouse.channels.parts import safe_name
from pilothouse.core.engine import Blobs
from pilothouse.core.ids import UserId
from pilothouse.core.media import EXTENSIONS, sniff
from pilothouse.core.message import Attachment, InboundMessage
from pilothouse.http.allowlist import Fetch, Unfetched

INLINE_BYTES = 100 << 10
INLINE_TOTAL_BYTES = 190_000
"""For all files of a message; together with its text this stays below `gateway.max_message_chars`."""
INLINE_LEAST_BYTES = 1000
"""The beginning of a file is shown only where it may be at least so long."""

_TEXT_TYPES = re.compile(
    r"text/.*|application/(?:[\w.-]+\+)?(?:json|xml|yaml|toml|javascript|typescript|sql|graphql|x-sh|x-yaml|x-ndjson)"
    r"|image/svg\+xml|application/x-(?:httpd-php|python|ruby|perl|tex|subrip)"
)
_TEXT_ENDINGS = re.compile(
    "txt|md|rst|org|log|csv|tsv|json|jsonl|ndjson|json5|yaml|yml|toml|ini|cfg|conf|env|properties"
    "|xml|svg|html|htm|css|scss|less|js|mjs|cjs|jsx|ts|tsx|vue|svelte|py|pyi|ipynb|rb|php|pl|lua|r"
    "|jl|go|rs|c|h|cc|cpp|hpp|cs|java|kt|kts|scala|swift|m|mm|dart|ex|exs|erl|hs|ml|clj|lisp|el|vim"
    "|sh|bash|zsh|fish|ps1|bat|cmd|sql|graphql|proto|tf|nix|dockerfile|makefile|cmake|gradle|diff"
    "|patch|tex|bib|srt|vtt|lock|gitignore|editorconfig"
)
_CUT = "[Only the beginning of {} is shown here; the whole file is attached.]"
_LANGUAGE = re.compile(r"[a-z0-9+#]{1,12}")
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
"""Control characters but for tab and newline, and marks that turn the direction of what follows."""


class Inlined(Struct, frozen=True):
    text: str
    whole: bool


class Inliner:
    """Puts the text files of one message into the prompt, within one shared limit."""

    def __init__(self) -> None:
        self._room = INLINE_TOTAL_BYTES

    def inline(self, name: str, text: str) -> Inlined | None:
        """None where there is no room left for any of it."""
        begin = text[: INLINE_BYTES + 1].replace("\r\n", "\n").replace("\r", "\n")
        data = _HIDDEN.sub("", begin).encode()
        most = min(INLINE_BYTES, self._room)
        whole = len(text) <= INLINE_BYTES and len(data) <= most
        if not whole and most < INLINE_LEAST_BYTES:
            return None
        shown = data[:most].decode(errors="ignore")
        self._room -= len(shown.encode())
        block = f"{name}:\n{_fenced(name, shown)}"
        return Inlined(block if whole else f"{block}\n{_CUT.format(name)}", whole)


def text_of(name: str, media_type: str, data: bytes) -> str | None:
    """Decode a text file; None if its type and name, or its bytes, say that it is none."""
    announced, ending = media_type.partition(";")[0].strip().lower(), _ending(name)
    if not (_TEXT_TYPES.fullmatch(announced) or _TEXT_ENDINGS.fullmatch(ending)):
        return None
    encoding = "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _fenced(name: str, text: str) -> str:
    runs = re.findall(r"`{3,}", text)
    marks = "`" * max([3, *(len(run) + 1 for run in runs)])
    language = _ending(name) if "." in name and _LANGUAGE.fullmatch(_ending(name)) else ""
    return f"{marks}{language}\n{text}{'' if text.endswith(chr(10)) else chr(10)}{marks}"


def _ending(name: str) -> str:
    """The ending of a file name; without a dot it is the whole name, as in `Makefile`."""
    return name.lower().rpartition(".")[2]


HOSTS = ("cdn.discordapp.com", "media.discordapp.net")
FILE_BYTES = 20 << 20
TOTAL_BYTES = 50 << 20
IMAGES = 10
OTHERS = 10
AT_ONCE = 4

_ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".gif")
_LEAST_BYTES = {"image/png": 45, "image/jpeg": 20, "image/gif": 26, "image/webp": 26}
"""No image is smaller: what only begins like one is none."""
NO_IMAGE = "it is not a PNG, JPEG, WebP or GIF image"
EMPTY = "it is empty"
TOO_BIG = f"it is larger than {FILE_BYTES >> 20} MB"
TOO_MUCH = f"the files of one message may have {TOTAL_BYTES >> 20} MB together"
TOO_MANY_IMAGES = f"a message takes {IMAGES} images at most"
TOO_MANY = f"a message takes {OTHERS} files besides images at most"


class Offered(Struct, frozen=True):
    """A file as Discord announces it; `media_type` may be empty, and nothing here is trusted."""

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
    """It was announced as an image."""


def make_fetch(cdn_base: str = "") -> Fetch:
    """Make a fetcher for Discord's hosts, and for `cdn_base` if configured. Imports the HTTP library."""
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
    """Add the text of the files, the attachments, and the complaints to a message."""
    complaints = "\n".join(f"[{complaint}]" for complaint in taken.complaints)
    text = "\n\n".join(part for part in (taken.text, complaints) if part)
    return replace(message, file_text=text, attachments=(*message.attachments, *taken.attachments))


def _choose(offered: Sequence[Offered]) -> list[_Wanted | str]:
    """Choose the files to fetch by their announced size and type; the others get a complaint."""
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
    """Fetch a few files at once; drop bytes beyond the limit of a message as they arrive."""
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
    """Collects the taken files in the order of the message."""

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
        """Keep an image; one that was announced as something else counts too."""
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
    """Recognize an image by its bytes; a truncated header is no image."""
    media_type = sniff(data)
    if media_type not in EXTENSIONS or len(data) < _LEAST_BYTES[media_type]:
        return None
    return None if media_type == "image/png" and data[12:16] != b"IHDR" else media_type


def _says_image(file: Offered) -> bool:
    """Is it announced as an image, by type or else by name?"""
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


ROOM_BYTES = 4 * TOTAL_BYTES
ROOM_LEAST_BYTES = ROOM_BYTES // 50
"""The least that a message counts for, since its connections cost memory too."""
OF_ONE_PERSON = 2
"""Messages, at a time."""


class Downloads:
    def __init__(self, blobs: Blobs, fetch: Fetch) -> None:
        self._blobs = blobs
        self._fetch = fetch
        self._people: WeakValueDictionary[UserId, anyio.CapacityLimiter] = WeakValueDictionary()
        """Limiters of people who are fetching or waiting."""
        self._used = 0
        self._freed = anyio.Condition()

    async def take(self, by: UserId, files: Sequence[Offered]) -> Taken:
        """Raises only what the blobs raise: a store that takes nothing now."""
        seats = self._people.setdefault(by, anyio.CapacityLimiter(OF_ONE_PERSON))
        announced = sum(max(file.size, 0) for file in files)
        async with seats, self._room(min(max(announced, ROOM_LEAST_BYTES), TOTAL_BYTES)):
            return await take_files(files, self._blobs, self._fetch)

    @asynccontextmanager
    async def _room(self, size: int) -> AsyncIterator[None]:
        async with self._freed:
            while self._used + size > ROOM_BYTES:
                await self._freed.wait()
            self._used += size
        try:
            yield
        finally:
            self._used -= size
            with anyio.CancelScope(shield=True):
                async with self._freed:
                    self._freed.notify_all()
