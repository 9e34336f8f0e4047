"""Public is what the internet can reach; everything else is refused, in whatever form it comes."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.http.pinned import is_public, parse_ip

PRIVATE = (
    *("0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.255", "127.0.0.1"),
    *("127.255.255.254", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1"),
    *("192.88.99.1", "192.168.1.1", "198.18.0.1", "198.19.255.255", "198.51.100.7", "203.0.113.9"),
    *("224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255"),
    *("::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::ffff:0:127.0.0.1"),
    *("64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::a00:1", "100::1", "fc00::1", "fd00:ec2::254"),
    *("fe80::1", "fe80::1%eth0", "2606:4700::1%eth0", "fec0::1", "ff02::1", "ff0e::1"),
    *("2001::1", "2001:0:7f00:1::", "2001:2::1", "2001:10::1", "2001:20::1", "2001:db8::1"),
    *("2002:7f00:1::1", "2002:a00:1::", "3fff::1", "4000::1", "5f00::1"),
)
OPEN = (
    *("1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255"),
    *("128.0.0.0", "162.159.130.233", "172.15.255.255", "172.32.0.0", "192.167.255.255", "192.169.0.0"),
    *(
        "198.17.255.255",
        "198.20.0.0",
        "223.255.255.255",
        "2606:4700::6810:84e5",
        "2a00:1450:4001::1",
        "2620:fe::fe",
    ),
)


@pytest.mark.parametrize("text", PRIVATE)
def test_what_is_not_public_is_refused(text: str) -> None:
    assert not is_public(ip_address(text))


@pytest.mark.parametrize("text", OPEN)
def test_what_is_public_is_taken(text: str) -> None:
    assert is_public(ip_address(text))


@given(st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)))
def test_what_python_calls_private_is_never_public(address: IPv4Address | IPv6Address) -> None:
    if is_public(address):
        assert address.is_global
        assert not (
            address.is_multicast or address.is_reserved or address.is_link_local or address.is_loopback
        )


@given(st.ip_addresses(v=4))
def test_no_ipv6_address_carries_an_ipv4_address_in_by_a_way_of_its_own(inside: IPv4Address) -> None:
    number = int(inside)
    wrapped = (
        number,
        0xFFFF << 32 | number,
        0xFFFF << 48 | number,
        0x64FF9B << 96 | number,
        0x2002 << 112 | number << 80 | 1,
        0x20010000 << 96 | number << 64 | (number ^ 0xFFFFFFFF),
    )
    assert not any(is_public(IPv6Address(one)) for one in wrapped)


@pytest.mark.parametrize(
    "text", ["127.1", "0177.0.0.1", "2130706433", "0x7f000001", "localhost", "", "1.2.3.4.5"]
)
def test_an_address_in_an_odd_notation_is_none(text: str) -> None:
    assert parse_ip(text) is None
