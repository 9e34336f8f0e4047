"""`pilothouse agent-tools`: serves the tools over stdio, for programs that take no MCP server over HTTP.

It forwards JSON-RPC lines to the gateway and writes back what it replies. Standard library only, to start fast: an engine
starts one for each session. The gateway passes address and secret in the environment.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import IO, Any

URL, SECRET = "PILOTHOUSE_TOOLS_URL", "PILOTHOUSE_TOOLS_SECRET"
LONGEST_S = 86_400.0
MOST_AT_ONCE = 32
NOT_STARTED = "pilothouse agent-tools is started by an engine, with the address of a running gateway. Run `pilothouse up`."


class Bridge:
    """Forwards each line in a thread of its own: a question may wait for hours while other calls go on."""

    def __init__(self, url: str, secret: str, out: IO[bytes]) -> None:
        self._url = url
        self._secret = secret
        self._out = out
        self._lock = threading.Lock()
        self._room = threading.Semaphore(MOST_AT_ONCE)
        self._version = ""
        import urllib.request  # 50 ms that the gateway, which only wants the names above, does not need

        # No proxy: the server is on this machine.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def serve(self, lines: IO[bytes]) -> None:
        threads: list[threading.Thread] = []
        for line in lines:
            if not line.strip():
                continue
            self._room.acquire()
            threads = [thread for thread in threads if thread.is_alive()]
            threads.append(threading.Thread(target=self._forward, args=(line,), daemon=True))
            threads[-1].start()
            if b'"initialize"' in line:
                threads[-1].join()
        for thread in threads:
            thread.join()

    def _forward(self, line: bytes) -> None:
        """Write every reply; an error if none of them answers the request, since its caller would wait for ever."""
        import http.client

        request, why = _read(line), "the connection ended before the answer"
        id, answered = request.get("id") if "method" in request else None, False
        try:
            for data in self._post(line):
                self._write(data)
                reply = _read(data)
                answered = answered or (reply.get("id") == id and "method" not in reply)
        except (OSError, http.client.HTTPException) as error:
            why = str(error) or type(error).__name__
        finally:
            self._room.release()
        if id is not None and not answered:
            error = {"code": -32000, "message": f"Pilothouse cannot be reached: {why}"}
            self._write(json.dumps({"jsonrpc": "2.0", "id": id, "error": error}).encode())

    def _post(self, line: bytes) -> Any:
        """Yield each reply that arrived whole."""
        import urllib.request

        headers = {
            "Authorization": f"Bearer {self._secret}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            **({"MCP-Protocol-Version": self._version} if self._version else {}),
        }
        request = urllib.request.Request(self._url, line.strip(), headers)  # noqa: S310 - the gateway's own
        with self._opener.open(request, timeout=LONGEST_S) as response:
            for row in response:
                if row.startswith(b"data:") and row.endswith(b"\n") and (data := row[5:].strip()):
                    self._note_version(data)
                    yield data

    def _note_version(self, data: bytes) -> None:
        """Remember the protocol that was agreed on: over HTTP, every later request names it."""
        if not self._version and b'"protocolVersion"' in data:
            self._version = str(json.loads(data).get("result", {}).get("protocolVersion") or "")

    def _write(self, data: bytes) -> None:
        with self._lock:
            self._out.write(data + b"\n")
            self._out.flush()


def _read(line: bytes) -> dict[str, Any]:
    """Return a message; an empty one for anything else."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def main() -> int:
    url, secret = os.environ.get(URL, ""), os.environ.get(SECRET, "")
    if not url or not secret:
        sys.stderr.write(f"{NOT_STARTED}\n")
        return 2
    Bridge(url, secret, sys.stdout.buffer).serve(sys.stdin.buffer)
    return 0


if __name__ == "__main__":
    sys.exit(main())
