"""A client of the tool server, in a process of its own: calls tools over one connection, between bare commits.

Reads a `Job` from stdin and writes a `Result` to stdout, both as JSON.
"""

from __future__ import annotations

import sys
import time
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from bench.measuring.turn import bare_commits
from msgspec import Struct

from pilothouse.engines.script.tool_call import PROTOCOL, read_reply

WARM = 10


class Job(Struct):
    url: str
    authorization: str
    database: str
    rounds: int


class Result(Struct):
    """Seconds of each kind of call."""

    commits: list[float] = []
    lists: list[float] = []
    changes: list[float] = []
    messages: list[float] = []


class Client:
    def __init__(self, job: Job) -> None:
        parts = urlsplit(job.url)
        self._path = parts.path
        self._connection = HTTPConnection(parts.netloc, timeout=60)
        self._headers = {
            "Authorization": job.authorization,
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": PROTOCOL,
        }

    def call(self, tool: str, **arguments: str) -> str:
        params = {"name": tool, "arguments": arguments}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        self._connection.request("POST", self._path, msgspec.json.encode(body), self._headers)
        response = self._connection.getresponse()
        ok, text = read_reply(response)
        response.read()
        if not ok:
            raise SystemExit(f"{tool}: {text}")
        return text

    def timed(self, tool: str, **arguments: str) -> float:
        began = time.perf_counter()
        self.call(tool, **arguments)
        return time.perf_counter() - began


def main() -> None:
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    client, commit, result = Client(job), bare_commits(Path(job.database)), Result()
    task = client.call("schedule_task", prompt="Look", every="1d").split()[1].rstrip(".")
    for number in range(WARM + job.rounds):
        began = time.perf_counter()
        commit()
        result.commits.append(time.perf_counter() - began)
        result.lists.append(client.timed("list_tasks"))
        tool = "resume_task" if number % 2 else "pause_task"
        result.changes.append(client.timed(tool, taskId=task))
        result.messages.append(client.timed("send_message", text=f"message {number}"))
    kept = Result(*(getattr(result, name)[WARM:] for name in Result.__struct_fields__))
    sys.stdout.buffer.write(msgspec.json.encode(kept))


if __name__ == "__main__":
    main()
