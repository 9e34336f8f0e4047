"""The scripted API in a process of its own: prints its address."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager

from bench.measuring.model_process import ANSWER, open_model_process, serve
from tests.engines.claude.api import Reply, ScriptedApi, in_order, pause


def serving(model_s: float = 0.0) -> AbstractContextManager[str]:
    """Serve answers that take `model_s` each."""
    return open_model_process("bench.driving.api", str(model_s))


def main() -> None:
    """Serve until the input ends."""
    api = ScriptedApi(in_order(Reply([pause(float(sys.argv[1])), {"text": ANSWER}])))
    api.keeps = False
    with api.serving():
        serve(api.url)


if __name__ == "__main__":
    main()
