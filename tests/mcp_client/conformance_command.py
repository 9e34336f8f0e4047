"""The command that the conformance suite starts for each scenario. Standard library only, because many run at once.

It passes the scenario to the test over a socket, and ends with the code that comes back.
"""

import json
import os
import socket
import sys

if __name__ == "__main__":
    line = socket.socket(socket.AF_UNIX)
    line.connect(sys.argv[1])
    said = {name: os.environ.get(f"MCP_CONFORMANCE_{name}", "") for name in ("SCENARIO", "CONTEXT")}
    line.sendall(json.dumps({**said, "URL": sys.argv[-1]}).encode() + b"\n")
    sys.exit(int(line.makefile().readline() or 1))
