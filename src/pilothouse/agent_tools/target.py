"""The parameters that name a destination, shared by the tools that send."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from pilothouse.agent_tools.tool import Arguments
from pilothouse.runtime.agent_calls.messages import Target

To = Annotated[str | None, Meta(description="A granted destination, by name. Without one: here.")]
Channel = Annotated[str | None, Meta(description="Channel of a granted destination.")]
PlatformId = Annotated[str | None, Meta(description="The channel's id of a granted destination.")]
ThreadId = Annotated[str | None, Meta(description="Thread of a granted destination.")]


class ToDestination(Arguments, frozen=True, kw_only=True):
    to: To = None
    channel: Channel = None
    platform_id: PlatformId = None
    thread_id: ThreadId = None

    @property
    def target(self) -> Target:
        return Target(self.to, self.channel, self.platform_id, self.thread_id)
