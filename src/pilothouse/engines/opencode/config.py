"""The section `[engines.opencode]`, and the variables that stand in for two of its keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta, Struct, field

OwnFile = Annotated[str, Meta(pattern=r"^[~/]", description="a path that begins with / or ~")]
Positive = Annotated[float, Meta(gt=0, description="a number above 0")]
ShortPrompt = Annotated[str, Meta(max_length=4000, description="a text of at most 4000 characters")]

VARIABLES = {"provider": "OPENCODE_PROVIDER", "model": "OPENCODE_MODEL"}
"""NanoClaw's names, for keys that the configuration does not set."""


class OpenCodeConfig(Struct, frozen=True, forbid_unknown_fields=True):
    command: str = "opencode"
    """The program: a name on PATH, or a path."""
    provider: str | None = None
    """The provider of a model whose name has none, such as "anthropic"."""
    model: str | None = None
    """The model, as "provider/model"; else OpenCode's own choice."""
    fallback_model: str | None = None
    """The model with which a turn begins again if the first is overloaded or used up before it said anything."""
    add_dirs: list[OwnFile] = field(default_factory=list)
    """Folders besides the workspace: the model is told of them, and a jail lets it write there."""
    agent: str | None = None
    """OpenCode's agent for every prompt; else its default, "build"."""
    variant: str | None = None
    """A variant of the model, such as "high" for its effort."""
    append_system_prompt: ShortPrompt | None = None
    context_files: list[OwnFile] = field(default_factory=list)
    """Read in every session, after the workspace's own files (SOUL.md and so on)."""
    resume_line: bool = False
    """Close each answer with the line that resumes its session."""
    owner_commands: bool = False
    """Let OpenCode's `/commands` of an owner work. Their templates run commands and read files that nobody judges."""
    max_retries: Annotated[int, Meta(ge=0, description="a whole number of at least 0")] = 5
    """Attempts of OpenCode to make a request again before the turn fails; it makes 5 at most."""
    stop_grace_s: Positive = 10.0
    """Time for a turn to obey a stop before the server is ended, with all its turns."""
    open_s: Positive = 60.0
    """Time for the server to start, and to open a session."""
    stall_s: Positive = 30.0
    """Time that an unread turn may hold up the other turns."""
    environment: list[str] = field(default_factory=list)
    """Names of further variables that OpenCode may see, such as ANTHROPIC_API_KEY. Its commands do not see names with KEY,
    TOKEN, SECRET or PASSWORD in them."""


def resolve(config: OpenCodeConfig, environment: Mapping[str, str]) -> OpenCodeConfig:
    """Return the configuration with gaps filled from the variables."""
    gaps = [key for key in VARIABLES if getattr(config, key) is None]
    found = {key: environment.get(VARIABLES[key], "").strip() for key in gaps}
    return msgspec.structs.replace(config, **{key: text for key, text in found.items() if text})
