"""The first turn without any key: a person picks provider, way to log in, and model in the chat.

Answers are kept in the key file, so nothing is asked again. A person who does not answer ends the turn with the failure that
says what is missing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import anyio
from msgspec import Struct
from msgspec.structs import replace

from pilothouse.core.engine import Model
from pilothouse.core.errors import EngineError
from pilothouse.core.event import Notice
from pilothouse.core.outcome import Failure
from pilothouse.engines.native.config import ProviderName
from pilothouse.engines.native.key_file import KeyFile, Login
from pilothouse.engines.native.login import (
    LoginFailed,
    LoginPlan,
    OAuthServer,
    exchange,
    open_callback,
    read_code,
)
from pilothouse.engines.native.providers import PROVIDERS, is_here

WHICH_PROVIDER = "The native agent has no key for a model yet. Which provider do you use?"
WHICH_WAY = "How do you log in at OpenAI?"
BY_KEY, BY_LOGIN = "An API key", "My ChatGPT account, in the browser"
WHICH_KEY = (
    "Send the API key of {provider}. It is kept in {file}, which only your user can read. Your message stays in this chat, so "
    "delete it afterwards, or stop here and put the key into {variable} instead."
)
WHICH_ADDRESS = "Send the address of your model server, for example http://127.0.0.1:8080/v1."
NOT_REACHED = (
    "{base} could not be reached. Start the server or correct the address, then send your message again."
)
NO_MODELS = "{base} has no chat completions (HTTP {status}). Such an address often ends with /v1."
TRY_S, TRY_BYTES = 10.0, 1024 * 1024
WHICH_OTHER_KEY = "Which API key does your model server want?"
NO_KEY = "It wants none"
WHICH_MODEL = "Which model? Choose one, or send its name."
OPEN_PAGE = (
    "Open this page and log in:\n{url}\n\nIf your browser runs on another machine, it ends at an address that begins with "
    "{redirect} and shows an error. Send that whole address here."
)
READY = "The native agent uses {model}. Send /model to change it."
MODELS_SHOWN = 8
TITLES: dict[ProviderName, str] = {
    "anthropic": "Anthropic",
    "openai": "OpenAI",
    "openrouter": "OpenRouter",
    "compatible": "My own server (llama.cpp, vLLM, Ollama and the like)",
}


class Asker(Protocol):
    async def question(
        self, id: str, title: str, labels: Sequence[str] = (), *, secret: bool = False
    ) -> list[str]: ...


Tell = Callable[[Notice], Awaitable[None]]


class NoKey(EngineError):
    """There is no key for `provider`, or for any provider: a person can give one in the chat.

    `model` is a model of a provider beside the configured one: then its key is all that is missing."""

    def __init__(self, failure: Failure, provider: ProviderName | None, model: str = "") -> None:
        super().__init__(failure)
        self.provider = provider
        self.model = model


class GaveUp(Exception):
    """The person did not answer; or the text says what went wrong."""


class FirstRun(Struct, frozen=True):
    key_file: KeyFile
    models: Callable[[str], Sequence[Model]]
    """Models of a provider, newest first."""
    server: OAuthServer
    now: Callable[[], float]
    tell: Tell
    withdraw: Callable[[str], Awaitable[None]]
    """Closes a question that needs no answer any more."""
    asker: Asker

    async def run(self, provider: ProviderName | None, model: str = "") -> None:
        """Ask for everything that is missing, and keep it; beside a given model, for the key alone. Raises `GaveUp`."""
        chosen = provider or await self._provider()
        base = await self._address() if chosen == "compatible" else ""
        login, key = await self._authority(chosen)
        picked = model or await self._model(chosen)
        choice = {} if model else {"provider": chosen, "model": picked, "base_url": base}
        keys = {chosen: key} if key else {}
        try:
            await self.key_file.change(
                lambda kept: replace(kept, keys={**kept.keys, **keys}, login=login or kept.login, **choice)
            )
        except OSError as error:
            text = f"Your answers could not be kept in {self.key_file.path}: {error.strerror}."
            raise GaveUp(text) from error
        await self.tell(Notice("info", "model", READY.format(model=f"{chosen}/{picked}")))

    async def _provider(self) -> ProviderName:
        said = await self._ask("provider", WHICH_PROVIDER, list(TITLES.values()))
        for name, title in TITLES.items():
            if said.casefold() in (name, title.casefold()):
                return name
        raise GaveUp(f"{said[:50]!r} is none of: {', '.join(TITLES)}.")

    async def _address(self) -> str:
        said = (await self._ask("address", WHICH_ADDRESS)).rstrip("/")
        if not said.startswith(("http://", "https://")):
            raise GaveUp(f"{said[:100]!r} is not an address with http:// or https://.")
        if problem := await _try_address(said):
            raise GaveUp(problem)
        return said

    async def _authority(self, provider: ProviderName) -> tuple[Login | None, str]:
        """Return a login or a key; neither for a server that wants none."""
        if provider == "compatible":
            said = await self._ask("key", WHICH_OTHER_KEY, [NO_KEY])
            return None, "" if said == NO_KEY else said
        if provider == "openai" and await self._ask("way", WHICH_WAY, [BY_KEY, BY_LOGIN]) == BY_LOGIN:
            return await self._log_in(), ""
        about = PROVIDERS[provider]
        text = WHICH_KEY.format(provider=about.title, file=self.key_file.path, variable=about.key_variable)
        key = await self._ask("key", text)
        if not key.isascii() or not key.isprintable() or " " in key:
            raise GaveUp("This cannot be an API key: it has blanks or other characters.")
        return None, key

    async def _model(self, provider: ProviderName) -> str:
        default, listed = PROVIDERS[provider].default_model, [one.name for one in self.models(provider)]
        names = list(dict.fromkeys(filter(None, (default, *listed))))[:MODELS_SHOWN]
        return await self._ask("model", WHICH_MODEL, names)

    async def _ask(self, id: str, title: str, labels: Sequence[str] = ()) -> str:
        said = await self.asker.question(f"setup-{id}", title, labels, secret=id == "key")
        if not said or not said[-1].strip():
            raise GaveUp("")
        return said[-1].strip()

    async def _log_in(self) -> Login:
        """Log in by the browser, or by the address that the person copies. Raises `GaveUp`."""
        codes: list[str] = []
        came = anyio.Event()

        def got(code: str) -> None:
            codes.append(code)
            came.set()

        async with open_callback(self.server, got) as plan:
            code = await self._wait_for_code(plan, codes, came)
            from pilothouse.http.client import open_http

            try:
                async with open_http(direct=is_here(self.server.issuer)) as http:
                    return await exchange(http, self.server, plan, code, self.now())
            except LoginFailed as error:
                raise GaveUp(str(error)) from error

    async def _wait_for_code(self, plan: LoginPlan, codes: list[str], came: anyio.Event) -> str:
        typed: list[str] = []
        async with anyio.create_task_group() as tasks:

            async def hear() -> None:
                await came.wait()
                await self.withdraw("setup-login")
                tasks.cancel_scope.cancel()

            tasks.start_soon(hear)
            typed += await self.asker.question(
                "setup-login", OPEN_PAGE.format(url=plan.url, redirect=plan.redirect)
            )
            tasks.cancel_scope.cancel()
        if codes:
            return codes[0]
        if not typed:
            raise GaveUp("")
        try:
            return read_code(plan, typed[-1])
        except LoginFailed as error:
            raise GaveUp(str(error)) from error


async def _try_address(base: str) -> str:
    """Ask a server for nothing. Return what is wrong with its address; empty if a model may answer there."""
    from pilothouse.engines.native.dialects.chat import ChatDialect
    from pilothouse.http.client import Failed, open_http

    json = {"content-type": "application/json"}
    async with open_http(direct=is_here(base)) as http:
        answer = await http.ask(
            "POST", base + ChatDialect.path, b"{}", headers=json, limit=TRY_BYTES, wait_s=TRY_S, whole_s=TRY_S
        )
    if isinstance(answer, Failed):
        return NOT_REACHED.format(base=base[:100]) if answer.kind in ("unreachable", "proxy") else ""
    return NO_MODELS.format(base=base[:100], status=answer.status) if answer.status in (404, 405) else ""
