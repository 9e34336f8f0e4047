"""A call of one of Pilothouse's own tools, over HTTP. Standard library only, because the player loads it."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping
from typing import Any

LONGEST_S = 86_400.0
PROTOCOL = "2025-11-25"


def call_tool(server: Mapping[str, Any], tool: str, arguments: Mapping[str, Any]) -> tuple[bool, str]:
    """Return whether the call worked, and the text of its result."""
    params = {"name": tool, "arguments": arguments}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {
        **server.get("headers", {}),
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": PROTOCOL,
    }
    request = urllib.request.Request(server["url"], json.dumps(body).encode(), headers)  # noqa: S310 - the gateway's own
    # No proxy: the server is on this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=LONGEST_S) as response:
            return read_reply(response)
    except OSError as error:
        return False, f"The tool could not be called: {error}"


def read_reply(lines: Any) -> tuple[bool, str]:
    """Read an event stream up to the reply; notifications before it are skipped."""
    for line in lines:
        if not line.startswith(b"data:") or not line[5:].strip():
            continue
        reply = json.loads(line[5:])
        if "error" in reply:
            return False, str(reply["error"].get("message"))
        if "result" in reply:
            result = reply["result"]
            text = "\n".join(part.get("text", "") for part in result.get("content", ()))
            return not result.get("isError"), text
    return False, "The tool did not reply."
