"""The section `[engines.native]`: provider, model, keys and bounds.

A project's `[model]` and `[search]` in `.pilothouse.toml` choose among them: they set no address, no key, no variable and no
permission.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta, Struct, field
from msgspec.structs import replace

from pilothouse.core.secret import Secret

ProviderName = Literal["anthropic", "openai", "openrouter", "compatible"]
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
Verbosity = Literal["low", "medium", "high"]
SearchMode = Literal["auto", "native", "local"]
SearchBackend = Literal["ddg", "brave"]
Positive = Annotated[float, Meta(gt=0, description="a number above 0")]
Count = Annotated[int, Meta(ge=1, description="a whole number of at least 1")]
OwnFile = Annotated[str, Meta(pattern=r"^[~/]", description="a path that begins with / or ~")]
ShortPrompt = Annotated[str, Meta(max_length=4000, description="a text of at most 4000 characters")]
Address = Annotated[
    str, Meta(pattern=r"^https?://", description="an address that begins with http:// or https://")
]
AnthropicKey = Annotated[Secret, Meta(extra={"env": "ANTHROPIC_API_KEY"})]
OpenAiKey = Annotated[Secret, Meta(extra={"env": "OPENAI_API_KEY"})]
OpenRouterKey = Annotated[Secret, Meta(extra={"env": "OPENROUTER_API_KEY"})]

MAX_CALLS = 200


class SearchConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """`[engines.native.search]`."""

    mode: SearchMode = "auto"
    """`native`: the provider searches. `local`: the tool `search`. `auto`: the provider if it can and a rule allows it."""
    backend: SearchBackend = "ddg"
    brave_api_key_env: Annotated[
        str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="the name of an environment variable")
    ] = "BRAVE_SEARCH_API_KEY"
    url: Address | None = None
    """The address of the backend. None: its public one."""


class NativeConfig(Struct, frozen=True, forbid_unknown_fields=True):
    provider: ProviderName | None = None
    """None: the first that has a key."""
    model: str | None = None
    """A model of the provider, or "provider/model". None: the provider's default."""
    fallback_model: str | None = None
    """Used for the rest of a turn when the model is overloaded or does not exist."""
    base_url: Address | None = None
    """The address of the provider. None: its public one, or ANTHROPIC_BASE_URL, OPENAI_BASE_URL, OPENROUTER_BASE_URL."""
    anthropic_api_key: AnthropicKey = Secret("")
    openai_api_key: OpenAiKey = Secret("")
    openrouter_api_key: OpenRouterKey = Secret("")
    api_key: Secret = Secret("")
    """For the provider "compatible". Many local servers need none."""
    effort: Effort | None = None
    verbosity: Verbosity | None = None
    """OpenAI only."""
    max_output_tokens: Count | None = None
    """None: what the model can write, 32,000 at most."""
    context_window: Count | None = None
    """None: as the bundled list of models says, else 128,000."""
    append_system_prompt: ShortPrompt | None = None
    system_prompt_file: OwnFile | None = None
    """Replaces the built-in system prompt."""
    context_files: list[OwnFile] = field(default_factory=list)
    """Read in every session, after the workspace's own files (SOUL.md and so on)."""
    max_calls: Annotated[int, Meta(ge=1, le=MAX_CALLS, description="a whole number from 1 to 200")] = (
        MAX_CALLS
    )
    """Requests to the model in one turn. After that it sums up, and the turn ends."""
    max_retries: Annotated[int, Meta(ge=0, description="a whole number of at least 0")] = 4
    wait_s: Positive = 300.0
    """The longest silence of the model's server."""
    search: SearchConfig = SearchConfig()
    total_trim: bool = False
    """Leave old outputs of tools out of requests once all together are long. It costs the provider's cache."""
    provider_log: bool = False
    """Log the size, the hash and the shared prefix of each request to a model."""
    provider_log_dir: OwnFile | None = None
    """Write whole requests and replies into this folder. They hold everything that was said."""
    environment: list[str] = field(default_factory=list)
    """Names of further variables that commands may see."""


ALLOWED: Mapping[str, tuple[str, ...]] = {
    "provider": get_args(ProviderName),
    "effort": get_args(Effort),
    "verbosity": get_args(Verbosity),
}
IGNORED = "The `{key}` {value!r} of .pilothouse.toml was ignored; allowed: {allowed}."


def with_project(
    config: NativeConfig, preferences: Mapping[str, Any]
) -> tuple[NativeConfig, tuple[str, ...]]:
    """Return the configuration of a project, and what was ignored."""
    model, search = dict(preferences.get("model") or {}), dict(preferences.get("search") or {})
    bad = {key: value for key, value in model.items() if key in ALLOWED and value not in ALLOWED[key]}
    good = {key: value for key, value in model.items() if key in ALLOWED and key not in bad}
    problems = tuple(
        IGNORED.format(key=f"model.{key}", value=value, allowed=", ".join(ALLOWED[key]))
        for key, value in bad.items()
    )
    if model.get("name") and "provider" not in bad:
        good["model"] = model["name"]
    elif good.get("provider") not in (None, config.provider):
        good["model"] = None  # the configured one belongs to another provider
    if good.get("provider") not in (None, config.provider):
        good["base_url"] = None
    own = msgspec.structs.asdict(config.search) | search
    return replace(config, **good, search=SearchConfig(**own)), problems
