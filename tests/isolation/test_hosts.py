"""Hosts are compared as the network sees them, however they are written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.isolation.hosts import (
    AllowedHost,
    Target,
    allowed_hosts,
    endpoint_hosts,
    is_forbidden_address,
    loopback_ports,
    normal_host,
    parse_target,
)


@pytest.mark.parametrize(
    ("written", "host"),
    [
        ("Docs.Example.com.", "docs.example.com"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("127.1", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("0x7f.0.0.1", "127.0.0.1"),
        ("localhost", "127.0.0.1"),
        ("[::1]", "::1"),
        ("0:0:0:0:0:0:0:1", "::1"),
    ],
)
def test_one_host_has_one_form(written: str, host: str) -> None:
    assert normal_host(written) == host


@pytest.mark.parametrize(
    "written", ["", ".", "a b", "a/b", "user@host", "a" * 70 + ".org", "a..b", "host%00"]
)
def test_what_is_no_host_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match=r"host|label"):
        normal_host(written)


@pytest.mark.parametrize(
    ("allowed", "target", "passes"),
    [
        ("docs.example.com", "docs.example.com:443", True),
        ("docs.example.com", "DOCS.EXAMPLE.COM.:443", True),
        ("docs.example.com", "docs.example.com:8443", False),
        ("docs.example.com", "evil-docs.example.com:443", False),
        ("docs.example.com", "a.docs.example.com:443", False),
        ("*.example.org", "a.example.org:443", True),
        ("*.example.org", "a.b.example.org:80", True),
        ("*.example.org", "example.org:443", False),
        ("*.example.org", "evilexample.org:443", False),
        ("example.org:8443", "example.org:8443", True),
        ("example.org:8443", "example.org:443", False),
        ("bücher.example", "xn--bcher-kva.example:443", True),
        ("10.0.0.1", "10.0.0.1:443", True),
        ("10.0.0.1", "10.0.1:443", True),
    ],
)
def test_an_allowed_host_covers_itself_alone(allowed: str, target: str, passes: bool) -> None:
    (one,) = allowed_hosts([allowed])
    assert one.covers(parse_target(target)) is passes


@pytest.mark.parametrize("text", ["host:0", "host:99999", "host:-1", "host:x", "[::1", "a b:1", ":443"])
def test_a_target_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"no (host|port)"):
        parse_target(text)


@pytest.mark.parametrize("text", ["①27.0.0.1", "ｌocalhost", "127。0。0。1"])
def test_other_spellings_of_this_machine_are_this_machine(text: str) -> None:
    assert normal_host(text) == "127.0.0.1"


@given(st.text(max_size=40))
def test_any_text_is_a_target_or_an_error(text: str) -> None:
    try:
        found = parse_target(text)
    except ValueError:
        return
    assert found.host == normal_host(found.host)
    assert parse_target(str(found)) == found


def test_endpoints_have_their_ports_and_those_of_this_machine_are_known() -> None:
    hosts = endpoint_hosts(
        [
            "https://api.example.org/v1",
            "http://127.0.0.1:9/x",
            "http://localhost:8/",
            "nonsense",
            "http://[::1",
        ]
    )
    assert hosts == [
        AllowedHost("api.example.org", 443),
        AllowedHost("127.0.0.1", 9),
        AllowedHost("127.0.0.1", 8),
    ]
    assert loopback_ports(hosts) == [8, 9]
    assert not hosts[0].covers(Target("api.example.org", 80))


def test_a_name_may_not_lead_to_this_machine() -> None:
    local = ("127.0.0.1", "::1", "0.0.0.0", "::", "fe80::1%eth0", "ff02::1")
    carried = ("::ffff:127.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "::ffff:0:7f00:1", "2002:7f00:1::")
    metadata = ("169.254.169.254", "fd00:ec2::254", "100.100.100.200", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1")
    for address in (*local, *carried, *metadata):
        assert is_forbidden_address(address), address
    for address in ("10.1.2.3", "192.0.2.7", "2001:db8::1", "64:ff9b::c000:207"):
        assert not is_forbidden_address(address), address
