"""The section `[engines.NAME]` of an ACP agent: a ready-made one, or any other with `type = "acp"` and its command."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

OwnFile = Annotated[str, Meta(pattern=r"^[~/]", description="a path that begins with / or ~")]
Positive = Annotated[float, Meta(gt=0, description="a number above 0")]
Count = Annotated[int, Meta(ge=1, description="a whole number of at least 1")]
ShortPrompt = Annotated[str, Meta(max_length=4000, description="a text of at most 4000 characters")]


class AcpConfig(Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal["acp"] = "acp"
    command: list[str] | None = None
    """The program and its arguments. Ready-made agents have one."""
    model: str | None = None
    fallback_model: str | None = None
    """The model with which a turn begins again if the first is overloaded or used up before it said anything."""
    options: dict[str, str] = field(default_factory=dict)
    """The agent's own options by their ids, such as a reasoning effort."""
    asks_first: bool | None = None
    """You have made sure that the agent asks before every call. Without a value: what is known of a ready-made agent."""
    add_dirs: list[OwnFile] = field(default_factory=list)
    """Folders besides the workspace, for agents that take such."""
    append_system_prompt: ShortPrompt | None = None
    context_files: list[OwnFile] = field(default_factory=list)
    """Read in every session, after the workspace's own files (SOUL.md and so on)."""
    resume_line: bool = False
    """Close each answer with the line that resumes its session, where such a line is known."""
    max_processes: Count | None = None
    """Processes that are kept, one for each session. Without a value: what fits into half of the free memory."""
    idle_timeout_s: Positive = 300.0
    """Time that a session's process is kept after a turn."""
    stop_grace_s: Positive = 5.0
    """Time for a turn to obey a stop before the agent's process is ended."""
    open_s: Positive = 60.0
    """Time for the agent to start, and to open a session."""
    environment: list[str] = field(default_factory=list)
    """Names of further variables that the agent may see, such as a key."""
