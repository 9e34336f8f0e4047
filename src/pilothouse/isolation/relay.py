"""Runs inside a jail without a network, and carries connections between its loopback and the gateway's socket:

    python -I -S relay.py FOLDER PROXY_PORT FORWARDED SERVED -- PROGRAM ARGUMENT…

FOLDER holds `out.sock`, where the gateway's proxy listens. Connections to PROXY_PORT go there as they are. Connections to a
port of FORWARDED (a list with commas) go there too, behind a CONNECT to the same port of the machine's loopback. SERVED is a
port of the program, or 0: connections to `in.sock`, which the relay makes, go to it. The program takes this process over;
the relay is a child of it, and ends with the jail. Uses the standard library alone. Before the program runs, it uses `_socket`:
`socket` takes as long to import as Python takes to start, and the child does that beside the program.
"""

from __future__ import annotations

import _socket
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from typing import Any

    Handle = Callable[..., None]

LOOPBACK = "127.0.0.1"
OUT, IN = "out.sock", "in.sock"
WAITING = 64
PIECE_BYTES = 65536
CANNOT_START = 126


def listen(port: int) -> _socket.socket:
    made = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM, _socket.IPPROTO_TCP)
    made.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    made.bind((LOOPBACK, port))
    made.listen(WAITING)
    return made


def listen_inward(path: str) -> _socket.socket:
    made = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    made.bind(path)
    made.listen(WAITING)
    return made


def relay(
    folder: str,
    proxy: _socket.socket,
    forwarded: dict[int, _socket.socket],
    served: int,
    inner: _socket.socket | None,
) -> None:
    """Serve until the jail ends."""
    import socket
    import threading

    def outward(client: socket.socket, port: int) -> None:
        upstream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        upstream.connect(os.path.join(folder, OUT))
        if port and not ask_for(upstream, port):
            client.close()
            return
        join(client, upstream)

    def inward(client: socket.socket) -> None:
        upstream = socket.create_connection((LOOPBACK, served))
        join(client, upstream)

    def accept(made: _socket.socket, handle: Handle, *rest: int) -> None:
        listening = socket.socket(fileno=made.detach())
        while True:
            client, _ = listening.accept()
            threading.Thread(target=guarded, args=(handle, client, *rest), daemon=True).start()

    tasks: list[tuple[Any, ...]] = [(proxy, outward, 0)]
    tasks += [(one, outward, port) for port, one in forwarded.items()]
    if inner is not None:
        tasks.append((inner, inward))
    for one in tasks:
        threading.Thread(target=accept, args=one, daemon=True).start()
    threading.Event().wait()


def guarded(handle: Handle, client: socket.socket, *rest: int) -> None:
    """Handle one connection; a broken one ends alone."""
    try:
        handle(client, *rest)
    except OSError:
        client.close()


def ask_for(upstream: socket.socket, port: int) -> bool:
    """Ask the proxy for a port of the machine's loopback; tell whether it agreed."""
    upstream.sendall(f"CONNECT {LOOPBACK}:{port} HTTP/1.1".encode() + b"\r\n\r\n")
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        if not (one := upstream.recv(1)):
            return False
        head += one
    return head.split(b" ", 2)[1:2] == [b"200"]


def join(one: socket.socket, other: socket.socket) -> None:
    """Copy both ways until both ends are through."""
    import threading

    back = threading.Thread(target=copy, args=(other, one), daemon=True)
    back.start()
    copy(one, other)
    back.join()
    one.close()
    other.close()


def copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while piece := source.recv(PIECE_BYTES):
            target.sendall(piece)
        target.shutdown(_socket.SHUT_WR)
    except OSError:
        for end in (source, target):
            try:
                end.shutdown(_socket.SHUT_RDWR)
            except OSError:
                continue


def main(folder: str, proxy_port: str, forwarded: str, served: str, dashes: str, *argv: str) -> int:
    ports = {int(port): listen(int(port)) for port in forwarded.split(",") if port}
    proxy = listen(int(proxy_port))
    inner = listen_inward(os.path.join(folder, IN)) if int(served) else None
    if os.fork() == 0:
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):  # the gateway waits for the end of the program's output
            os.dup2(nothing, descriptor)
        relay(folder, proxy, ports, int(served), inner)
    try:
        os.execvp(argv[0], argv)  # noqa: S606 - the program takes this process over
    except OSError as error:
        sys.stderr.write(f"Cannot start {argv[0]!r}: {error.strerror}.\n")
        return CANNOT_START


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
