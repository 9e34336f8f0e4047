"""Providers of models: their addresses, keys and dialects, and the choice among them. Pure.

A model is named `model`, or `provider/model`. OpenRouter's own names hold a slash (`anthropic/claude-…`): with it as the
configured provider, a name is taken whole unless it begins with `openrouter/`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import get_args

from msgspec import Struct

from pilothouse.core.call import host_of
from pilothouse.core.outcome import Failure
from pilothouse.core.secret import Secret
from pilothouse.engines.native.config import NativeConfig, ProviderName
from pilothouse.engines.native.dialects.dialect import Dialect
from pilothouse.engines.native.key_file import FILE, Login
from pilothouse.engines.native.login import BACKEND

NAMES: tuple[ProviderName, ...] = get_args(ProviderName)


class Provider(Struct, frozen=True):
    name: ProviderName
    title: str
    base_url: str
    base_variable: str
    key_variable: str
    default_model: str


PROVIDERS: Mapping[ProviderName, Provider] = {
    provider.name: provider
    for provider in (
        Provider(
            "anthropic",
            "Anthropic",
            "https://api.anthropic.com",
            "ANTHROPIC_BASE_URL",
            "ANTHROPIC_API_KEY",
            "claude-sonnet-4-6",
        ),
        Provider(
            "openai", "OpenAI", "https://api.openai.com/v1", "OPENAI_BASE_URL", "OPENAI_API_KEY", "gpt-5.4"
        ),
        Provider(
            "openrouter",
            "OpenRouter",
            "https://openrouter.ai/api/v1",
            "OPENROUTER_BASE_URL",
            "OPENROUTER_API_KEY",
            "anthropic/claude-sonnet-4.6",
        ),
        Provider("compatible", "The model server", "", "", "NATIVE_API_KEY", ""),
    )
}

NO_SERVER = Failure(
    "bad_request",
    'The provider "compatible" needs an address and a model.',
    fix="Set base_url and model under `[engines.native]` on {machine}",
)


class Target(Struct, frozen=True):
    """The address, the dialect and the model of requests."""

    provider: Provider
    model: str
    base_url: str
    key: Secret
    headers: Mapping[str, str]
    make_dialect: Callable[[], Dialect]
    is_subscription: bool = False
    """Requests cost nothing beyond what the account pays anyway."""

    @property
    def title(self) -> str:
        return f"{self.provider.name}/{self.model}"


def keys_of(config: NativeConfig) -> Mapping[ProviderName, Secret]:
    return {
        "anthropic": config.anthropic_api_key,
        "openai": config.openai_api_key,
        "openrouter": config.openrouter_api_key,
        "compatible": config.api_key,
    }


def choose_provider(config: NativeConfig) -> ProviderName | None:
    """Return the configured provider, else the first with a key; None if there is none."""
    return config.provider or next((name for name, key in keys_of(config).items() if key), None)


def split_model(name: str, provider: ProviderName | None) -> tuple[ProviderName | None, str]:
    """Split `provider/model`; a name without a provider belongs to the given one."""
    head, slash, rest = name.partition("/")
    found = next((one for one in NAMES if one == head), None)
    if not slash or found is None or (provider == "openrouter" and found != "openrouter"):
        return provider, name
    return found, rest


def choose_target(
    config: NativeConfig,
    wanted: str | None,
    environment: Mapping[str, str],
    login: Login | None = None,
) -> Target | Failure:
    """Return the target for a model's name; a `Failure` says what is missing. A key counts before a login."""
    name = wanted or config.model or ""
    chosen, model = split_model(name, choose_provider(config))
    if chosen is None:
        return _without_key(config)
    provider, key = PROVIDERS[chosen], keys_of(config)[chosen]
    is_configured = chosen == choose_provider(config)
    base = (config.base_url if is_configured else None) or environment.get(provider.base_variable, "")
    by_login = login if chosen == "openai" and not key else None
    base = (base or (BACKEND if by_login else provider.base_url)).rstrip("/")
    model = model or provider.default_model
    if not base or not model:
        return NO_SERVER
    if by_login is not None:
        return _login_target(provider, model, base, by_login)
    if not key and chosen != "compatible":
        text = f"The native engine has no key for {provider.title}."
        return Failure("auth", text, fix=f"Put it into {_place(key, provider)}")
    headers = _app_headers(environment) if chosen == "openrouter" else {}
    return Target(provider, model, base, key, headers, _dialects()[chosen])


def _login_target(provider: Provider, model: str, base: str, login: Login) -> Target:
    """Return the target of a login: an address of its own, which wants to know the account and takes no bound."""
    headers = {"chatgpt-account-id": login.account} if login.account else {}
    return Target(provider, model, base, Secret(login.access, FILE), headers, _responses_by_login, True)


def is_here(url: str) -> bool:
    """Tell whether an address is on this machine: no proxy leads there."""
    return host_of(url) in ("localhost", "127.0.0.1", "::1")


def _without_key(config: NativeConfig) -> Failure:
    """Tell a new owner how to begin."""
    place = _place(config.anthropic_api_key, PROVIDERS["anthropic"])
    return Failure(
        "auth",
        "The native engine has no API key, so it cannot reach a model.",
        fix=f"Put a key into {place} (or OPENAI_API_KEY, or OPENROUTER_API_KEY), then send your message again; for a "
        'server of your own set provider = "compatible", base_url and model under `[engines.native]`',
    )


def _place(key: Secret, provider: Provider) -> str:
    return key.source or f"the environment of {{machine}} as {provider.key_variable}"


def _app_headers(environment: Mapping[str, str]) -> dict[str, str]:
    """Return OpenRouter's optional headers, which name the application."""
    told = {
        "http-referer": environment.get("OPENROUTER_HTTP_REFERER", ""),
        "x-title": environment.get("OPENROUTER_X_TITLE", ""),
    }
    return {name: value for name, value in told.items() if value.isascii() and value.isprintable() and value}


def _dialects() -> Mapping[ProviderName, Callable[[], Dialect]]:
    return {
        "anthropic": _anthropic,
        "openai": _responses,
        "openrouter": _openrouter,
        "compatible": _chat,
    }


def _anthropic() -> Dialect:
    from pilothouse.engines.native.dialects.anthropic import AnthropicDialect

    return AnthropicDialect()


def _responses() -> Dialect:
    from pilothouse.engines.native.dialects.responses import ResponsesDialect

    return ResponsesDialect()


def _responses_by_login() -> Dialect:
    from pilothouse.engines.native.dialects.responses import ResponsesDialect

    return ResponsesDialect(takes_bound=False)


def _chat() -> Dialect:
    from pilothouse.engines.native.dialects.chat import ChatDialect

    return ChatDialect()


def _openrouter() -> Dialect:
    from pilothouse.engines.native.dialects.chat import OpenRouterDialect

    return OpenRouterDialect()
