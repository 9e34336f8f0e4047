"""`shell.exec`: a command lives as long as the client that started it, and its output is kept as it was written."""

from __future__ import annotations

import os
from pathlib import Path

from tests.channels.rpc.client_rig import Client, write_home


def start_command(client: Client, pipes: Path, name: str) -> tuple[str, int]:
    """Start a command that waits for a line; return the id of the request and the pid of the command."""
    here, back = pipes / f"{name}.in", pipes / f"{name}.out"
    os.mkfifo(here)
    os.mkfifo(back)
    asked = client.ask(
        "shell.exec", command=f"echo $$ > {back}; read line < {here}; echo $line", timeout_seconds=300
    )
    return asked, int(back.read_text())


def test_a_command_outlives_a_change_of_the_process_that_runs_the_engines(tmp_path: Path) -> None:
    write_home(tmp_path)
    with Client(tmp_path) as first, Client(tmp_path) as second:
        first.initialize()
        first.end_of(first.start("hello")["run_id"])  # the first one has the engines
        second.initialize()
        asked, _ = start_command(second, tmp_path, "own")
        first.close()
        assert first.program.wait(60) == 0
        assert second.end_of(second.start("hello")["run_id"]) == "completed"  # now the second one has them
        (tmp_path / "own.in").write_text("still here\n")
        told = second.until_answer(asked)["result"]
        assert (told["exit_code"], told["stdout"]) == (0, "still here\n")


def test_the_command_of_a_killed_client_is_ended_by_the_next_start(tmp_path: Path) -> None:
    write_home(tmp_path)
    with Client(tmp_path) as killed:
        killed.initialize()
        _, pid = start_command(killed, tmp_path, "left")
        killed.kill()
    with Client(tmp_path) as client:
        client.initialize()
        assert client.end_of(client.start("hello")["run_id"]) == "completed"
        assert not Path(f"/proc/{pid}").exists() or "State:\tZ" in Path(f"/proc/{pid}/status").read_text()


def test_both_outputs_are_told_as_they_were_written(tmp_path: Path) -> None:
    write_home(tmp_path)
    with Client(tmp_path) as client:
        client.initialize()
        bare = client.call("shell.exec", command="printf 'a\\r\\nb'; printf c >&2")["result"]
        assert (bare["stdout"], bare["stderr"]) == ("a\r\nb", "c")
        many = client.call("shell.exec", command="seq 60000 >&2")["result"]
        assert many["truncated"] == {"stdout": False, "stderr": True, "combined": True}
        assert many["stderr"].startswith("1\n2\n")
        kept = {"ref": many["stderr_cache_id"], "offset": 0, "limit": 60_000}
        told = client.call("tool.call", name="tool_output_cache_grep", arguments={**kept, "pattern": "60000"})
        assert told["result"]["result"] == "60000: 60000"
        long = client.call("shell.exec", command="head -c 300000 /dev/zero | tr '\\0' x >&2")["result"]
        assert long["truncated"]["stderr"] and long["stderr_cache_id"]
        flood = client.call("shell.exec", command="head -c 11000000 /dev/zero | tr '\\0' x >&2")["result"]
        assert (flood["exit_code"], "more than 10 MB" in flood["problem"]) == (0, True)
