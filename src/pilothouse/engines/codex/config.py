"""The section `[engines.codex]`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

Sandbox = Literal["read-only", "workspace-write", "danger-full-access"]
OwnFile = Annotated[str, Meta(pattern=r"^[~/]", description="a path that begins with / or ~")]
Positive = Annotated[float, Meta(gt=0, description="a number above 0")]
ShortPrompt = Annotated[str, Meta(max_length=4000, description="a text of at most 4000 characters")]


class Price(Struct, frozen=True):
    """US dollars for a million tokens."""

    input: float
    cached: float
    output: float
    cache_write: float | None = None
    """None where writing costs as much as other input."""


class CodexConfig(Struct, frozen=True, forbid_unknown_fields=True):
    command: str = "codex"
    """The program: a name on PATH, or a path."""
    home: OwnFile | None = None
    """The folder with the user's own settings and login; else `CODEX_HOME`, else ~/.codex."""
    model: str | None = None
    fallback_model: str | None = None
    """The model with which a turn begins again if the first is overloaded or used up before it said anything."""
    effort: str | None = None
    """Reasoning effort: low, medium, high and so on, as the model offers."""
    sandbox: Sandbox = "workspace-write"
    """The sandbox of approved commands, unless the approval mode is full access."""
    network_access: bool = False
    """Commands in the sandbox may use the network."""
    web_search: Literal["disabled", "cached", "live"] | None = None
    """The model's own search, which runs at OpenAI and cannot be held back. Without a value: only in full access."""
    add_dirs: list[OwnFile] = field(default_factory=list)
    """Folders that commands in the sandbox may write to, besides the workspace."""
    append_system_prompt: ShortPrompt | None = None
    context_files: list[OwnFile] = field(default_factory=list)
    """Read in every session, after the workspace's own files (SOUL.md and so on)."""
    resume_line: bool = False
    """Close each answer with the line that resumes its session."""
    stop_grace_s: Positive = 5.0
    """Time for a turn to obey a stop before the app-server is ended, with all its turns."""
    open_s: Positive = 30.0
    """Time for the app-server to start, and to open a session."""
    keep_s: Positive = 60.0
    """Time that a session stays open after a turn. Until then, `codex resume` in a terminal finds it in use."""
    stall_s: Positive = 30.0
    """Time that an unread turn may hold up the other turns."""
    prices: dict[str, Price] = field(default_factory=dict)
    """Prices by model, for models that are not listed, or cost you something else."""
    environment: list[str] = field(default_factory=list)
    """Names of further variables that Codex may see, such as OPENAI_API_KEY. Its commands do not see names with KEY, TOKEN
    or SECRET in them."""
