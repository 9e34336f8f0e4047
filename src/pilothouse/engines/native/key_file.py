"""Keys, logins and choices that people gave in a chat: one JSON file that only its owner can read.

Several processes may use it: a change is made under a lock, to what the file holds then, and replaces the file as a whole. The
lock is never waited for on the event loop: a task that holds it while a server answers needs that loop. A key in the
configuration or in the environment counts before one in this file.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from pilothouse.core.secret import Secret
from pilothouse.engines.native.config import NativeConfig, ProviderName

FILE = "keys.json"
MAX_BYTES = 256 * 1024
LOCK_S, TRY_AGAIN_S = 40.0, 0.05
"""Longer than a server takes to renew a login."""
ANOTHER_KEY = "Send your message again to give another key"
RENEWED_FIRST = "Send your message again: the login is renewed first"


class Login(Struct, frozen=True, omit_defaults=True):
    """A login at OpenAI. `account` is the ChatGPT account that pays."""

    access: str
    refresh: str
    expires_at: float
    account: str = ""

    def __repr__(self) -> str:
        return "Login(…)"


class Kept(Struct, frozen=True, omit_defaults=True):
    keys: Mapping[str, str] = field(default_factory=dict)
    login: Login | None = None
    provider: ProviderName | None = None
    model: str = ""
    base_url: str = ""

    def __repr__(self) -> str:
        return "Kept(…)"


class KeyFile:
    def __init__(self, state_dir: str) -> None:
        self.path = Path(state_dir, FILE)

    def read(self) -> Kept:
        """Return what is kept; nothing if the file is missing or is not ours."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return Kept()
        with os.fdopen(descriptor, "rb") as file:
            try:
                return msgspec.json.decode(file.read(MAX_BYTES), type=Kept)
            except (msgspec.MsgspecError, UnicodeError, RecursionError):
                return Kept()

    async def change(self, change: Callable[[Kept], Kept]) -> Kept:
        """Replace what is kept. Raises `OSError` if it cannot be written."""
        async with self._locked():
            kept = change(self.read())
            self._write(kept)
        return kept

    async def renew(self, renew: Callable[[Kept], Awaitable[Kept]]) -> Kept:
        """Replace what is kept by what a server answers. Other processes wait: a token may be renewed once only."""
        async with self._locked():
            before = self.read()
            kept = await renew(before)
            if kept != before:
                self._write(kept)
        return kept

    def _write(self, kept: Kept) -> None:
        new = self.path.with_suffix(".new")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o600)
            file.write(msgspec.json.encode(kept))
            file.flush()
            os.fsync(descriptor)
        os.replace(new, self.path)

    async def reject(self, provider: ProviderName, key: str) -> str:
        """Remove a key that its provider did not accept, and return what people do next; empty if another one is kept by now.

        A login's token only counts as ended: a login is removed when its renewal is refused. Raises `OSError`."""
        kept = self.read()
        if kept.keys.get(provider) == key:
            await self.change(lambda now: _without_key(now, provider, key))
            return ANOTHER_KEY
        if provider == "openai" and kept.login and kept.login.access == key:
            await self.change(lambda now: _with_ended_login(now, key))
            return RENEWED_FIRST
        return ""

    async def clear(self) -> list[str]:
        """Remove every key and the login; return their names for people. Raises `OSError` if it cannot be written."""
        removed: list[str] = []

        def empty(kept: Kept) -> Kept:
            removed.extend(f"the key of {name}" for name in kept.keys)
            removed.extend(["the login at OpenAI"] if kept.login else [])
            return Kept()

        if self.path.exists():
            await self.change(empty)
        return removed

    @asynccontextmanager
    async def _locked(self) -> AsyncIterator[None]:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            await _acquire(descriptor)
            yield
        finally:
            os.close(descriptor)


async def _acquire(descriptor: int) -> None:
    with anyio.move_on_after(LOCK_S):
        while True:
            with suppress(BlockingIOError):
                return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            await anyio.sleep(TRY_AGAIN_S)
    raise TimeoutError(errno.ETIMEDOUT, f"Another process holds the lock of {FILE}")


def _without_key(kept: Kept, provider: ProviderName, key: str) -> Kept:
    keys = {name: text for name, text in kept.keys.items() if (name, text) != (provider, key)}
    return replace(kept, keys=keys)


def _with_ended_login(kept: Kept, token: str) -> Kept:
    login = kept.login
    return replace(kept, login=replace(login, expires_at=0.0)) if login and login.access == token else kept


def with_kept(config: NativeConfig, kept: Kept) -> NativeConfig:
    """Fill in what the configuration leaves open."""
    found = {name: Secret(key, FILE) for name, key in kept.keys.items()}
    provider = config.provider or kept.provider
    same = provider == kept.provider
    return replace(
        config,
        provider=provider,
        model=config.model or (kept.model if same and kept.model else None),
        base_url=config.base_url or (kept.base_url if same and kept.base_url else None),
        anthropic_api_key=config.anthropic_api_key or found.get("anthropic", config.anthropic_api_key),
        openai_api_key=config.openai_api_key or found.get("openai", config.openai_api_key),
        openrouter_api_key=config.openrouter_api_key or found.get("openrouter", config.openrouter_api_key),
        api_key=config.api_key or found.get("compatible", config.api_key),
    )
