"""Connecting to a checked address does not weaken TLS: the certificate must still be for the name."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from tests.http.host import CDN, LIMIT, PUBLIC, Names, Net, answering, open_host

from pilothouse.http.allowlist import Hosts, Unfetched
from pilothouse.http.fetch import Fetcher

HERE = Path(__file__).parent / "certificates"
URL = f"https://{CDN}/a.png"


def identity(name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(HERE / f"{name}.pem")
    return context


def trust() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(HERE / "authority.pem"))


async def test_the_host_is_reached_by_its_address_and_proves_its_name() -> None:
    asked: list[str | None] = []
    tls = identity("right")
    tls.sni_callback = lambda _socket, name, _context: asked.append(name)
    async with open_host(answering(b"picture"), tls=tls) as host:
        net = Net(host.port)
        found = await Fetcher(Hosts([CDN]), resolve=Names([PUBLIC]), net=net, trust=trust())(URL, LIMIT)
        assert found == b"picture"
        assert net.reached == [(PUBLIC, 443)]
        assert asked == [CDN]
        assert f"\r\nHost: {CDN}\r\n".encode() in host.heads[0]


@pytest.mark.parametrize(("name", "trusted"), [("wrong", True), ("right", False)])
async def test_a_host_that_cannot_prove_its_name_gets_no_request(name: str, trusted: bool) -> None:
    async with open_host(answering(b"picture"), tls=identity(name)) as host:
        context = trust() if trusted else None  # the machine's own authorities
        fetcher = Fetcher(Hosts([CDN]), resolve=Names([PUBLIC]), net=Net(host.port), trust=context)
        found = await fetcher(URL, LIMIT)
        assert isinstance(found, Unfetched)
        assert found.kind == "unreachable"
        assert "certificate" in found.text
        assert host.heads == []


async def test_a_host_without_tls_gets_no_request() -> None:
    async with open_host(answering(b"picture")) as host:
        fetcher = Fetcher(Hosts([CDN]), resolve=Names([PUBLIC]), net=Net(host.port), trust=trust())
        assert isinstance(await fetcher(URL, LIMIT), Unfetched)
        assert host.heads == []
