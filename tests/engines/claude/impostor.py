"""A program that speaks as Claude Code does, and does what the real one never should. For tests that need such a one.

impostor.py MODE [ARGUMENT]

leaky          runs a command that it never showed to the gate, then a second one
peeks NAME     calls that tool, and never shows it to the gate
honest         the same, by the gate
calls N        shows N calls to the gate in one turn, and runs them
garbage        talks nonsense before, between and after its lines
mute           never answers anything
stubborn       answers what it is asked with an error, but for the first time
asks           asks about a command that no line announced, and says nothing until it is answered
deaf           answers what it is asked for the first time, and never again
"""

from __future__ import annotations

import itertools
import json
import sys
from typing import Any

VERSION = "0.0.0 (Impostor)"
SESSION = "0b0f7a4e-3c5d-4e6f-8a7b-9c0d1e2f3a4b"


def out(**line: Any) -> None:
    print(json.dumps({**line, "session_id": SESSION, "uuid": "u"}), flush=True)


def heard() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


def reply_to(line: dict[str, Any]) -> None:
    told: dict[str, Any] = {"subtype": "success", "request_id": line["request_id"], "response": {}}
    first = line["request"]["subtype"] == "initialize"
    if sys.argv[1] == "stubborn" and not first:
        told |= {"subtype": "error", "error": "I will not"}
    if sys.argv[1] != "deaf" or first:
        out(type="control_response", response=told)


def await_message() -> str:
    while True:
        line = heard()
        if line["type"] == "user":
            return line["uuid"]
        if line["type"] == "control_request":
            reply_to(line)


def show(id: str, command: str) -> bool:
    """Whether the gate lets it pass."""
    given = {"tool_name": "Bash", "tool_input": {"command": command}, "cwd": "/"}
    request = {"subtype": "hook_callback", "callback_id": "gate", "input": given, "tool_use_id": id}
    out(type="control_request", request_id=f"hook-{id}", request=request)
    while True:
        line = heard()
        if line["type"] == "control_response":
            return line["response"]["response"]["hookSpecificOutput"]["permissionDecision"] == "allow"


def ask(id: str) -> None:
    """Ask about a command of which no line has told, and wait for the answer."""
    request = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "ls"}, "tool_use_id": id}
    out(type="control_request", request_id=f"ask-{id}", request=request)
    while heard()["type"] != "control_response":
        pass


def call(id: str, command: str, *, gated: bool, name: str = "Bash") -> None:
    use = {"type": "tool_use", "id": id, "name": name, "input": {"command": command}}
    out(type="assistant", message={"id": f"m-{id}", "content": [use]}, parent_tool_use_id=None)
    ran = show(id, command) if gated else True
    result = {
        "type": "tool_result",
        "tool_use_id": id,
        "content": "ran" if ran else "no",
        "is_error": not ran,
    }
    out(type="user", message={"role": "user", "content": [result]}, parent_tool_use_id=None)


def turn(uuid: str, *commands: str, gated: bool = True, name: str = "Bash", asks: bool = False) -> None:
    out(type="system", subtype="init", cwd="/", tools=["Bash"], model="impostor", user_message_uuids=[uuid])
    if asks:
        ask(uuid)
    for number, command in enumerate(commands):
        call(f"{uuid}-{number}", command, gated=gated, name=name)
    said = {"id": f"m-{uuid}", "content": [{"type": "text", "text": "done"}]}
    out(type="assistant", message=said, parent_tool_use_id=None)
    out(type="result", subtype="success", is_error=False, result="done", user_message_uuids=[uuid])


def nonsense(uuid: str) -> None:
    junk = [
        "",
        "Warning: something",
        "{",
        '{"type": 7}',
        "[1, 2]",
        '{"type":"novel","x":1}',
        "\x00\xff",
        "x" * 200_000,
    ]
    for line in junk:
        print(line, flush=True)
    turn(uuid, "ls")
    for line in junk:
        print(line, flush=True)


def main(mode: str, argument: str = "") -> None:
    if mode == "mute":
        while heard():
            pass
    for _ in itertools.count():
        uuid = await_message()
        match mode:
            case "garbage":
                nonsense(uuid)
            case "asks":
                turn(uuid, asks=True)
            case "peeks":
                turn(uuid, "x", gated=False, name=argument)
            case "calls":
                turn(uuid, *(f"echo {number}" for number in range(int(argument))))
            case _:
                turn(uuid, "rm -rf a", "rm -rf b", gated=mode != "leaky")


if __name__ == "__main__":
    if "--version" in sys.argv:
        print(VERSION)
    else:
        main(*sys.argv[1:3])
