"""One request to Discord's REST API through discord.py, which knows the buckets; one bounded answer, as a value.

Of each request we know whether it ever left: what was never sent is sent again without a word, what may have arrived
is not. Importing this imports discord.py: do it where a connection is opened.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from contextvars import ContextVar
from copy import copy
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import aiohttp
import anyio
import discord
import msgspec
from discord.http import HTTPClient, MultipartParameters, Route
from msgspec import Struct, field

from pilothouse.channels.advice import why_unreachable
from pilothouse.channels.discord.buckets import Buckets, is_apart
from pilothouse.channels.discord.trouble import LONG_S, TOO_MANY_OLD_EDITS, Trouble

CALL_S = 20.0
UPLOAD_S = 55.0
MIN_BYTES_PER_S = 128_000
"""Bytes in a second: so much longer a file may take. A delivery waits longer than all tries of it."""
PATIENCE_S = 10.0
"""A longer pause than this is not waited for with a request in the hand."""
TEXT_CHARS = 300

_UNANSWERED = (aiohttp.ClientError, OSError, TimeoutError, RuntimeError, ValueError)
"""Of the last two: a connection that was closed before its request, tries that are used up, and JSON that is none."""


class Upload(Struct, frozen=True):
    name: str
    data: bytes


class _Pause(Struct, frozen=True):
    """What stands in a 429."""

    retry_after: float = 0.0
    code: int = 0
    everywhere: bool = field(default=False, name="global")


class _Pauses:
    """What Discord forbids for longer than a request waits: nobody asks again before that is over."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def wait_s(self, route: Route) -> float:
        for_all = 0.0 if is_apart(route.path) else self._until.get("", 0.0)
        until = max(self._until.get(_bucket(route), 0.0), for_all)
        return max(0.0, until - time.monotonic())

    def note(self, route: Route, pause: _Pause) -> None:
        """An old message that was changed too often is no reason to leave the others alone."""
        if pause.retry_after > PATIENCE_S and pause.code != TOO_MANY_OLD_EDITS:
            key = "" if pause.everywhere else _bucket(route)
            self._until[key] = time.monotonic() + pause.retry_after
            self._until = {key: at for key, at in self._until.items() if at > time.monotonic()}


def _bucket(route: Route) -> str:
    return f"{route.key}:{route.major_parameters}"


def _unstick(http: HTTPClient, route: Route, pause: _Pause) -> None:
    """discord.py 2.7 waits for whoever was cancelled while they waited: a whole bucket for half a minute, and after a
    pause for all, everything for ever. So what they held is given back."""
    if pause.everywhere and not http._global_over.is_set():
        asyncio.get_running_loop().call_later(pause.retry_after, http._global_over.set)
    known = http._bucket_hashes.get(route.key) or route.key
    bucket = http._buckets.get(f"{known}:{route.major_parameters}")
    if bucket is not None and bucket.remaining <= 0 and bucket.outgoing == 0 and bucket.expires is None:
        bucket.reset()
        bucket._wake(bucket.remaining)


def _without_pause_for_all(http: HTTPClient) -> HTTPClient:
    """The same client, session and buckets, which waits for no pause of others: in discord.py 2.7 one for all requests
    holds up what answers an interaction, too, although Discord leaves that alone."""
    apart = copy(http)
    apart._global_over = asyncio.Event()
    apart._global_over.set()
    return apart


class Attempt:
    """What is known of the request that is on its way in this task."""

    def __init__(self, scope: anyio.CancelScope) -> None:
        self._scope = scope
        self._maybe_done_before = False
        self.flying = False
        self.status = 0
        self.body = b""
        self.pause = _Pause()

    @property
    def maybe_done(self) -> bool:
        """discord.py repeats some requests by itself, and an earlier one may have been taken."""
        return self._maybe_done_before or self.flying or self.status >= 500

    def begin(self) -> None:
        self._maybe_done_before = self.maybe_done
        self.flying, self.status, self.body, self.pause = True, 0, b"", _Pause()

    def read(self, chunk: bytes) -> None:
        """discord.py waits as long as Discord says; what would take too long comes again later."""
        self.body += chunk
        if self.status == 429:
            with suppress(msgspec.DecodeError):
                self.pause = msgspec.json.decode(self.body, type=_Pause)
            if self.pause.retry_after > PATIENCE_S:
                self._scope.cancel()


_ATTEMPT: ContextVar[Attempt | None] = ContextVar("pilothouse.discord.attempt", default=None)


