"""A client for `pilothouse rpc`: start it, run prompts, iterate events, answer asks. Standard library and msgspec only.

async with open_client(workspace="project") as client:
    run = await client.start("Fix the failing test")
    async for event in run:
        print(event)
    print(run.status, run.answer)
"""

from __future__ import annotations

from pilothouse.client.client import Client, ClientError, Handlers, ServerLeft, open_client
from pilothouse.client.run import Run

__all__ = ["Client", "ClientError", "Handlers", "Run", "ServerLeft", "open_client"]
