"""A stdio MCP server, standard library only. Its first argument says how it behaves."""

import json
import os
import sys
from typing import Any

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
SCHEMAS = {"look": {"type": "object", "properties": {"filter[id]": {"type": "string"}}}}
NAMES = ("look", "draw", "fail", "die", "flood", "hang", "grow", "ask", "visit")


def result_of(method: str, params: dict[str, Any], tools: list[str]) -> dict[str, Any]:
    if method == "initialize":
        about = {"name": "sample", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about}
    if method == "tools/list":
        return {
            "tools": [{"name": name, "inputSchema": SCHEMAS.get(name, {"type": "object"})} for name in tools]
        }
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


def ask(id: Any, name: str) -> None:
    """Ask the client; `serve` answers the call with what it says."""
    size = {"type": "string", "enum": ["S", "L"]}
    schema = {"type": "object", "properties": {"size": size, "count": {"type": "integer"}}}
    form = {"mode": "form", "message": "Which one?", "requestedSchema": schema}
    page = {"mode": "url", "message": "Log in", "url": "http://127.0.0.1/login", "elicitationId": "1"}
    params = form if name == "ask" else page
    request = {"id": f"ask-{id}", "method": "elicitation/create", "params": params}
    print(json.dumps({"jsonrpc": "2.0", **request}), flush=True)


def serve(tools: list[str]) -> None:
    for line in sys.stdin:
        heard = json.loads(line)
        if str(heard.get("id")).startswith("ask-"):
            result = {"content": [{"type": "text", "text": json.dumps(heard.get("result"))}]}
            id = int(heard["id"].removeprefix("ask-"))
            print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)
        elif heard.get("method") == "tools/call" and heard["params"]["name"] in ("ask", "visit"):
            ask(heard["id"], heard["params"]["name"])
        elif heard.get("method") in ("initialize", "tools/list", "tools/call"):
            result = result_of(heard["method"], heard.get("params") or {}, tools)
            print(json.dumps({"jsonrpc": "2.0", "id": heard["id"], "result": result}), flush=True)
        elif "id" in heard:
            error = {"code": -32601, "message": "unknown"}
            print(json.dumps({"jsonrpc": "2.0", "id": heard["id"], "error": error}), flush=True)


def fall_silent() -> None:
    """Answer the first question as a server of an older version does, else the client waits ten seconds for it."""
    first = json.loads(sys.stdin.readline())
    error = {"code": -32601, "message": "unknown"}
    print(json.dumps({"jsonrpc": "2.0", "id": first["id"], "error": error}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    manner = sys.argv[1] if sys.argv[1:] else ""
    if manner == "prose":
        print("Welcome to the shop! Press any key.", flush=True)
        fall_silent()
    elif manner == "silent":
        fall_silent()
    else:
        print("Listening…", flush=True)
        serve(list(NAMES))
