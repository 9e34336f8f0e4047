"""A stdio MCP server with one tool, which returns an image. Standard library only; started by the CLI."""

import json
import sys
from typing import Any

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
TOOL = {"name": "draw", "description": "Draws.", "inputSchema": {"type": "object"}}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        version = params.get("protocolVersion", "2025-03-26")
        about = {"name": "images", "version": "1"}
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        return {"content": [{"type": "image", "data": PIXEL, "mimeType": "image/png"}]}
    return {}


def serve() -> None:
    for line in sys.stdin:
        heard = json.loads(line)
        if "id" in heard:
            result = answer(heard["method"], heard.get("params") or {})
            print(json.dumps({"jsonrpc": "2.0", "id": heard["id"], "result": result}), flush=True)


if __name__ == "__main__":
    serve()
