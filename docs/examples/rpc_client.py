"""Usage: rpc_client.py WORKSPACE TEXT. Sends one prompt, shows steps, asks for approvals, prints the answer."""

import json
import os
import subprocess
import sys

command = os.environ.get("PILOTHOUSE", "pilothouse").split()
SERVER = [*command, "rpc", "--workspace", sys.argv[1]]
server = subprocess.Popen(SERVER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def send(**frame):
    print(json.dumps({"jsonrpc": "2.0", **frame}), file=server.stdin, flush=True)


able = {"supports_confirm": True}
send(id=1, method="initialize", params={"protocol_version": "0", "ui_capabilities": able})
send(id=2, method="run.start", params={"input": {"type": "text", "text": sys.argv[2]}})
for line in server.stdout:
    frame = json.loads(line)
    params = frame.get("params", {})
    match frame.get("method"):
        case "agent.event" if params["event"]["type"] == "step_start":
            print("·", params["event"]["title"])
        case "agent.event" if params["event"]["type"] == "final":
            print(params["event"]["content"])
        case "ui.confirm.request":
            said = input(f"{params['title']}\n{params['message']}\nAllow? [y/N] ")
            send(id=frame["id"], result={"ok": said.lower() == "y"})
        case "run.status" if params["status"] in ("completed", "error", "cancelled"):
            server.stdin.close()
            sys.exit(params["status"] != "completed")
sys.exit("The server ended before the run did.")
