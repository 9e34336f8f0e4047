"""Where a Bot API server is, and as whom we speak to it."""

from __future__ import annotations

import re

from msgspec import Struct

from pilothouse.channels.telegram.address import Server, parse_server, without_login
from pilothouse.core.errors import ConfigError
from pilothouse.core.secret import Secret

API_BASE = "https://api.telegram.org"

_TOKEN = re.compile(r"\d{1,20}:[A-Za-z0-9_-]{1,100}", re.ASCII)


class Endpoint(Struct, frozen=True):
    """A server of one's own has its own `api_base`; `file_base` is `api_base` and `/file` unless it is given.

    `proxy` is an address such as `http://10.0.0.1:3128`; without it the environment's `HTTPS_PROXY` counts.
    """

    token: Secret
    api_base: str = API_BASE
    file_base: str = ""
    proxy: str = ""

    @property
    def shown(self) -> str:
        """The server, as it may be named to people."""
        return without_login(self.api_base)

    @property
    def files_shown(self) -> str:
        return f"{without_login(self.file_base)} (file_base)" if self.file_base else f"{self.shown}/file"

    @property
    def calls(self) -> Server:
        return _base("api_base", self.api_base)

    @property
    def files(self) -> Server:
        return _base("file_base", self.file_base or f"{self.api_base.rstrip('/')}/file")

    @property
    def token_is_plausible(self) -> bool:
        return _TOKEN.fullmatch(self.token.reveal()) is not None


def _base(name: str, text: str) -> Server:
    try:
        return parse_server(text)
    except ValueError as error:
        raise ConfigError(
            f"{name} is {without_login(text)!r}, which is no address of a Bot API server: {error}"
        ) from None
