"""Why a server could not be reached: the words of the operating system, never the name of a library's class."""

from __future__ import annotations

import socket
import ssl

import aiohttp
import httpcore2
import pytest
from tests.ports import hold_port

from pilothouse.http.unreachable import why_unreachable

REFUSED = "the connection was refused"


@pytest.mark.anyio
async def test_both_libraries_tell_a_refused_connection_alike() -> None:
    with hold_port() as port:
        url = f"http://127.0.0.1:{port}/"
        async with httpcore2.AsyncConnectionPool() as pool:
            with pytest.raises(httpcore2.ConnectError) as of_httpcore:
                await pool.request("GET", url)
        async with aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.ClientConnectorError) as of_aiohttp:
                await session.get(url)
    assert why_unreachable(of_httpcore.value) == REFUSED
    assert why_unreachable(of_aiohttp.value) == REFUSED


def chained(outer: Exception, inner: Exception) -> Exception:
    outer.__cause__ = inner
    return outer


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            chained(httpcore2.ConnectError("x"), socket.gaierror(-2, "Name or service not known")),
            "its name cannot be resolved",
        ),
        (chained(httpcore2.ReadError(""), ConnectionResetError(104, "x")), "the connection was cut off"),
        (httpcore2.ConnectError("All connection attempts failed"), "All connection attempts failed"),
        (httpcore2.RemoteProtocolError(""), "remote protocol error"),
        (TimeoutError(), "no answer came in time"),
        (OSError(101, "Network is unreachable"), "Network is unreachable"),
        (ExceptionGroup("x", [ConnectionRefusedError(111, "x")]), REFUSED),
        (ssl.SSLCertVerificationError("self-signed"), "its certificate is not trusted here"),
    ],
)
def test_the_words_are_those_of_the_cause(error: Exception, words: str) -> None:
    assert why_unreachable(error).startswith(words)


def test_errors_that_came_of_each_other_end() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    assert why_unreachable(first) == "first"


@pytest.mark.parametrize(("code", "helps"), [(19, True), (20, True), (10, False), (62, False)])
def test_how_to_name_an_authority_is_told_where_it_is_the_cure_and_fits_into_every_message(
    code: int, helps: bool
) -> None:
    error = ssl.SSLCertVerificationError("x")
    error.verify_code, error.verify_message = code, "self-signed certificate in certificate chain"
    words = why_unreachable(error)
    assert ("SSL_CERT_FILE" in words and "SSL_CERT_DIR" in words) == helps
    assert len(words) <= 200
