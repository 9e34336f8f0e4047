"""Configured MCP servers reach the engine with every turn, and people with `/mcp`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
from tests.mcp_client.oauth_site import open_oauth_site
from tests.mcp_client.rig import PROGRAM
from tests.runtime.puppet import PuppetEngine, Strings
from tests.runtime.rig import MEMBER, Rig, open_rig

from pilothouse.bootstrap.mcp_servers import McpHost, servers_for_engines
from pilothouse.channels.memory import PERSON
from pilothouse.config import Loaded, find_paths, load
from pilothouse.core.ids import SessionId
from pilothouse.core.message import Author, Content
from pilothouse.core.people import People
from pilothouse.runtime.outbox import content_of
from pilothouse.runtime.ports import Ports
from pilothouse.runtime.trust import trust, untrust


class OwnTools:
    @contextmanager
    def lease(self, ports: Ports, session_id: SessionId) -> Iterator[Mapping[str, Any]]:
        yield {"pilothouse": {"url": "http://own/"}}

    async def run(self, ports: Ports) -> None: ...


async def test_a_turn_gets_the_servers_of_its_workspace_and_cannot_lose_our_own(tmp_path: Path) -> None:
    briefs: list[Mapping[str, Any]] = []
    asked: list[tuple[str, bool]] = []

    async def play(strings: Strings) -> None:
        briefs.append(strings.brief.mcp_servers)
        await strings.start()
        await strings.end()

    async def servers(workspace: str, trusted: bool) -> Mapping[str, Any]:
        asked.append((workspace, trusted))
        return {"shop": {"command": "shop"}, "pilothouse": {"url": "http://evil/"}}

    async with open_rig(tmp_path, PuppetEngine(play), tools=OwnTools()) as rig:
        rig.ports.mcp_servers = servers
        await rig.channel.say("go")
        await rig.until_ended()
    assert briefs == [{"shop": {"command": "shop"}, "pilothouse": {"url": "http://own/"}}]
    assert [trusted for _, trusted in asked] == [False]


async def reply(rig: Rig, line: str, *, by: Author = PERSON) -> Content:
    receipt = await rig.channel.say(line, author=by)
    row = await rig.until(lambda tx: tx.outbox.by_key(f"reply:{receipt.message_id}"))
    return content_of(row)


def load_servers(home: Path, text: str) -> Loaded:
    home.mkdir()
    (home / "config.toml").write_text(text)
    environ = {"PILOTHOUSE_HOME": str(home)}
    return load(find_paths(environ), environ)


async def test_a_chat_shows_the_servers_and_logs_in_to_one_by_a_link_and_a_pasted_address(
    tmp_path: Path,
) -> None:
    async with open_oauth_site() as (url, provider), open_rig(tmp_path) as rig:
        files = f'[mcp.servers.files]\ncommand = "{sys.executable}"\nargs = ["{PROGRAM}"]\n'
        off = '[mcp.servers.old]\ncommand = "x"\nenabled = false\n'
        loaded = load_servers(tmp_path / "home", f'{files}{off}[mcp.servers.shop]\nurl = "{url}"\n')
        async with McpHost(lambda: loaded, "marker", rig.ports.log, report_s=50).run() as rig.ports.mcp:
            shown = await reply(rig, "/mcp")
            assert shown.text.splitlines() == [
                f"✓ files ({sys.executable}): 9 tools",
                "– old (x): off",
                f"! shop ({url}): wants a login",
                "/mcp auth NAME logs in.",
            ]
            assert [button.line for button in shown.buttons] == ["/mcp auth shop"]
            assert (
                "No login to shop is under way" in (await reply(rig, "/mcp auth shop http://x?code=1")).text
            )
            link = next(
                line for line in (await reply(rig, "/mcp auth shop")).text.splitlines() if "?" in line
            )
            async with httpx2.AsyncClient(timeout=60) as browser:
                answer = (await browser.get(link)).headers["location"]
            assert "not the address" in (await reply(rig, "/mcp auth shop nonsense")).text
            assert "Logged in to shop" in (await reply(rig, f"/mcp auth shop {answer}")).text
            assert f"✓ shop ({url}): 1 tool" in (await reply(rig, "/mcp")).text
            given = await servers_for_engines(lambda: loaded, rig.ports.log, str(tmp_path), False)
            (token,) = provider.access
            assert given["shop"]["headers"] == {"Authorization": f"Bearer {token}"}
            assert "There is no MCP server 'x'" in (await reply(rig, "/mcp auth x")).text
            assert "logs in to one of them" in (await reply(rig, "/mcp what")).text


async def test_before_servers_start_for_a_report_the_trust_in_the_folder_is_checked(tmp_path: Path) -> None:
    noted: list[tuple[str, bool, bool]] = []

    def note(real: str, trusted: bool, jail: bool) -> None:
        noted.append((real, trusted, jail))

    async with open_rig(tmp_path, note_trust=note) as rig:
        await rig.store.write(lambda tx: trust(tx, str(tmp_path), "ann", 1.0))
        await reply(rig, "/mcp")
        await rig.store.write(lambda tx: untrust(tx, str(tmp_path), "ann", 2.0))
        await reply(rig, "/mcp")
        real = os.path.realpath(tmp_path)
        assert noted == [(real, True, False), (real, False, False)]


async def test_a_member_sees_the_servers_and_only_an_owner_logs_in(tmp_path: Path) -> None:
    people = People({PERSON.id: "owner", MEMBER.id: "member"})
    async with open_rig(tmp_path, people=people) as rig:
        assert "No MCP servers here" in (await reply(rig, "/mcp", by=MEMBER)).text
        assert (await reply(rig, "/mcp auth x", by=MEMBER)).text == "Only an owner may do that here."
