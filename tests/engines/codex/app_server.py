"""A scripted app-server: speaks Codex's protocol, and fails in the ways that a prompt names.

`app_server.py LOG FAULT app-server --listen unix://PATH` writes every message that it gets to LOG; FAULT is one of the start:
`mute`, `refuses`, `prose`, `exits`, or empty. Several clients may connect: all see all that happens.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from contextlib import suppress
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, unix_serve

THREAD = "01a1e073-6613-7e33-879d-36dcc30b87ce"
HUGE_BYTES = 100 * 1024 * 1024


class Server:
    def __init__(self, log: str, fault: str) -> None:
        self._log = open(log, "a", buffering=1)  # noqa: SIM115 - as long as the process
        self._fault = fault
        self._turns = 0
        self._said = ""
        self._clients: list[ServerConnection] = []
        self.running = ""
        """The turn that has begun and not ended."""
        self.open_request: dict[str, Any] | None = None

    def run(self, path: str) -> None:
        if self._fault == "exits":
            sys.stderr.write("cannot open the database\n")
            sys.exit(3)
        folder, name = os.path.split(path)
        if os.path.basename(folder) == "sockets":  # of a jail: what Codex makes there is no link
            real = f"/proc/self/fd/{os.open(folder, os.O_PATH)}/{name}"
        else:
            real = f"{tempfile.mkdtemp(prefix='app-server-')}/socket"  # the path may be longer than a socket's can be
            os.symlink(real, path)
        with unix_serve(self._serve, real, compression=None, max_size=None, ping_interval=None) as server:
            server.serve_forever()

    def _serve(self, client: ServerConnection) -> None:
        self._clients.append(client)
        if self._fault == "prose":
            client.send("Welcome to the app-server!")
        for line in client:
            self._log.write(f"{line}\n")
            message = json.loads(line)
            if "method" not in message:
                self._settle(message)
            elif "id" in message:
                self._answer(client, message["id"], message["method"], message.get("params") or {})
        self._clients.remove(client)

    def _answer(self, client: ServerConnection, id: int, method: str, params: dict[str, Any]) -> None:
        def reply(**message: Any) -> None:
            client.send(json.dumps({"id": id, **message}))

        match method:
            case "initialize" if self._fault == "mute":
                pass
            case "initialize" if self._fault == "refuses":
                reply(error={"code": -32600, "message": "too old"})
            case "thread/start" | "thread/resume":
                if self.open_request:
                    client.send(json.dumps(self.open_request))
                status = {"type": "active" if self.running else "idle"}
                thread = {"id": THREAD, "status": status}
                reply(result={"thread": thread, "model": "scripted", "cwd": params.get("cwd")})
            case "thread/turns/list":
                items = [
                    {"type": "userMessage", "id": "u", "content": [{"type": "text", "text": self._said}]}
                ]
                reply(result={"data": [{"id": self.running, "status": "inProgress", "items": items}]})
            case "turn/start":
                self._turns += 1
                turn, self._said = f"turn-{self._turns}", params["input"][0]["text"]
                if self._said == "slow start":
                    time.sleep(0.5)
                reply(result={"turn": {"id": turn, "status": "inProgress"}})
                Turn(self, turn).play(self._said)
            case "turn/interrupt" if params["turnId"] != "deaf":
                reply(result={})
                Turn(self, params["turnId"]).end("interrupted")
            case "thread/unsubscribe":
                reply(result={})
                self.tell("thread/closed", threadId=THREAD)
            case _:
                reply(result={})

    def _settle(self, answer: dict[str, Any]) -> None:
        """Take the first answer to a request, and go on."""
        request = self.open_request
        if request is None or request["id"] != answer["id"]:
            return
        self.open_request = None
        self.tell("serverRequest/resolved", threadId=THREAD, requestId=request["id"])
        turn, accepted = Turn(self, request["params"]["turnId"]), answer["result"]["decision"] == "accept"
        if accepted:
            turn.complete_command("asked", "completed")
        turn.finish("Made." if accepted else "Not made.")

    def tell(self, method: str, **params: Any) -> None:
        self.send(method=method, params=params)

    def send(self, **message: Any) -> None:
        self.write(json.dumps(message))

    def write(self, text: str) -> None:
        for client in list(self._clients):
            with suppress(ConnectionClosed):
                client.send(text)

    def write_half(self) -> None:
        """Begin a message that never ends."""
        for client in self._clients:
            client.socket.sendall(b'\x81\x7e\x01\x00{"method":"item/agentMe')


class Turn:
    def __init__(self, server: Server, id: str) -> None:
        self._server = server
        self._id = id

    def play(self, prompt: str) -> None:
        self._server.running = self._id
        self.tell("turn/started", turn={"id": self._id, "status": "inProgress"})
        match prompt:
            case "hang":
                self.say("Well", done=False)
                time.sleep(600)  # reads nothing any more
            case "crash":
                self.say("Well", done=False)
                self._server.write_half()
                os._exit(3)
            case "stall" | "slow start":
                self.say("Well", done=False)
            case "strange":
                self.item("item/started", type="dream", id="d", depth=3)
                self.tell("dream/deepened", depth=4)
                self.finish("Awake.")
            case "huge":
                self._server.write('{"method":"warning","params":{"message":"' + "x" * HUGE_BYTES + '"}}')
                self.finish("Still here.")
            case "twice":
                self.finish("Once.")
                self.end("completed")
                self.end("failed")
            case "late":
                self.finish("Before.")
                self.say("After the end", item="late")
                self.command("late-command", "completed")
            case "leak":
                self.command("c1", "completed")
            case "ask after the end":
                self.finish("Done.")
                params = {"threadId": THREAD, "turnId": self._id, "itemId": "c9", "command": "make"}
                self._server.send(id=99, method="item/commandExecution/requestApproval", params=params)
            case "ask":
                self.item(
                    "item/started", type="commandExecution", id="asked", command="make", status="inProgress"
                )
                params = {"threadId": THREAD, "turnId": self._id, "itemId": "asked", "command": "make"}
                method = "item/commandExecution/requestApproval"
                self._server.open_request = {"id": 7, "method": method, "params": params}
                self._server.send(**self._server.open_request)
            case "flood":
                for _ in range(5000):
                    self.tell("item/agentMessage/delta", itemId=f"m-{self._id}", delta="word ")
                self.end("completed")
            case _:
                self.finish(prompt)

    def finish(self, text: str) -> None:
        self.say(text)
        self.end("completed")

    def say(self, text: str, *, done: bool = True, item: str = "") -> None:
        id = item or f"m-{self._id}"
        self.item("item/started", type="agentMessage", id=id, text="")
        self.tell("item/agentMessage/delta", itemId=id, delta=text)
        if done:
            self.item("item/completed", type="agentMessage", id=id, text=text)

    def command(self, id: str, status: str) -> None:
        self.item("item/started", type="commandExecution", id=id, command="make", status="inProgress")
        self.complete_command(id, status)

    def complete_command(self, id: str, status: str) -> None:
        self.item(
            "item/completed", type="commandExecution", id=id, command="make", status=status, source="agent"
        )

    def end(self, status: str) -> None:
        self._server.running = ""
        self.tell("turn/completed", turn={"id": self._id, "status": status, "items": [], "error": None})

    def item(self, method: str, **item: Any) -> None:
        self.tell(method, item=item)

    def tell(self, method: str, **params: Any) -> None:
        self._server.tell(method, threadId=THREAD, turnId=self._id, **params)


if __name__ == "__main__":
    log, fault, *_, listen = sys.argv[1:]
    Server(log, fault).run(listen.removeprefix("unix://"))
