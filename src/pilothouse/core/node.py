"""A node is one process of ours, known by its epoch. It proves that it lives with `beat`.

Whatever it has claimed is held under that lease. A node that was `fence`d can write nothing any more: every `write`
checks it first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from msgspec import Struct

from pilothouse.core.ids import Epoch

Role = Literal["engines", "channels", "scheduler"]


class NodeInfo(Struct, frozen=True):
    """Who a process is: enough to tell, on its own host, whether it still lives."""

    name: str
    host: str
    pid: int
    started: str
    """The kernel's start time of the process, so that a reused pid is not taken for it."""


class Node(Struct, frozen=True):
    epoch: Epoch
    info: NodeInfo
    roles: tuple[Role, ...]
    lease_until: float
    beats: int
    fenced: bool


class Nodes(Protocol):
    def join(self, info: NodeInfo, roles: Sequence[Role], lease_until: float) -> Epoch:
        """Makes this store speak for the new node from now on."""
        ...

    def beat(self, lease_until: float) -> None: ...

    def add_role(self, role: Role) -> None:
        """Raises `RoleHeld` while another node that was not fenced has the role `engines`."""
        ...

    def leave(self) -> None:
        """Gives back every role; the node is fenced by its own will, and so this store writes nothing any more."""
        ...

    def claimants(self) -> list[Epoch]:
        """Nodes that were fenced, or left, and still hold claims or live turns: somebody must recover them."""
        ...

    def list(self) -> list[Node]:
        """Those not fenced, oldest first."""
        ...

    def get(self, epoch: Epoch) -> Node | None: ...

    def fence(self, epoch: Epoch) -> None: ...
