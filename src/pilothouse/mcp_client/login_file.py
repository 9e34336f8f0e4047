"""The login of one server, in a private file of its own that several processes may share.

A change holds a lock beside the file and replaces the file as a whole. A refresh holds the same lock while it asks the server:
a refresh token may be good for one use only.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import msgspec
from msgspec import Struct

from pilothouse.core.errors import ConfigError

LOCK_S, TRY_AGAIN_S = 40.0, 0.05
EARLY_S = 60.0
"""A token is refreshed so long before its end."""
MOST_BYTES = 200_000


class Login(Struct, frozen=True, omit_defaults=True):
    """`tokens` and `client` are values of the SDK. `scope` is what a refused call asked for, wanted at the next login."""

    tokens: dict[str, Any] = {}
    expires_at: float = 0.0
    """0 if the server did not say."""
    client: dict[str, Any] = {}
    token_url: str = ""
    scope: str = ""

    @property
    def access_token(self) -> str:
        return str(self.tokens.get("access_token") or "")

    @property
    def can_refresh(self) -> bool:
        return bool(self.tokens.get("refresh_token") and self.client)

    def is_stale(self, now: float) -> bool:
        """Tell whether the access token ends soon and can be refreshed."""
        ends_soon = bool(self.expires_at) and self.expires_at - EARLY_S <= now
        return ends_soon and self.can_refresh


class LoginFile:
    """Named by the server's id and address: under another address the id gets no tokens of this one."""

    def __init__(self, folder: Path, id: str, url: str) -> None:
        self._path = folder / f"{id}-{hashlib.sha256(url.encode()).hexdigest()[:16]}.json"

    def read(self) -> Login:
        """Return the login; an empty one if there is none or it cannot be read."""
        with suppress(OSError, msgspec.MsgspecError), self._path.open("rb") as file:
            return msgspec.json.decode(file.read(MOST_BYTES), type=Login)
        return Login()

    async def change(self, **values: Any) -> None:
        async with self.locked():
            self.write(msgspec.structs.replace(self.read(), **values))

    def write(self, login: Login) -> None:
        """Replace the file. Call it while the lock is held."""
        number, draft = tempfile.mkstemp(dir=self._folder(), prefix=".login.")  # with the mode 0600
        try:
            with os.fdopen(number, "wb") as out:
                out.write(msgspec.json.encode(login))
                out.flush()
                os.fsync(out.fileno())
            os.replace(draft, self._path)
        except BaseException:
            os.unlink(draft)
            raise

    def forget(self) -> bool:
        """Remove the login; false if there was none."""
        existed = self._path.exists()
        self._path.unlink(missing_ok=True)
        return existed

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """Hold the lock of this login against every other holder, in this process too. Raises `ConfigError`."""
        number = os.open(
            self._folder() / f"{self._path.name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        try:
            await self._acquire(number)
            yield
        finally:
            os.close(number)

    async def _acquire(self, number: int) -> None:
        with anyio.move_on_after(LOCK_S):
            while True:
                with suppress(BlockingIOError):
                    return fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
                await anyio.sleep(TRY_AGAIN_S)
        raise ConfigError(f"Another process holds the lock of {self._path}. Try again when it has ended.")

    def _folder(self) -> Path:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise ConfigError(f"{self._path.parent} cannot be created: {error.strerror}.") from error
        return self._path.parent
