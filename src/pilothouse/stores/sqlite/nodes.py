"""Nodes: epochs that are never reused, the role that only one node may hold, and the fence."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import get_args

from pilothouse.core.errors import RoleHeld
from pilothouse.core.ids import Epoch
from pilothouse.core.store import Node, NodeInfo, Role
from pilothouse.stores.sqlite.link import Link, Row

ROLES: tuple[Role, ...] = get_args(Role)


def node_of(row: Row) -> Node:
    epoch, name, host, pid, started, *flags, lease_until, beats, fenced = row
    roles = tuple(role for role, held in zip(ROLES, flags, strict=True) if held)
    return Node(epoch, NodeInfo(name, host, pid, started), roles, lease_until, beats, bool(fenced))


class NodeTable:
    def __init__(self, link: Link) -> None:
        self._link = link

    def join(self, info: NodeInfo, roles: Sequence[Role], lease_until: float) -> Epoch:
        try:
            row = self._link.row(
                "nodes.join",
                name=info.name,
                host=info.host,
                pid=info.pid,
                started=info.started,
                lease_until=lease_until,
                **_flags(roles),
            )
        except sqlite3.IntegrityError as error:
            raise self._held() from error
        assert row is not None, "an insert returns its row"
        self._link.epoch = Epoch(row[0])
        return self._link.epoch

    def beat(self, lease_until: float) -> None:
        self._link.run("nodes.beat", epoch=self._link.own_epoch("beat"), lease_until=lease_until)

    def add_role(self, role: Role) -> None:
        epoch = self._link.own_epoch("take a role")
        try:
            self._link.run("nodes.add_role", epoch=epoch, **_flags([role]))
        except sqlite3.IntegrityError as error:
            raise self._held() from error

    def leave(self) -> None:
        self._link.run("nodes.leave", epoch=self._link.own_epoch("leave"))
        self._link.forget_fence()

    def get(self, epoch: Epoch) -> Node | None:
        row = self._link.row("nodes.get", epoch=epoch)
        return node_of(row) if row else None

    def fence(self, epoch: Epoch) -> None:
        self._link.run("nodes.fence", epoch=epoch)
        self._link.forget_fence()

    def claimants(self) -> list[Epoch]:
        return [row[0] for row in self._link.rows("nodes.claimants")]

    def list(self) -> list[Node]:
        return [node_of(row) for row in self._link.rows("nodes.alive")]

    def _held(self) -> RoleHeld:
        row = self._link.row("nodes.engines")
        assert row is not None, "the index that refused us names one"
        info = node_of(row).info
        holder = f"{info.name} (process {info.pid} on {info.host})"
        return RoleHeld(
            f"{holder} already runs the engines of this store; stop it first", role="engines", holder=holder
        )


def _flags(roles: Iterable[Role]) -> dict[str, int]:
    held = set(roles)
    return {role: int(role in held) for role in ROLES}
