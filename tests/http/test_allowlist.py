"""An address is plain and names one of our hosts, or it is refused by its text alone."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.http.host import CDN, MEDIA
from yarl import URL

from pilothouse.core.errors import ConfigError
from pilothouse.http.allowlist import Hosts, Origin, Target, Unfetched, parse_base

OURS = (CDN, MEDIA)
HOSTS = Hosts(OURS)

TRICKS = (
    f"http://{CDN}/a.png",
    f"ftp://{CDN}/a.png",
    f"file://{CDN}/etc/passwd",
    "file:///etc/passwd",
    f"//{CDN}/a.png",
    f"{CDN}/a.png",
    "/a.png",
    "",
    "https://",
    "https:///a.png",
    f"https:{CDN}/a.png",
    f"https:/{CDN}/a.png",
    f"https:\\\\{CDN}/a.png",
    # user names
    f"https://{CDN}@evil.example/a.png",
    f"https://user@{CDN}/a.png",
    f"https://user:word@{CDN}/a.png",
    f"https://@{CDN}/a.png",
    f"https://evil.example\\@{CDN}/a.png",
    f"https://{CDN}\\@evil.example/a.png",
    f"https://evil.example#@{CDN}/a.png",
    f"https://evil.example?@{CDN}/a.png",
    f"https://{CDN}%40evil.example/a.png",
    # ports
    f"https://{CDN}:80/a.png",
    f"https://{CDN}:22/a.png",
    f"https://{CDN}:8443/a.png",
    f"https://{CDN}:/a.png",
    f"https://{CDN}:0/a.png",
    f"https://{CDN}:-443/a.png",
    f"https://{CDN}:443443443/a.png",
    f"https://{CDN}:443:80/a.png",
    f"https://{CDN}:٤٤٣/a.png",
    # names that look like ours
    f"https://{CDN}./a.png",
    f"https://.{CDN}/a.png",
    f"https://evil.{CDN}/a.png",
    f"https://{CDN}.evil.example/a.png",
    f"https://evil{CDN}/a.png",
    f"https://{CDN}evil/a.png",
    "https://discordapp.com/a.png",
    "https://cdn.discordapp.net/a.png",
    "https://cdn.discоrdapp.com/a.png",  # a Cyrillic о
    "https://cdn。discordapp。com/a.png",  # ideographic full stops
    "https://ⓒdn.discordapp.com/a.png",
    "https://\uff43dn.discordapp.com/a.png",  # a wide c
    "https://xn--cdn-discordapp.com/a.png",
    "https://cdn%2Ediscordapp.com/a.png",
    "https://cdn.discordapp.com%00.evil.example/a.png",
    "https://cdn.discordapp.com%2f.evil.example/a.png",
    # numbers
    "https://127.0.0.1/a.png",
    "https://2130706433/a.png",
    "https://0x7f000001/a.png",
    "https://0x7f.0.0.1/a.png",
    "https://0177.0.0.1/a.png",
    "https://127.1/a.png",
    "https://127.0.0.1./a.png",
    "https://①②⑦.0.0.1/a.png",
    "https://[::1]/a.png",
    "https://[::ffff:127.0.0.1]/a.png",
    "https://[64:ff9b::7f00:1]/a.png",
    "https://169.254.169.254/latest/meta-data/",
    "https://localhost/a.png",
    "https://metadata.google.internal/",
    # what a request could be split with
    f"https://{CDN}/a.png HTTP/1.1",
    f"https://{CDN}/a\r\nHost: evil.example\r\n\r\n",
    f"https://{CDN}/a.png\n",
    f"\nhttps://{CDN}/a.png",
    f" https://{CDN}/a.png",
    f"https://{CDN}\t/a.png",
    f"https://{CDN[:4]}\n{CDN[4:]}/a.png",
    f"https://{CDN}/a\0.png",
    f"https://{CDN}/\\evil.example/a.png",
    f"https://{CDN}/a.png#fragment",
    f"https://{CDN}/%zz",
    f"https://{CDN}/" + "a" * 5000,
)


@pytest.mark.parametrize("url", TRICKS, ids=map(str, range(len(TRICKS))))
def test_a_trick_is_refused_with_words_that_do_not_repeat_it(url: str) -> None:
    found = HOSTS.find(url)
    assert isinstance(found, Unfetched)
    assert found.kind == "address"
    assert not re.search(r"://|discord|evil|127|a\.png", found.text)


@pytest.mark.parametrize(
    ("url", "host", "path"),
    [
        (
            f"https://{CDN}/attachments/1/2/a.png?ex=6&is=5&hm=ab&",
            CDN,
            "/attachments/1/2/a.png?ex=6&is=5&hm=ab&",
        ),
        (f"HTTPS://{MEDIA.upper()}/A%20b.png", MEDIA, "/A%20b.png"),
        (f"https://{CDN}:443/x", CDN, "/x"),
        (f"https://{CDN}", CDN, "/"),
        (f"https://{CDN}?a=b?c", CDN, "/?a=b?c"),
        (f"https://{CDN}/@evil.example/:22/", CDN, "/@evil.example/:22/"),
    ],
)
def test_a_plain_address_of_ours_is_taken(url: str, host: str, path: str) -> None:
    assert HOSTS.find(url) == Target(Origin("https", host, 443), path)


def slow_judge(url: str) -> str:
    """The host that two other parsers agree on, if it is ours and the address has nothing odd; else nothing."""
    if any(not "!" <= c <= "~" or c == "\\" for c in url):
        return ""
    try:
        parts, other = urlsplit(url), URL(url)
        ports = (parts.port, other.explicit_port)
    except ValueError:
        return ""
    agreed = parts.hostname == other.host and parts.scheme == other.scheme == "https"
    bare = "@" not in parts.netloc and parts.username is None and other.user is None
    fits = parts.netloc.lower() in {f"{name}{port}" for name in OURS for port in ("", ":443")}
    return parts.hostname or "" if agreed and bare and fits and set(ports) <= {None, 443} else ""


PIECES = st.sampled_from(
    [
        *(
            "https",
            "http",
            "HTTPS",
            "://",
            ":",
            "/",
            "//",
            "\\",
            "@",
            "#",
            "?",
            "%",
            ".",
            "443",
            "80",
            "[",
            "]",
        ),
        *(
            CDN,
            MEDIA,
            CDN.upper(),
            "evil.example",
            "127.0.0.1",
            "::1",
            "%40",
            "%2e",
            "\t",
            "\n",
            "\0",
            "。",
            "a.png",
        ),
    ]
)
ODD = st.one_of(
    st.lists(PIECES, max_size=9).map("".join),
    st.lists(PIECES, max_size=6).map(lambda pieces: f"https://{CDN}" + "".join(pieces)),
    st.builds("https://{}{}{}/a.png".format, PIECES, st.sampled_from(OURS), PIECES),
    st.text(max_size=40),
    st.sampled_from(TRICKS),
)


@given(ODD)
@example(f"https://{CDN}/a.png")
@example(f"https://{MEDIA}:443/?@")
def test_nothing_is_taken_that_two_other_parsers_would_not_find_at_our_hosts(url: str) -> None:
    found = HOSTS.find(url)
    if isinstance(found, Target):
        assert found.origin.host == slow_judge(url)
        assert (found.origin.scheme, found.origin.port, found.origin.configured) == ("https", 443, False)
        assert found.path.startswith("/")
        assert all("!" <= c <= "~" for c in found.path)


@given(
    st.sampled_from(OURS),
    st.from_regex(r"(/[A-Za-z0-9._~%-]{0,20}){1,5}(\?[a-z=&0-9]{0,30})?", fullmatch=True),
)
def test_every_plain_address_of_our_hosts_is_taken(host: str, path: str) -> None:
    path = re.sub(r"%", "%25", path)
    assert HOSTS.find(f"https://{host}{path}") == Target(Origin("https", host, 443), path)


def test_a_configured_server_is_allowed_as_it_was_written_and_no_other() -> None:
    hosts = Hosts([CDN], "http://127.0.0.1:8080/cdn")
    assert hosts.find("http://127.0.0.1:8080/a") == Target(
        Origin("http", "127.0.0.1", 8080, configured=True), "/a"
    )
    for near in (
        "http://127.0.0.1:8081/a",
        "https://127.0.0.1:8080/a",
        "http://127.0.0.1/a",
        "http://127.1:8080/a",
    ):
        assert isinstance(hosts.find(near), Unfetched)
    assert isinstance(Hosts([CDN]).find("http://127.0.0.1:8080/a"), Unfetched)


@pytest.mark.parametrize(
    "base", ["127.0.0.1:80", "ftp://x", "http://a@b", "http://x:99999", "http://x:y", "http://"]
)
def test_a_base_that_names_no_server_is_refused_with_what_to_write(base: str) -> None:
    with pytest.raises(ConfigError, match="HOST"):
        parse_base(base)


@pytest.mark.parametrize(
    "name", ["127.0.0.1", "localhost", "A.example", "a.example.", "1.2.3.4", "a b.example"]
)
def test_only_names_may_be_in_the_list(name: str) -> None:
    with pytest.raises(ValueError, match="no host name"):
        Hosts([name])
