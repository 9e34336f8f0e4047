"""Where a name leads is checked before anybody connects: everything on this net leads to a host that counts who comes."""

from __future__ import annotations

import socket
from collections.abc import Sequence

import httpcore2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.http.host import CDN, LIMIT, MEDIA, PUBLIC, Names, Net, open_host, saying
from tests.http.test_allowlist import ODD, TRICKS, slow_judge
from tests.http.test_ranges import PRIVATE

from pilothouse.http.allowlist import Hosts, Origin, Unfetched
from pilothouse.http.fetch import Fetcher
from pilothouse.http.pinned import Pinned, PrivateAddress, resolve

HOSTS = Hosts([CDN, MEDIA])
URL = f"https://{CDN}/a.png"


@pytest.mark.parametrize("address", PRIVATE)
async def test_a_name_that_leads_to_a_private_address_is_not_fetched_from(address: str) -> None:
    async with open_host(saying()) as host:
        net = Net(host.port)
        found = await Fetcher(HOSTS, resolve=Names([address]), net=net)(URL, LIMIT)
        assert isinstance(found, Unfetched)
        assert found.kind == "private"
        assert address not in found.text
        assert (net.reached, host.came) == ([], 0)


@pytest.mark.parametrize(
    "others", [["10.0.0.1", PUBLIC], [PUBLIC, "10.0.0.1"], [PUBLIC, "::1"], [PUBLIC, "127.1"]]
)
async def test_one_private_address_among_public_ones_refuses_them_all(others: list[str]) -> None:
    async with open_host(saying()) as host:
        net = Net(host.port)
        found = await Fetcher(HOSTS, resolve=Names(others), net=net)(URL, LIMIT)
        assert isinstance(found, Unfetched)
        assert found.kind == "private"
        assert (net.reached, host.came) == ([], 0)


async def test_a_name_is_resolved_once_and_the_checked_address_is_the_one_that_is_reached() -> None:
    """A rebinding name server: public for the check, ours for the connection."""
    async with open_host(saying()) as host:
        net, names = Net(host.port), Names([PUBLIC], ["127.0.0.1"])
        await Fetcher(HOSTS, resolve=names, net=net)(URL, LIMIT)
        assert names.asked == [CDN]
        assert net.reached == [(PUBLIC, 443)]


async def test_a_rebound_name_is_refused_the_next_time() -> None:
    async with open_host(saying()) as host:
        net, names = Net(host.port), Names([PUBLIC], ["169.254.169.254"])
        fetcher = Fetcher(HOSTS, resolve=names, net=net)
        await fetcher(URL, LIMIT)
        found = await fetcher(URL, LIMIT)
        assert isinstance(found, Unfetched)
        assert found.kind == "private"
        assert net.reached == [(PUBLIC, 443)]


async def test_an_address_that_is_dead_is_followed_by_the_next_one() -> None:
    async with open_host(saying()) as host:
        net = Net(host.port, dead=["2606:4700::1"])
        await Fetcher(HOSTS, resolve=Names(["2606:4700::1", PUBLIC]), net=net)(URL, LIMIT)
        assert net.reached == [("2606:4700::1", 443), (PUBLIC, 443)]


async def test_a_name_with_no_address_is_unreachable() -> None:
    async def unknown(host: str, port: int) -> Sequence[str]:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    for names in (unknown, Names([])):
        found = await Fetcher(HOSTS, resolve=names, net=Net(1))(URL, LIMIT)
        assert isinstance(found, Unfetched)
        assert found.kind == "unreachable"


@pytest.mark.parametrize("url", TRICKS, ids=map(str, range(len(TRICKS))))
async def test_a_trick_reaches_nobody(url: str) -> None:
    async with open_host(saying()) as host:
        net, names = Net(host.port), Names([PUBLIC])
        assert isinstance(await Fetcher(HOSTS, resolve=names, net=net)(url, LIMIT), Unfetched)
        assert (names.asked, net.reached, host.came) == ([], [], 0)


@settings(max_examples=200, deadline=None)
@given(
    ODD,
    st.lists(st.one_of(st.ip_addresses(), st.just(PUBLIC), st.sampled_from(PRIVATE)).map(str), max_size=3),
)
async def test_nobody_is_reached_but_a_public_address_of_a_host_of_ours(url: str, answers: list[str]) -> None:
    net, names = Net(1, dead=answers), Names(answers)
    await Fetcher(HOSTS, resolve=names, net=net)(url, LIMIT)
    assert names.asked in ([], [slow_judge(url)])
    for address, port in net.reached:
        assert address not in PRIVATE
        assert port == 443


async def test_the_way_to_one_host_leads_to_no_other() -> None:
    net = Net(1)
    way = Pinned(Origin("https", CDN, 443), Names([PUBLIC]), net)
    for host, port in ((MEDIA, 443), (CDN, 80), (PUBLIC, 443)):
        with pytest.raises(PrivateAddress):
            await way.connect_tcp(host, port)
    with pytest.raises(httpcore2.ConnectError):
        await way.connect_unix_socket("/run/docker.sock")
    assert not net.reached


async def test_the_machines_own_resolver_gives_addresses_that_can_be_checked() -> None:
    assert set(await resolve("127.0.0.1", 443)) == {"127.0.0.1"}
    found = await Fetcher(Hosts(["localhost.localdomain"]), resolve=lambda *_: resolve("localhost", 443))(
        "https://localhost.localdomain/", LIMIT
    )
    assert isinstance(found, Unfetched)
    assert found.kind in ("private", "unreachable")
