"""The browser's way back from a login: to an address of this machine, or as text that a person pastes.

Only an answer with the state of this login counts; everything else gets a short refusal and changes nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import parse_qs, urlsplit

import anyio
from mcp.client.auth import AuthorizationCodeResult
from msgspec import Struct

from pilothouse.core.errors import PilothouseError
from pilothouse.http.server import Request, Response, open_server

WAIT_S = 180.0
PATH = "/mcp/callback"
MOST_CHARS = 8_000
LATE = "Nobody finished the login within {seconds:g} s. Start it again."
REFUSED = "The login was refused: {why}"
NO_CODE = (
    "That is not the address that the login ended with. It begins with {uri} and has code= and state= in it."
)
OTHER_LOGIN = (
    "That address belongs to another login. Open the newest link, and paste the address that it ends with."
)
TAKEN = "The port {port} for the answer of the login cannot be used: {why}. Set `oauth.callback_port` to another one."
PAGE = "<!doctype html><meta charset=utf-8><title>Pilothouse</title><p>{words}"
THANKS, NOT_OURS = (
    "Thank you. You can close this page.",
    "This page does not belong to a login that is under way.",
)


class LoginError(PilothouseError):
    """A login did not succeed."""


class Callback:
    """Waits for the answer of one login after the other. `redirect_uri` is where the browser is sent."""

    def __init__(self, show: Callable[[str], Awaitable[None]], wait_s: float = WAIT_S) -> None:
        self._show = show
        self._wait_s = wait_s
        self._state = ""
        self._answers: list[AuthorizationCodeResult | LoginError] = []
        self._answered = anyio.Event()
        self.redirect_uri = ""

    async def ask(self, address: str) -> AuthorizationCodeResult:
        """Show the address, and wait for the answer. Raises `LoginError`."""
        self._state = _one(parse_qs(urlsplit(address).query), "state")
        self._answered = anyio.Event()
        self._answers.clear()
        await self._show(address)
        with anyio.move_on_after(self._wait_s):
            await self._answered.wait()
        self._state = ""
        if not self._answers:
            raise LoginError(LATE.format(seconds=self._wait_s))
        if isinstance(answer := self._answers[0], LoginError):
            raise answer
        return answer

    def paste(self, text: str) -> None:
        """Take the address that the browser ended with. Raises `LoginError` if it is none of this login."""
        found = read_answer(text[:MOST_CHARS])
        if found is None:
            raise LoginError(NO_CODE.format(uri=self.redirect_uri))
        if not self._take(found):
            raise LoginError(OTHER_LOGIN)

    async def receive(self, request: Request) -> Response:
        found = read_answer(request.query) if (request.method, request.path) == ("GET", PATH) else None
        taken = found is not None and self._take(found)
        page = PAGE.format(words=THANKS if taken else NOT_OURS)
        return Response(200 if taken else 404, page.encode(), "text/html; charset=utf-8")

    def _take(self, answer: Answer) -> bool:
        if not self._state or not secrets.compare_digest(answer.state.encode(), self._state.encode()):
            return False
        if answer.error:
            self._answers.append(LoginError(REFUSED.format(why=answer.error)))
        else:
            self._answers.append(
                AuthorizationCodeResult(code=answer.code, state=answer.state, iss=answer.iss or None)
            )
        self._answered.set()
        return True


class Answer(Struct, frozen=True):
    code: str
    state: str
    iss: str = ""
    error: str = ""


def read_answer(text: str) -> Answer | None:
    """Read an address, or only its query; None if it is no answer of a login."""
    _, mark, query = text.strip().strip("<>\"'` ").partition("?")
    try:
        found = parse_qs(query if mark else text.strip(), max_num_fields=20)
    except ValueError:
        return None
    words = (_one(found, "error"), _one(found, "error_description"))
    error = ": ".join(word for word in words if word)[:300]
    code, state = _one(found, "code"), _one(found, "state")
    return Answer(code, state, _one(found, "iss"), error) if state and (code or error) else None


def _one(found: dict[str, list[str]], name: str) -> str:
    return found.get(name, [""])[0]


@asynccontextmanager
async def open_callback(
    show: Callable[[str], Awaitable[None]], ports: Sequence[int], wait_s: float = WAIT_S
) -> AsyncIterator[Callback]:
    """Listen on 127.0.0.1, on the first of the ports that is free; 0 is any. Raises `LoginError`."""
    callback = Callback(show, wait_s)
    async with AsyncExitStack() as stack:
        port = await _listen(stack, callback, ports)
        callback.redirect_uri = f"http://127.0.0.1:{port}{PATH}"
        yield callback


async def _listen(stack: AsyncExitStack, callback: Callback, ports: Sequence[int]) -> int:
    why = ""
    for port in ports:
        try:
            return await stack.enter_async_context(open_server("127.0.0.1", port, callback.receive))
        except OSError as error:
            why = error.strerror or str(error)
    raise LoginError(TAKEN.format(port=ports[-1], why=why))
