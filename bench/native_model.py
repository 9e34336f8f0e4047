"""The model of `bench/native`, in a process of its own: it calls a tool until a turn has made its calls, at once."""

from __future__ import annotations

import sys

from bench.measuring.model_process import serve
from tests.engines.native.model import Call, Reply, Request, open_model


def answer(calls: int, request: Request) -> Reply:
    """Call a tool so many times after a prompt that says "work"; else answer."""
    if "work" in request.prompt and len(request.results) < calls - 1:
        return Reply(calls=[Call("agents_resolve", {"path": "."})])
    return Reply("The same few words, whatever you say.")


if __name__ == "__main__":
    wanted = int(sys.argv[1])
    with open_model(lambda request: answer(wanted, request)) as model:
        serve(model.url)
