"""Sends one request to Discord's REST API through discord.py, and returns a bounded answer as a value.

discord.py waits for rate limits and repeats some requests. aiohttp's tracing tells us whether a request was sent: a request
that never left may be sent again silently, one that may have arrived may not. A request is never cancelled while
discord.py waits, since that would leave its limits locked: a caller that gives up marks its attempt, and the next try of
that attempt fails before it is sent. A try that was sent is awaited for a moment, because Discord acts on it. Importing this module imports discord.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import aiohttp
import anyio
import discord
import msgspec
from anyio.abc import TaskGroup
from discord.http import HTTPClient, MultipartParameters, Route
from msgspec import Struct, field

from pilothouse.channels.discord.pace import Pace, is_apart
from pilothouse.channels.discord.trouble import LONG_S, TOO_MANY_OLD_EDITS, Trouble
from pilothouse.channels.skeleton import wait_until_landed
from pilothouse.core.clock import Clock
from pilothouse.http.unreachable import why_unreachable

CALL_S = 20.0
UPLOAD_S = 55.0
MIN_BYTES_PER_S = 128_000
"""Bytes per second on a slow line: uploads get this much more time. A delivery waits longer than all their tries."""
PATIENCE_S = 10.0
"""The longest pause that a request waits for."""
TEXT_CHARS = 300

_UNANSWERED = (aiohttp.ClientError, OSError, TimeoutError, RuntimeError, ValueError)
"""The last two: a closed session, no tries left, or an answer that is no JSON."""


class Upload(Struct, frozen=True):
    name: str
    data: bytes


class _Pause(Struct, frozen=True):
    """The body of a 429."""

    retry_after: float = 0.0
    code: int = 0
    everywhere: bool = field(default=False, name="global")


class _Pauses:
    """Pauses that are longer than a request waits: until they end, requests fail without being sent."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def wait_s(self, route: Route) -> float:
        for_all = 0.0 if is_apart(route.path) else self._until.get("", 0.0)
        until = max(self._until.get(_bucket(route), 0.0), for_all)
        return max(0.0, until - time.monotonic())

    def note(self, route: Route, pause: _Pause) -> None:
        """Remember a long pause. One for a single old message does not hold up the others."""
        if pause.retry_after > PATIENCE_S and pause.code != TOO_MANY_OLD_EDITS:
            key = "" if pause.everywhere else _bucket(route)
            self._until[key] = time.monotonic() + pause.retry_after
            self._until = {key: at for key, at in self._until.items() if at > time.monotonic()}


def _bucket(route: Route) -> str:
    return f"{route.key}:{route.major_parameters}"


class Abandoned(Exception):
    """The caller gave up before the request was sent."""


class Attempt:
    """One request, which discord.py may send several times."""

    def __init__(self) -> None:
        self._maybe_done_before = False
        self.flying = False
        self.status = 0
        self.body = b""
        self.pause = _Pause()
        self.settled = anyio.Event()
        """Set when there is an answer, or a pause too long to wait for."""
        self.landed = anyio.Event()
        """Set when this try has an answer, or will have none."""
        self.abandoned = False
        self.answers: list[Any | Trouble] = []
        self.error: Exception | None = None

    @property
    def maybe_done(self) -> bool:
        """Discord may have carried out this try or an earlier one."""
        return self._maybe_done_before or self.flying or self.status >= 500

    def begin(self) -> None:
        """Note that discord.py sends the request now; raise if nobody waits for it any more."""
        if self.abandoned:
            raise Abandoned
        self._maybe_done_before = self.maybe_done
        self.flying, self.status, self.body, self.pause = True, 0, b"", _Pause()
        self.landed = anyio.Event()

    def end_try(self, status: int = 0, *, flying: bool = False) -> None:
        """Note an answer, or that none will come."""
        self.flying, self.status = flying, status
        self.landed.set()

    def read(self, chunk: bytes) -> None:
        """Take a piece of the answer; a 429 with a long pause settles the attempt at once."""
        self.body += chunk
        if self.status == 429:
            with suppress(msgspec.DecodeError):
                self.pause = msgspec.json.decode(self.body, type=_Pause)
            if self.pause.retry_after > PATIENCE_S:
                self.settled.set()


