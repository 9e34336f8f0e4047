"""`pilothouse mcp`: servers are added, listed, switched and removed; a folder's own need trust."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import httpx2
from anyio.to_thread import run_sync
from tests.cli.conftest import House
from tests.forked import Forked
from tests.mcp_client.oauth_site import open_oauth_site


def listed(house: House) -> dict[str, dict[str, Any]]:
    done = house.run("mcp", "--json")
    assert done.returncode == 0, done.stderr
    return {row["id"]: row for row in json.loads(done.stdout)}


def test_servers_are_added_listed_switched_and_removed(house: House) -> None:
    assert "No MCP servers" in house.run("mcp").stdout
    added = house.run(
        "mcp", "add", "docs", "--url", "https://x.example/mcp?k=1", "--header", "X-Api-Key: abc"
    )
    assert added.returncode == 0, added.stderr
    assert "pilothouse mcp test docs" in added.stdout and "Its secret now stands in" in added.stderr
    done = house.run("mcp", "add", "files", "--env", "A=b=c", "--", "npx", "-y", "files", "--root", "/srv")
    assert done.returncode == 0, done.stderr
    assert house.run("mcp", "disable", "files").returncode == 0
    rows = listed(house)
    assert rows["docs"]["target"] == "https://x.example/mcp" and rows["docs"]["enabled"]
    assert rows["files"]["target"] == "npx" and not rows["files"]["enabled"]
    assert 'args = ["-y", "files", "--root", "/srv"]' in house.config.read_text()
    assert house.run("mcp", "remove", "docs").returncode == 0
    assert set(listed(house)) == {"files"}
    missing = house.run("mcp", "enable", "docs")
    assert missing.returncode == 1 and "There is no server 'docs'" in missing.stderr


def test_a_wrong_server_is_refused_and_nothing_is_written(house: House) -> None:
    for words in (
        ["a"],
        ["a", "--url", "x"],
        ["a", "--url", "http://x", "--header", "y"],
        ["pilothouse", "x"],
    ):
        done = house.run("mcp", "add", *words)
        assert done.returncode == 1, words
        assert "Traceback" not in done.stderr
    assert not house.config.exists()


def test_a_folders_own_server_counts_once_the_folder_is_trusted(house: House) -> None:
    assert house.run("mcp", "add", "--project", "shop", "./shop").returncode == 0
    assert "not trusted" in listed(house)["shop"]["problem"]
    trusted = house.run("trust")
    assert trusted.returncode == 0 and ".pilothouse.toml" in trusted.stdout
    assert listed(house)["shop"] == {
        "id": "shop",
        "transport": "stdio",
        "target": "./shop",
        "source": ".pilothouse.toml",
        "enabled": True,
        "problem": "",
    }
    assert house.run("mcp", "add", "--project", "other", "./other").returncode == 0
    assert "not trusted" in listed(house)["shop"]["problem"], "the servers have changed"


def test_servers_are_tried_and_their_tools_listed(house: House) -> None:
    program = Path(__file__).parents[1] / "mcp_client" / "stdio_server.py"
    assert house.run("mcp", "add", "shop", "--", sys.executable, str(program)).returncode == 0
    assert house.run("mcp", "add", "none", "--", str(house.home / "none")).returncode == 0
    done = house.run("mcp", "test", "--json")
    assert done.returncode == 1, done.stderr
    found = {row["id"]: row for row in json.loads(done.stdout)}
    assert found["shop"]["state"] == "ready" and "look" in found["shop"]["tools"]
    assert found["none"]["state"] == "error" and str(house.home / "none") in found["none"]["problem"]
    assert "There is no server 'x'" in house.run("mcp", "test", "x").stderr


async def test_a_login_is_finished_by_the_address_that_is_pasted(house: House) -> None:
    async with open_oauth_site() as (url, provider):
        await run_sync(lambda: house.run("mcp", "add", "shop", "--url", url))
        before = await run_sync(lambda: house.run("mcp", "test", "shop"))
        assert before.returncode == 1 and "auth_required" in before.stdout
        done = await run_sync(lambda: log_in(house))
        assert "That is not the address" in done
        assert "Logged in to shop" in done and provider.access
        after = await run_sync(lambda: house.run("mcp", "test", "shop", "--json"))
        assert json.loads(after.stdout)[0]["tools"] == ["look"]
    assert "Forgot the login" in house.run("mcp", "auth", "shop", "--forget").stdout
    assert "There is no server 'x'" in house.run("mcp", "auth", "x").stderr


def log_in(house: House) -> str:
    """Run the command, open its link as a browser on another machine would, and paste what comes of it."""
    (stdin, typed), (shown, stdout) = os.pipe(), os.pipe()
    words = ("mcp", "auth", "shop", "--no-browser")
    streams, env = (stdin, stdout, stdout), house.environ()
    with Forked("pilothouse", *words, env=env, cwd=house.home, streams=streams, packages=["mcp_client"]):
        os.close(stdin)
        os.close(stdout)
        with os.fdopen(shown) as screen, os.fdopen(typed, "w") as keys:
            address = next(line.strip() for line in screen if line.startswith("http://"))
            answer = httpx2.get(address, timeout=60).headers["location"]
            keys.write(f"nonsense\n{answer}\n")
            keys.flush()
            return screen.read()
