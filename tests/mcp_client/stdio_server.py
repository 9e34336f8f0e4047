"""A stdio MCP server, standard library only. Its first argument says how it behaves."""

import json
import os
import sys
from typing import Any

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
NAMES = ("look", "draw", "fail", "die", "flood", "hang", "grow")


def result_of(method: str, params: dict[str, Any], tools: list[str]) -> dict[str, Any]:
    if method == "initialize":
        about = {"name": "sample", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about}
    if method == "tools/list":
        return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in tools]}
    return call(params["name"], params.get("arguments") or {}, tools)


def call(name: str, given: dict[str, Any], tools: list[str]) -> dict[str, Any]:
    if name == "die":
        sys.stderr.write("I am gone\n")
        sys.exit(3)
    if name == "flood":
        sys.stdout.write("x" * 100_000_000 + "\n")
    if name == "hang":
        sys.stdin.read()
    if name == "grow":
        tools.append("new")
        print(json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}), flush=True)
    if name == "draw":
        return {"content": [{"type": "image", "data": PIXEL, "mimeType": "image/png"}]}
    text = json.dumps(
        {"given": given, "cwd": os.getcwd(), "environment": dict(os.environ), "pid": os.getpid()}
    )
    return {"content": [{"type": "text", "text": text}], "isError": name == "fail"}


def serve(tools: list[str]) -> None:
    for line in sys.stdin:
        heard = json.loads(line)
        if heard.get("method") in ("initialize", "tools/list", "tools/call"):
            result = result_of(heard["method"], heard.get("params") or {}, tools)
            print(json.dumps({"jsonrpc": "2.0", "id": heard["id"], "result": result}), flush=True)
        elif "id" in heard:
            error = {"code": -32601, "message": "unknown"}
            print(json.dumps({"jsonrpc": "2.0", "id": heard["id"], "error": error}), flush=True)


if __name__ == "__main__":
    manner = sys.argv[1] if sys.argv[1:] else ""
    if manner == "prose":
        print("Welcome to the shop! Press any key.", flush=True)
        sys.stdin.read()
    elif manner == "silent":
        sys.stdin.read()
    else:
        print("Listening…", flush=True)
        serve(list(NAMES))
