"""Ports of this machine that are a test's own for as long as it needs them."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def hold_port() -> Iterator[int]:
    """Whoever calls there is refused, and no other program gets it; only who asks for this very port may listen there."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