def tracing(buckets: Buckets) -> aiohttp.TraceConfig:
    """Each request waits for room; then the attempt of its task is told what becomes of it, and the buckets what the
    answer says of them."""
    trace = aiohttp.TraceConfig()

    async def started(
        _session: object, _ctx: SimpleNamespace, params: aiohttp.TraceRequestStartParams
    ) -> None:
        """Here and not before: discord.py may have waited, and repeats by itself."""
        await buckets.take_room(params.url.path)
        if attempt := _ATTEMPT.get():
            attempt.begin()

    async def answered(
        _session: object, _ctx: SimpleNamespace, params: aiohttp.TraceRequestEndParams
    ) -> None:
        if attempt := _ATTEMPT.get():
            attempt.flying, attempt.status = False, params.response.status
        buckets.note(params.method, params.url.path, params.response.headers)

    async def read(
        _session: object, _ctx: SimpleNamespace, params: aiohttp.TraceResponseChunkReceivedParams
    ) -> None:
        if attempt := _ATTEMPT.get():
            attempt.read(params.chunk)

    async def broke(
        _session: object, _ctx: SimpleNamespace, params: aiohttp.TraceRequestExceptionParams
    ) -> None:
        attempt = _ATTEMPT.get()
        if attempt and isinstance(params.exception, aiohttp.ClientConnectorError):
            attempt.flying = False

    trace.on_request_start.append(started)
    trace.on_request_end.append(answered)
    trace.on_response_chunk_received.append(read)
    trace.on_request_exception.append(broke)
    return trace


class Calls:
    """Opened with a connection, and closed with it."""

    def __init__(self, http: HTTPClient, application_id: str, hide: Any) -> None:
        self._http = http
        self._apart = _without_pause_for_all(http)
        self._hide = hide
        self._pauses = _Pauses()
        self.application_id = application_id

    async def get(self, path: str, *, query: dict[str, Any] | None = None, **ids: Any) -> Any | Trouble:
        return await self._call(Route("GET", path, **ids), CALL_S, params=query or {})

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        files: Sequence[Upload] = (),
        within_s: float = CALL_S,
        **ids: Any,
    ) -> Any | Trouble:
        route = Route(method, path, **ids)
        if body is None:
            return await self._call(route, within_s)
        if not files:
            return await self._call(route, within_s, json=body)
        with _multipart(body, files) as params:
            within_s = max(within_s, UPLOAD_S + sum(len(file.data) for file in files) / MIN_BYTES_PER_S)
            return await self._call(route, within_s, files=params.files, form=params.multipart)

    async def _call(self, route: Route, within_s: float, **more: Any) -> Any | Trouble:
        if (pause_s := self._pauses.wait_s(route)) > PATIENCE_S:
            return Trouble(f"Discord asks for a pause of {pause_s:.0f} s", after_s=pause_s)
        http = self._apart if is_apart(route.path) else self._http
        with anyio.move_on_after(within_s) as scope:
            attempt = Attempt(scope)
            before = _ATTEMPT.set(attempt)
            try:
                return await http.request(route, **more)
            except discord.HTTPException as error:
                return self._refused(error)
            except _UNANSWERED as error:
                text = self._hide(why_unreachable(error))
                text = f"Discord could not be reached: {text}"[:TEXT_CHARS]
                return Trouble(text, maybe_done=attempt.maybe_done or 200 <= attempt.status < 300)
            finally:
                _ATTEMPT.reset(before)
                self._pauses.note(route, attempt.pause)
                _unstick(http, route, attempt.pause)
        return _late(attempt, within_s)

    def _refused(self, error: discord.HTTPException) -> Trouble:
        status = error.status
        text = self._hide(error.text or f"{status} {error.response.reason}")[:TEXT_CHARS]
        if status == 429 and error.code == TOO_MANY_OLD_EDITS:
            return Trouble(text, status, error.code)
        if status == 429:  # not a bucket's: Cloudflare keeps us out for a while
            return Trouble(f"Discord keeps us out for a while: {text}", status, after_s=LONG_S)
        if status >= 500:
            return Trouble(f"Discord answered {status}", status, maybe_done=True)
        return Trouble(f"Discord answered {status}: {text}", status, error.code, about=text)


def _late(attempt: Attempt, within_s: float) -> Any | Trouble:
    """The time is up. An answer may have come all the same: who empties a bucket waits until it is full again."""
    if 200 <= attempt.status < 300:
        try:
            return msgspec.json.decode(attempt.body) if attempt.body else None
        except msgspec.DecodeError:
            return Trouble("Discord's answer was cut short", maybe_done=True)
    if attempt.pause.code == TOO_MANY_OLD_EDITS:
        return Trouble("this message was changed too often", 429, TOO_MANY_OLD_EDITS)
    if (after_s := attempt.pause.retry_after) > 0:
        return Trouble(f"Discord asks for a pause of {after_s:.0f} s", after_s=after_s)
    if attempt.maybe_done:
        return Trouble(f"Discord did not answer within {within_s:.0f} s", maybe_done=True, late=True)
    return Trouble("Discord's limits leave no room for this right now")


def _multipart(body: Any, files: Sequence[Upload]) -> MultipartParameters:
    listed = [{"id": number, "filename": file.name} for number, file in enumerate(files)]
    payload = msgspec.json.encode({**body, "attachments": listed}).decode()
    kept = [discord.File(BytesIO(file.data), file.name) for file in files]
    form: list[dict[str, Any]] = [{"name": "payload_json", "value": payload}]
    for number, file in enumerate(kept):
        form.append(
            {
                "name": f"files[{number}]",
                "value": file.fp,
                "filename": file.filename,
                "content_type": "application/octet-stream",
            }
        )
    return MultipartParameters(payload=None, multipart=form, files=kept)
