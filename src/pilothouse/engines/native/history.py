"""The durable history of a session: one file of JSON lines, each written before it is acted upon.

    Begun      the start of the session       Planned    the list of things to do
    Said       a prompt                       Ended      the end of a turn
    Steered    words for the running turn     Loaded     a skill that the model has read
    Replied    a whole reply of the model     Compacted  replaces everything before it
    Result     the outcome of one call            LeftOut    images that the provider refused

Rules: the messages are a fold over the lines, so a session that was killed at any point is read back as it was. Steered
words wait until the reply and the results before them are complete. The next turn closes calls without
a result, so no dialect ever sees a dangling call. A torn last line is cut off.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from pilothouse.core.errors import EngineError
from pilothouse.core.event import PlanItem, clean_values
from pilothouse.core.media import EXTENSIONS
from pilothouse.core.outcome import Failure
from pilothouse.engines.native.images import check_image, without_images
from pilothouse.engines.native.messages import Image, Message, Replied, Result, Said

FILE = "history.jsonl"
MAX_BYTES = 256 * 1024 * 1024
CUT_OFF = "This call was interrupted before its result was known. Check what it did before you repeat it."


class Begun(Struct, frozen=True, tag="begun"):
    workspace: str
    at: float


class Steered(Struct, frozen=True, tag="steered"):
    said: Said


class Planned(Struct, frozen=True, tag="planned"):
    items: tuple[PlanItem, ...]


class Loaded(Struct, frozen=True, tag="loaded"):
    path: str
    mtime_ns: int


class LeftOut(Struct, frozen=True, tag="left_out"):
    """The names of images that the conversation does not show from here on."""

    images: tuple[str, ...]


class Compacted(Struct, frozen=True, tag="compacted", omit_defaults=True):
    """`said` is the summary with the newest `words` of people; these and `goals` are kept over several compactions."""

    said: Said
    goals: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


class Ended(Struct, frozen=True, tag="ended", omit_defaults=True):
    outcome: Literal["completed", "failed", "cancelled"]
    at: float = 0.0
    tokens: int = 0
    """The size of the conversation, as the model counted it last."""


Record = Begun | Said | Steered | Replied | Result | Planned | Loaded | LeftOut | Compacted | Ended

_decode = msgspec.json.Decoder(Record).decode
_encode = msgspec.json.Encoder().encode


class Conversation:
    """The fold over the records. Pure."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.begun: Begun | None = None
        self.messages: list[Message] = []
        self.todos: tuple[PlanItem, ...] = ()
        self.loaded: dict[str, int] = {}
        self.goals: tuple[str, ...] = ()
        self.words: tuple[str, ...] = ()
        self.tokens = 0
        self.turns = 0
        self.use_ids: set[str] = set()
        self._open: dict[str, None] = {}
        self._waiting: list[Said] = []
        for record in records:
            self.add(record)

    @property
    def open_uses(self) -> tuple[str, ...]:
        """Calls without a result."""
        return tuple(self._open)

    @property
    def is_waiting(self) -> bool:
        """True if the model has to speak next."""
        return bool(self.messages) and not isinstance(self.messages[-1], Replied)

    @property
    def is_steered(self) -> bool:
        """True if the last words are not the model's, nor a result."""
        return bool(self.messages) and isinstance(self.messages[-1], Said)

    def add(self, record: Record) -> None:
        match record:
            case Begun():
                self.begun = record
            case Said():
                self._settle()
                self.messages.append(record)
            case Steered(said=said):
                self._waiting.append(said)
            case Replied(uses=uses):
                self._close_calls()
                self.messages.append(record)
                self._open = dict.fromkeys(use.id for use in uses)
                self.use_ids.update(self._open)
                if not uses:
                    self._flush()
            case Result(use_id=id):
                if id in self._open:
                    del self._open[id]
                    self.messages.append(record)
                    if not self._open:
                        self._flush()
            case Planned(items=items):
                self.todos = items
            case Loaded(path=path, mtime_ns=mtime_ns):
                self.loaded[path] = mtime_ns
            case LeftOut(images=images):
                self.messages = without_images(self.messages, images)
            case Compacted(said=said, goals=goals, words=words):
                self._close_calls()
                self.messages = list[Message]([said])
                self._flush()  # words that came while the summary was made are not in it
                self.goals, self.words, self.loaded, self.tokens = goals, words, dict[str, int](), 0
            case Ended(tokens=tokens):
                self._settle()
                self.tokens, self.turns = tokens, self.turns + 1

    def _settle(self) -> None:
        """Close calls without a result, and add the words that wait behind them."""
        self._close_calls()
        self._flush()

    def _close_calls(self) -> None:
        self.messages += [Result(id, CUT_OFF, ok=False) for id in self._open]
        self._open = {}

    def _flush(self) -> None:
        self.messages += self._waiting
        self._waiting = []


class History:
    """A session's folder: `history.jsonl`, and the images that were shown to the model."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._path = folder / FILE
        self.conversation = Conversation()

    @property
    def exists(self) -> bool:
        return self._path.is_file()

    def load(self) -> None:
        """Read the file. Raises `EngineError` if it is not one of ours."""
        try:
            if self._path.stat().st_size > MAX_BYTES:
                raise EngineError(Failure("stale_session", _unreadable(self._path, "it is too large")))
            lines = self._path.read_bytes().split(b"\n")
            self.conversation = Conversation(_decode(line) for line in lines[:-1] if line)
        except OSError as error:
            raise EngineError(
                Failure("stale_session", _unreadable(self._path, str(error.strerror)))
            ) from error
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise EngineError(Failure("stale_session", _unreadable(self._path, str(error)))) from error
        if lines[-1]:  # a line that was being written when the process was killed
            os.truncate(self._path, sum(len(line) + 1 for line in lines[:-1]))

    def add(self, record: Record) -> None:
        """Write one record, then count it as it was written. Raises `OSError` if it cannot be written."""
        try:
            line = _encode(record)
        except UnicodeEncodeError:
            line = _encode(clean_values(msgspec.to_builtins(record)))
            record = _decode(line)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _write(descriptor, line + b"\n")
        finally:
            os.close(descriptor)
        self.conversation.add(record)

    def keep_image(self, data: bytes) -> Image:
        """Keep an image that the model will see. Raises `BadImage`."""
        media_type = check_image(data)
        name = f"{hashlib.sha256(data).hexdigest()[:32]}.{EXTENSIONS[media_type]}"
        folder = self.folder / "images"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
        return Image(name, media_type)

    def image(self, image: Image) -> bytes:
        try:
            return (self.folder / "images" / os.path.basename(image.name)).read_bytes()
        except OSError:
            return b""


def decode_record(line: bytes) -> Record | None:
    """Read one line; None if it is not a whole record."""
    try:
        return _decode(line)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def _write(descriptor: int, line: bytes) -> None:
    """Write the whole line or nothing of it."""
    start = os.lseek(descriptor, 0, os.SEEK_END)
    left = line
    try:
        while left:
            left = left[os.write(descriptor, left) :]
    except OSError:
        os.ftruncate(descriptor, start)
        raise


def _unreadable(path: Path, why: str) -> str:
    return f"The history {path} cannot be read: {why}. Start a new session."