def tracing(pace: Pace) -> aiohttp.TraceConfig:
    """Make each request wait for its turn, and report what becomes of it to its attempt and to `pace`."""
    trace = aiohttp.TraceConfig()

    async def started(
        _session: object, ctx: SimpleNamespace, params: aiohttp.TraceRequestStartParams
    ) -> None:
        await pace.take_room(params.url.path)
        if attempt := _attempt(ctx):
            attempt.begin()

    async def answered(_session: object, ctx: SimpleNamespace, params: aiohttp.TraceRequestEndParams) -> None:
        if attempt := _attempt(ctx):
            attempt.end_try(params.response.status)
        pace.note(params.method, params.url.path, params.response.headers)

    async def read(
        _session: object, ctx: SimpleNamespace, params: aiohttp.TraceResponseChunkReceivedParams
    ) -> None:
        if attempt := _attempt(ctx):
            attempt.read(params.chunk)

    async def broke(
        _session: object, ctx: SimpleNamespace, params: aiohttp.TraceRequestExceptionParams
    ) -> None:
        if attempt := _attempt(ctx):
            was_sent = not isinstance(params.exception, aiohttp.ClientConnectorError)
            attempt.end_try(attempt.status, flying=attempt.flying and was_sent)

    trace.on_request_start.append(started)
    trace.on_request_end.append(answered)
    trace.on_response_chunk_received.append(read)
    trace.on_request_exception.append(broke)
    return trace


def _attempt(ctx: SimpleNamespace) -> Attempt | None:
    """The attempt that was passed along with the request; discord.py's own requests have none."""
    return ctx.trace_request_ctx if isinstance(ctx.trace_request_ctx, Attempt) else None


class Calls:
    """The requests of one connection. They run in its task group, and end with it."""

    def __init__(
        self,
        http: HTTPClient,
        application_id: str,
        hide: Callable[[str], str],
        tasks: TaskGroup,
        clock: Clock,
    ) -> None:
        self._http = http
        self._clock = clock
        self._hide = hide
        self._tasks = tasks
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
        attempt = Attempt()
        more |= {"trace_request_ctx": attempt, "timeout": aiohttp.ClientTimeout(total=within_s)}
        try:
            self._tasks.start_soon(self._carry_out, attempt, route, more)
        except RuntimeError:
            return Trouble("the connection to Discord is closed")
        try:
            with anyio.move_on_after(within_s):
                await attempt.settled.wait()
        except anyio.get_cancelled_exc_class():
            attempt.abandoned = True
            if attempt.flying:
                await wait_until_landed(attempt.landed, self._clock)
            raise
        finally:
            attempt.abandoned = True
            self._pauses.note(route, attempt.pause)
        if attempt.error is not None:
            raise attempt.error
        return attempt.answers[0] if attempt.answers else _unanswered(attempt, within_s)

    async def _carry_out(self, attempt: Attempt, route: Route, more: dict[str, Any]) -> None:
        """Run beside the caller: discord.py must not be cancelled while it waits for a limit."""
        try:
            attempt.answers.append(await self._http.request(route, **more))
        except Abandoned:
            pass  # its caller waits no longer
        except discord.RateLimited as error:
            if not attempt.pause.retry_after:
                text = f"Discord asks for a pause of {error.retry_after:.0f} s"
                attempt.answers.append(Trouble(text, after_s=error.retry_after))
        except discord.HTTPException as error:
            attempt.answers.append(self._refused(error))
        except _UNANSWERED as error:
            attempt.answers.append(self._broken(error, attempt))
        except Exception as error:  # noqa: BLE001 - it belongs to the caller, not to the connection
            attempt.error = error
        finally:
            attempt.landed.set()
            attempt.settled.set()

    def _broken(self, error: Exception, attempt: Attempt) -> Trouble:
        if isinstance(error, TimeoutError) and attempt.flying:
            return Trouble("Discord did not answer in time", maybe_done=True, late=True)
        text = f"Discord could not be reached: {self._hide(why_unreachable(error))}"[:TEXT_CHARS]
        return Trouble(text, maybe_done=attempt.maybe_done or 200 <= attempt.status < 300)

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


def _unanswered(attempt: Attempt, within_s: float) -> Any | Trouble:
    """Return the answer that the trace saw, or why there is none. discord.py holds an answer back while a bucket refills."""
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
