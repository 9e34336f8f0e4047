"""Models by name: what the server offers, and which one a prompt is sent with. Pure."""

from __future__ import annotations

from typing import Any

from pilothouse.core.engine import Model

MAX_MODELS = 200


def read_models(told: Any) -> tuple[Model, ...]:
    """Read the answer of `/config/providers`, as `provider/model`. It holds keys too, which are dropped here."""
    providers = told.get("providers") if isinstance(told, dict) else None
    found = [one for one in providers if isinstance(one, dict)] if isinstance(providers, list) else []
    models = [model for provider in found for model in _models_of(provider)]
    return tuple(models[:MAX_MODELS])


def default_model(config: Any, told: Any) -> str:
    """Return the model of OpenCode's own settings, else the first default of its providers; empty if there is none."""
    named = config.get("model") if isinstance(config, dict) else None
    if isinstance(named, str) and named:
        return named
    defaults = told.get("default") if isinstance(told, dict) else None
    pairs = defaults.items() if isinstance(defaults, dict) else ()
    return next((f"{provider}/{model}" for provider, model in pairs), "")


def choose_model(name: str, provider: str, offered: tuple[Model, ...]) -> dict[str, str] | None:
    """Return the provider and the model that a name means; None if it has no provider.

    The names of some models have slashes. So one that is offered counts first, alone or behind the configured provider.
    """
    known = {model.name for model in offered}
    full = f"{provider}/{name}" if provider else name
    whole = name if name in known or full not in known else full
    if provider and "/" not in whole:
        whole = full
    head, _, rest = whole.partition("/")
    return {"providerID": head, "modelID": rest} if head and rest else None


def _models_of(provider: dict[str, Any]) -> list[Model]:
    models, id = provider.get("models"), str(provider.get("id") or "")
    found = models.items() if isinstance(models, dict) else ()
    return [
        Model(f"{id}/{name}", str(one.get("name") or ""))
        for name, one in found
        if isinstance(one, dict) and id
    ]
