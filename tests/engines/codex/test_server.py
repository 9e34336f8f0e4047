"""The socket of a jailed app-server: the program inside makes it, and may put something else in its place."""

from __future__ import annotations

import socket
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from pilothouse.engines.codex.server import name_socket


def test_a_link_in_a_jails_folder_of_sockets_leads_to_no_socket_of_the_machine() -> None:
    with TemporaryDirectory(dir="/tmp") as made, socket.socket(socket.AF_UNIX) as machine:
        inside = Path(made, "sockets")
        inside.mkdir()
        machine.bind(f"{made}/machine.sock")
        machine.listen()
        (inside / "a.sock").symlink_to(f"{made}/machine.sock")
        with pytest.raises(OSError, match="non-socket"), name_socket(inside):
            pass
        with socket.socket(socket.AF_UNIX) as own, socket.socket(socket.AF_UNIX) as client:
            own.bind(str(inside / "b.sock"))
            own.listen()
            with name_socket(inside) as path:
                (inside / "b.sock").unlink()
                (inside / "b.sock").symlink_to(f"{made}/machine.sock")
                client.connect(path)
            client.sendall(b"hello")
            served, _ = own.accept()
            with served:
                assert served.recv(5) == b"hello"
