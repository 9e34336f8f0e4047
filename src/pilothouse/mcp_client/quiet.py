"""Keeps the log lines of the MCP library from the terminal."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the libraries' warnings from the terminal: what matters becomes a state."""
    handler, logger = logging.NullHandler(), logging.getLogger("mcp.client")
    logger.addHandler(handler)
    before, logger.propagate = logger.propagate, False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before
