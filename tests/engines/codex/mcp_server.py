"""A small MCP server: `look` says that it only reads, `act` does not, `ask` asks the user with a form."""

import json
import sys
from pathlib import Path

TOOLS = [
    {"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
    {"name": "act", "inputSchema": {"type": "object"}},
    {"name": "ask", "inputSchema": {"type": "object"}},
]
FORM = {
    "type": "object",
    "properties": {"size": {"type": "string", "enum": ["S", "L"]}},
    "required": ["size"],
}


def send(message: dict[str, object]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def answer(method: str, params: dict[str, object]) -> dict[str, object]:
    if method == "initialize":
        info = {"name": "test", "version": "1"}
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": info,
        }
    return {"tools": TOOLS} if method == "tools/list" else {}


def main() -> None:
    if len(sys.argv) > 1:
        Path(sys.argv[1]).touch()
    asked = None
    for line in sys.stdin:
        message = json.loads(line)
        id, method, params = message.get("id"), message.get("method"), message.get("params") or {}
        if method is None and id == "form":
            text = json.dumps(message["result"])
            send({"id": asked, "result": {"content": [{"type": "text", "text": f"said {text}"}]}})
        elif method == "tools/call" and params["name"] == "ask":
            asked = id
            form = {"message": "Which size?", "requestedSchema": FORM}
            send({"id": "form", "method": "elicitation/create", "params": form})
        elif method == "tools/call":
            send({"id": id, "result": {"content": [{"type": "text", "text": f"ran {params['name']}"}]}})
        elif id is not None:
            send({"id": id, "result": answer(method, params)})


main()
