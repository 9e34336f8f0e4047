"""Logins by OAuth, against a real server with its own authorization server on loopback."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import anyio
import httpx2
import pytest
from mcp.client.auth import OAuthFlowError
from mcp.shared.auth import OAuthClientInformationFull
from pydantic import AnyUrl
from tests.mcp_client.oauth_site import SCOPE, browse, open_oauth_site
from tests.mcp_client.rig import Rig

from pilothouse.core.mcp import McpOAuth, McpServer
from pilothouse.mcp_client.callback import LoginError
from pilothouse.mcp_client.login import LoginPlan, log_in
from pilothouse.mcp_client.login_file import Login, LoginFile
from pilothouse.mcp_client.metadata import Discovery
from pilothouse.mcp_client.oauth import refresh

Paste = Callable[[str], None]


async def log_in_with_a_browser(rig: Rig, url: str) -> None:
    async with anyio.create_task_group() as tasks:

        async def show(address: str, paste: Paste) -> None:
            tasks.start_soon(browse, address)

        await log_in(LoginPlan("shop", McpServer(url=url), rig.folder / "logins"), show)


def stored(rig: Rig) -> tuple[Path, Login]:
    (file,) = (rig.folder / "logins").glob("*.json")
    (server,) = rig.servers.values()
    return file, LoginFile(rig.folder / "logins", "shop", server.url).read()


async def test_a_server_that_wants_a_login_is_used_after_it(tmp_path: Path) -> None:
    async with open_oauth_site() as (url, provider):
        rig = Rig(tmp_path, {"shop": McpServer(url=url)})
        async with rig.tools() as tools:
            (status,) = tools.statuses()
            assert status.state == "auth_required" and "pilothouse mcp auth shop" in status.problem
            refused = await tools.call("mcp__shop__look", {})
            assert refused.is_error and "wants a login" in refused.text
            assert not provider.clients, "nothing is registered before somebody logs in"
            await log_in_with_a_browser(rig, url)
            assert (await tools.call("mcp__shop__look", {})).text == "a shelf"
            assert tools.statuses()[0].state == "ready"
        file, login = stored(rig)
        assert file.stat().st_mode & 0o777 == 0o600 and file.parent.stat().st_mode & 0o777 == 0o700
        assert login.access_token in provider.access
        (client,) = provider.clients.values()
        assert client.client_name == "Pilothouse"
        assert [str(uri).startswith("http://127.0.0.1:") for uri in client.redirect_uris or ()] == [True]


async def test_a_token_that_is_over_is_refreshed_once_by_all_processes_together(tmp_path: Path) -> None:
    async with open_oauth_site() as (url, provider):
        rig = Rig(tmp_path, {"shop": McpServer(url=url)})
        provider.lives_s = 1  # so that every use needs a refresh
        await log_in_with_a_browser(rig, url)
        first = (
            await refresh("shop", rig.servers["shop"], LoginFile(tmp_path / "logins", "shop", url))
        ).access_token
        assert first in provider.access, "a login for another engine's client"
        provider.lives_s, before = 3600, provider.refreshed
        folder = str(tmp_path)
        async with rig.connections() as here, rig.connections() as there:  # as two processes
            with (
                here.lease(folder, trusted=True, own={}) as one,
                there.lease(folder, trusted=True, own={}) as other,
            ):
                for tools in (one, other):
                    await tools.settle(50)
                    assert (await tools.call("mcp__shop__look", {})).text == "a shelf"
                assert provider.refreshed == before + 1
                provider.access.clear()  # as if the server had forgotten it early
                assert (await one.call("mcp__shop__look", {})).text == "a shelf"
                assert provider.refreshed == before + 2
                login = await refresh(
                    "shop", rig.servers["shop"], LoginFile(tmp_path / "logins", "shop", url)
                )
                assert login.access_token in provider.access and provider.refreshed == before + 2
                provider.access.clear()
                provider.refresh.clear()
                lost = await one.call("mcp__shop__look", {})
                assert lost.is_error and "wants a login" in lost.text
                await wait_for(lambda: one.statuses()[0].state == "auth_required")


async def wait_for(holds: Callable[[], bool]) -> None:
    with anyio.fail_after(60):
        while not holds():
            await anyio.sleep(0.01)


@pytest.mark.parametrize("address", ["http://shop.example/token", "http://other.example/token"])
async def test_no_login_goes_over_http_to_another_machine_also_not_to_the_server_itself(address: str) -> None:
    discovery = Discovery(McpServer(url="http://shop.example/mcp"))
    with pytest.raises(OAuthFlowError, match="not encrypted"):
        discovery.check(httpx2.URL(address))
    for safe in ("https://shop.example/token", "http://127.0.0.1:80/token", "http://[::1]/token"):
        discovery.check(httpx2.URL(safe))


async def test_an_answer_of_another_login_is_not_taken_and_a_pasted_one_is(tmp_path: Path) -> None:
    async with open_oauth_site() as (url, _):
        rig = Rig(tmp_path, {"shop": McpServer(url=url)})
        said: list[object] = []

        async def show(address: str, paste: Paste) -> None:
            async with httpx2.AsyncClient() as browser:
                answer = (await browser.get(address)).headers["location"]
                forged = answer.replace("state=", "state=x")
                said.append((await browser.get(forged)).status_code)
            for words in ("what?", forged):
                with pytest.raises(LoginError) as refused:
                    paste(words)
                said.append(str(refused.value)[:25])
            paste(f" <{answer}>\n")

        await log_in(LoginPlan("shop", rig.servers["shop"], rig.folder / "logins"), show)
        assert said == [404, "That is not the address t", "That address belongs to a"]
        assert stored(rig)[1].access_token


async def test_a_login_that_nobody_finishes_or_that_is_refused_changes_nothing(tmp_path: Path) -> None:
    async def leave(address: str, paste: Paste) -> None:
        """Do nothing."""

    async def refuse(address: str, paste: Paste) -> None:
        state = httpx2.URL(address).params["state"]
        paste(f"http://127.0.0.1:1/mcp/callback?error=access_denied&state={state}")

    async with open_oauth_site() as (url, _):
        plan = LoginPlan("shop", McpServer(url=url), tmp_path, wait_s=0.1)
        with pytest.raises(LoginError, match=r"Nobody finished the login within 0\.1 s"):
            await log_in(plan, leave)
        with pytest.raises(LoginError, match="The login was refused: access_denied"):
            await log_in(LoginPlan("shop", McpServer(url=url), tmp_path), refuse)
        program = McpServer(command="x")
        with pytest.raises(LoginError, match="is a program"):
            await log_in(LoginPlan("shop", program, tmp_path), leave)
        assert not list(tmp_path.glob("*.json"))


async def test_configured_addresses_and_a_configured_client_replace_what_the_server_says(
    tmp_path: Path,
) -> None:
    async with open_oauth_site() as (url, provider), anyio.create_task_group() as tasks:
        base = url.removesuffix("/mcp")
        oauth = McpOAuth(
            issuer="http://127.0.0.1:9",  # nobody listens there: nothing is looked up
            authorization_url=f"{base}/authorize",
            token_url=f"{base}/token",
            client_id="ours",
        )
        rig = Rig(tmp_path, {"shop": McpServer(url=url, oauth=oauth)})

        async def show(address: str, paste: Paste) -> None:
            uri = AnyUrl(httpx2.URL(address).params["redirect_uri"])
            provider.clients["ours"] = OAuthClientInformationFull(
                client_id="ours", redirect_uris=[uri], token_endpoint_auth_method="none", scope=SCOPE
            )
            tasks.start_soon(browse, address)

        provider.lives_s = 1
        await log_in(LoginPlan("shop", rig.servers["shop"], rig.folder / "logins"), show)
        assert list(provider.clients) == ["ours"]
        async with rig.tools() as tools:
            assert (await tools.call("mcp__shop__look", {})).text == "a shelf"
        assert provider.refreshed >= 1, "the refresh goes to the configured address too"


async def test_a_login_belongs_to_one_address_and_a_broken_file_is_no_login(tmp_path: Path) -> None:
    file = LoginFile(tmp_path, "shop", "https://one.example/")
    await file.change(tokens={"access_token": "a"}, scope="x")
    await file.change(scope="y")
    assert file.read() == Login({"access_token": "a"}, scope="y")
    assert LoginFile(tmp_path, "shop", "https://two.example/").read() == Login()
    (path,) = tmp_path.glob("*.json")
    path.write_text(json.dumps({"tokens": 7}))
    assert file.read() == Login()
    assert file.forget() and not file.forget()


async def test_changes_of_many_tasks_are_all_kept(tmp_path: Path) -> None:
    async def add(name: str) -> None:
        file = LoginFile(tmp_path, "shop", "https://one.example/")
        async with file.locked():
            before = file.read()
            await anyio.lowlevel.checkpoint()
            file.write(Login({**before.tokens, name: 1}))

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(add, str(number))
    assert len(LoginFile(tmp_path, "shop", "https://one.example/").read().tokens) == 20
